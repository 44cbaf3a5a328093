"""Senders: what stands in every mail of somebody, whatever it says.

To "Where are lost things kept?" a model that finds no answer says "The front desk": each mail is
signed so. That is no answer of the document. A signature is its last paragraph, where no line of it
is a sentence; "On 3 May Ida wrote:" and what is quoted may follow.
"""

from __future__ import annotations

import re

_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_FIELD = re.compile(r"^(?:From|To|Cc|Bcc|Reply-To|Date|Sent):.*\n?", re.MULTILINE)
_LONGEST = 8  # words of a line of a signature
_LINES = 6
_SENTENCE = re.compile(r"[.!?\u2026][\"'\u201d\u00bb)\]]*$")
_QUOTED = re.compile(r"^[ \t]*>|:$")


def without_sender(text: str) -> str:
    """A mail without its fields of sender and time, and without the signature under it.

    What has no sentence stays as it is: a record, a row of a table.
    """
    paragraphs = _PARAGRAPHS.split(text.rstrip())
    if not any(map(_says, paragraphs)):
        return text
    at = len(paragraphs) - 1
    while at > 0 and _is_quoted(paragraphs[at]):
        at -= 1
    # "Courses on Saturday:" and a list below it are no signature.
    if any(map(_says, paragraphs[:at])) and not paragraphs[at - 1].rstrip().endswith(":"):
        paragraphs = paragraphs[:at] + paragraphs[at + _signs(paragraphs[at]) :]
    return "\n\n".join([_FIELD.sub("", paragraphs[0]), *paragraphs[1:]])


def _says(paragraph: str) -> bool:
    """True where a line of it is, or ends, a sentence."""
    return any(_SENTENCE.search(line.rstrip()) for line in paragraph.splitlines())


def _is_quoted(paragraph: str) -> bool:
    return all(_QUOTED.search(line.rstrip()) for line in paragraph.splitlines())


def _signs(paragraph: str) -> bool:
    lines = paragraph.splitlines()
    return len(lines) <= _LINES and all(
        len(line.split()) <= _LONGEST and not _says(line) for line in lines
    )
