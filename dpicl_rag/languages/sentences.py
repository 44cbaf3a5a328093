"""Ends of sentences: what a point ends, and what it only abbreviates.

A point after "8", "z. B", "Mr" or "J" often ends no sentence. It is decided by the words around it,
in five languages: a fragment that is released as a sentence cannot be mended afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from dpicl_rag.languages.languages import is_date, is_function_word, language_of, languages

_MARK = re.compile(r"[.!?\u3002\uff01\uff1f](?=[\s\"')\]]|$)|\n")
"""A sentence ends before white space, so that "3.5" and "e.g.that" go on."""

_AROUND = " \t\"'()[]\u00a0\u00ab\u00bb\u201c\u201d\u201e\u2019"
_FAR = 60  # characters before a point that are looked at
_ORDINAL = re.compile(r"\d{1,2}(?:\.\d{1,2})?")
_INITIALS = re.compile(r"[^\W\d_](?:\.[^\W\d_])+")
_PIECE = re.compile(r"[^\W\d_]{1,2}\.(?!\w)")
_MONTH = re.compile(r"[^\W\d_]{3,}")
_BEFORE_ORDINALS = frozenset(
    "am beim das dem den der des die im ins jede jeden jeder jedes vom zum zur".split()  # noqa: SIM905
)


def first_sentence(text: str) -> str:
    """The text up to the end of its first sentence, without the mark; or all of it."""
    text = text.lstrip()
    for mark in _MARK.finditer(text):
        if ends_sentence(text[: mark.end()], text[mark.end() :]):
            return text[: mark.start()]
    return text


def sentences(text: str) -> Iterator[tuple[str, str]]:
    """Each sentence of a text without its mark, and the mark; none at the end of the text."""
    while text := text.lstrip():
        sentence = first_sentence(text)
        yield sentence, text[len(sentence) : len(sentence) + 1]
        text = text[len(sentence) + 1 :]


def statements(text: str) -> Iterator[str]:
    """The sentences of a text that may tell something, without their marks.

    Questions, greetings, and who sent a mail about what tell nothing. A line that goes on in the
    next one is no end; a row of a table, and an item of a list, is.
    """
    for paragraph in _PARAGRAPHS.split(without_sender(text)):
        for sentence, mark in sentences(_WRAPPED.sub(" ", _SUBJECT_LINE.sub("", paragraph))):
            if sentence.strip() and not (mark == "?" or sentence.rstrip().endswith(",")):
                yield sentence.strip()


def ends_sentence(before: str, after: str) -> bool:
    """Whether a sentence ends between two texts.

    Args:
        before: Ends with a mark or a line break.
        after: What follows, as far as it is known.
    """
    if not before.endswith(".") or before.endswith(".."):
        return True
    words = before[-_FAR:-1].split()
    next_word = after.lstrip(_AROUND)
    if not words or not next_word or after.lstrip(" ")[:1] == "\n":
        return True
    word, last = words[-1].strip(_AROUND), words[-2].strip(_AROUND) if len(words) > 1 else ""
    folded, previous = word.casefold(), last.casefold()
    abbreviations, closing, numbering = _lists()
    if _ORDINAL.fullmatch(word):
        return not _is_ordinal(word, previous, before, next_word)
    if folded in closing:
        return next_word[:1].isupper()
    if folded in abbreviations or f"{previous} {folded}" in abbreviations:
        return False
    numbered = folded in numbering or any(one.is_month(folded) for one in languages())
    if numbered and next_word[:1].isdigit():
        return False
    return not _is_initial(word, last, next_word)


def _is_initial(word: str, last: str, next_word: str) -> bool:
    """True of "J" in "J. Weber", of "z" and "B" in "z. B.", and of "e.g"."""
    if _INITIALS.fullmatch(word) or (_PIECE.fullmatch(last) and len(word) <= 2):
        return True
    if len(word) != 1 or not word.isalpha():
        return False
    if _PIECE.match(next_word):
        return True
    # "M. Dupont", "by J. Weber"; but "Bring it to gate B. Then wait".
    named = not last or not last.islower() or is_function_word(last)
    return word.isupper() and next_word[:1].isupper() and named and (word != "I" or not last)


def _is_ordinal(number: str, previous: str, before: str, next_word: str) -> bool:
    """True of "21" in "21. November" and of "2" in "im 2. Stock"."""
    if next_word[:1].islower() or (next_word[:1].isdigit() and "." not in number):
        return True
    if (name := _MONTH.match(next_word)) and any(
        one.begins_month(name[0].casefold()) for one in languages()
    ):
        return True
    german = previous in _BEFORE_ORDINALS and "." not in number
    return german and language_of(f"{before} {next_word}").nouns_have_capitals


def _lists() -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Abbreviations of all languages: those that end nothing, that may, and before numbers."""
    every = languages()
    return (
        frozenset().union(*(one.abbreviations for one in every)),
        frozenset().union(*(one.closing_abbreviations for one in every)),
        frozenset().union(*(one.before_numbers for one in every)),
    )


_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_FIELD = re.compile(
    r"^(?:To|Cc|Bcc|Reply-To|Date|Sent|An|Gesendet|Datum|À|Envoyé|Para|Enviado|Fecha|A|Inviato"
    r"|Data) ?:.*\n?",
    re.MULTILINE,
)
"""Of a mail's head, but for its sender and subject."""

