"""Subjects of mail: what a reply or a forward puts before them."""

from __future__ import annotations

import re

# "Re:" and its like in the languages of common mail programs, also "Re[2]:" and "RE (3) :".
_REPLY = r"re|r|aw|antw|antwort|sv|vs|ref|rif|res|odp|ynt|atb|回复|答复|返信|답장"
_FORWARD = r"fw|fwd|wg|tr|rv|enc|i|doorst|vb|vl|pd|weitergeleitet|转发|転送|전달"
_COUNT = r"\s*(?:\[\d+\]|\(\d+\))?\s*[:：]\s*"
_LIST_TAG = r"\s*(?:\[[^\]]{1,40}\]\s*)?"
_REPLY_PREFIX = re.compile(rf"{_LIST_TAG}(?:{_REPLY}){_COUNT}", re.I)
_FORWARD_PREFIX = re.compile(rf"{_LIST_TAG}(?:{_FORWARD}){_COUNT}", re.I)
_PREFIX = re.compile(rf"(?:{_REPLY}|{_FORWARD}){_COUNT}|\[[^\]]{{1,40}}\]\s*", re.I)
_SUFFIX = re.compile(r"\s*\((?:fwd|fw|wg)\)$", re.I)
# Subjects that mail programs fill in when the writer gave none.
_NO_SUBJECT = frozenset(
    [
        "no subject",
        "(no subject)",
        "<no subject>",
        "none",
        "(none)",
        "kein betreff",
        "(kein betreff)",
    ]
)
# A subject longer than this is compared by its beginning, as mail programs cut it too.
_LONGEST = 500


def normalise(subject: str) -> str:
    """A subject without reply and forward marks, list tags, case and extra blanks.

    Empty for a subject that says nothing, so that such messages are not taken for one thread.
    """
    rest = " ".join(subject[:_LONGEST].split()).casefold()
    while True:
        shorter = _SUFFIX.sub("", rest)
        if match := _PREFIX.match(shorter):
            shorter = shorter[match.end() :]
        if shorter == rest:
            return "" if rest in _NO_SUBJECT else rest
        rest = shorter.strip()


def is_reply(subject: str) -> bool:
    """Whether the outermost mark of a subject is that of a reply."""
    return _REPLY_PREFIX.match(subject) is not None


def is_forward(subject: str) -> bool:
    """Whether the outermost mark of a subject is that of a forward."""
    return _FORWARD_PREFIX.match(subject) is not None