_SENDER = re.compile(r"^(?:From|Von|De|Da) ?:.*\n?", re.MULTILINE)
_ADDRESS = re.compile(r"[ \t]*<[^<>\n]*@[^<>\n]*>")
_SUBJECT = re.compile(r"^(?:Subject|Betreff|Objet|Asunto|Oggetto) ?:", re.MULTILINE)
_SUBJECT_LINE = re.compile(rf"{_SUBJECT.pattern}.*\n?", re.MULTILINE)
_LONGEST = 8  # words of a line of a signature
_LINES = 6
_SENTENCE = re.compile(r"[.!?\u2026][\"'\u201d\u00bb)\]]*$")
_ITEM = re.compile(r"\s*(?:[-*\u2022]|\d+[.)])\s+\S")
_CONTACT = r"\S*@|www\.|[+(]?\d[\d ()/.-]{5,}$"
_REACHED = re.compile(rf"(?:^|\s)(?:{_CONTACT})")
_ENTRY = re.compile(rf"{_ITEM.pattern}|[^\W\d][\w .-]{{0,30}}:\s*(?!{_CONTACT})\S")
"""Of a list, or of a form."""

_QUOTED = re.compile(r"^[ \t]*>|:$")
_WRAPPED = re.compile(rf"(?<=[^\n|\t]{{40}})\n(?!{_ITEM.pattern}|[^\n]*[|\t])")
"""The end of a long line that the next one goes on with."""


def without_sender(text: str) -> str:
    """A mail without its fields of sender and time, and without the signature under it.

    A text of several mails, each under its own fields, is read as such. What has no sentence stays
    as it is: a record, a row of a table.
    """
    return _mails(text, lambda head: _SENDER.sub("", _FIELD.sub("", head)), of_letters=True)


def mail_as_read(text: str, *, dated: bool = False) -> str:
    """A mail as an expert reads it: its subject, the name of who writes, and what is said.

    Addresses, dates and the signature are what experts take for an answer that they do not find,
    and two thirds of a short mail. A letter without a head keeps its signature: nothing else tells
    who says "I". The fields of the head stay where it is `dated`, see `names_a_day`.
    """

    def named(head: str) -> str:
        kept = head if dated else _FIELD.sub("", head)
        return _SENDER.sub(lambda sender: _ADDRESS.sub("", sender[0]), kept).rstrip("\n")

    return _mails(text, named, of_letters=False)


def names_a_day(question: str) -> bool:
    """True of a public question for a day or a month, which the head of a mail may tell."""
    return any(map(is_date, re.findall(r"[^\W\d_]+", question.casefold())))


def _mails(text: str, head_of: Callable[[str], str], *, of_letters: bool) -> str:
    """A text of one mail or several, each with another head and without its signature.

    Args:
        text: Any.
        head_of: Makes the other head.
        of_letters: Whether what has no head loses its signature, too.
    """
    paragraphs = _PARAGRAPHS.split(text.rstrip())
    if not any(map(_says, paragraphs)):
        return text
    heads = [at for at, one in enumerate(paragraphs) if _is_head(one, first=at == 0)]
    for at in heads:
        paragraphs[at] = head_of(paragraphs[at])
    ends = sorted({0, *heads, len(paragraphs)})
    said: list[str] = []
    for start, end in pairwise(ends):
        mail, headed = paragraphs[start:end], start in heads
        said += _unsigned(mail, headed=headed) if headed or of_letters else mail
    return "\n\n".join(said)


def _unsigned(mail: list[str], *, headed: bool) -> list[str]:
    """The paragraphs of one mail without the signature; of a note without a head, too."""
    at = len(mail) - 1
    while at > 0 and _is_quoted(mail[at]):
        at -= 1
    # "Courses on Saturday:" and a list below it are no signature.
    if any(map(_says, mail[:at])) and not mail[at - 1].rstrip().endswith(":"):
        return mail[:at] + mail[at + _signs(mail[at], headed=headed) :]
    return mail


def _is_head(paragraph: str, *, first: bool) -> bool:
    """True of the fields of a mail; within a text "From: 8:00" may be an hour."""
    fields = [one.search(paragraph) is not None for one in (_SENDER, _SUBJECT)]
    return any(fields) if first else all(fields)


def _says(paragraph: str) -> bool:
    """True where a line of it is, or ends, a sentence."""
    return any(_SENTENCE.search(line.rstrip()) for line in paragraph.splitlines())


def _is_quoted(paragraph: str) -> bool:
    return all(_QUOTED.search(line.rstrip()) for line in paragraph.splitlines())


def _signs(paragraph: str, *, headed: bool) -> bool:
    """True of a signature. Without a head "Rx: rest" is of none, and "Tel.: 0555 212" of one.

    Above a number or an address a firm may have a long name.
    """
    lines, entry = paragraph.splitlines(), _ITEM if headed else _ENTRY
    longest = _LONGEST * (2 if any(map(_REACHED.search, lines)) else 1)
    return len(lines) <= _LINES and all(
        len(line.split()) <= longest and not (_says(line) or entry.match(line)) for line in lines
    )
