"""The canonical form of a sentence: what two experts must have in common to say the same.

It is what is released, so nothing that only one expert said can be in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from dpicl_rag.language_models.content_words import digits_for_words
from dpicl_rag.normal_forms import normal_form

CanonicalForm = Callable[[str], str | None]
"""From an expert's words to the words that stand for them; None, or no text, for no vote. Public:
a function of its argument alone."""

# A sentence ends before white space, so that "3.5" and "e.g.that" go on.
_SENTENCE = re.compile(r"[.!?\u3002\uff01\uff1f](?=[\s\"')\]]|$)|\n")
_QUOTES = str.maketrans("", "", '"`*\u201c\u201d\u201e\u00ab\u00bb')
_AROUND = " \t\r\n.,;:!?'\u3002"

# "The refund", "a refund" and "our refund" are the same; "plan A" stays.
_ARTICLES = re.compile(r"(?:^(?:A|An|The|Our|Your|My)|\b(?:a|an|the|our|your|my))\s+(?=\w)")

_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DAY_FIRST = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?({_MONTHS})\b")
_MONTH_FIRST = re.compile(rf"\b({_MONTHS})\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?![.:]\d)")
_CENTS = re.compile(r"(?<=\d)\.00(?=\s|$)")
_DOTTED_TIME = re.compile(r"\b(\d{1,2})\.(\d\d)(?=\s*[ap]\.?m\b)", re.IGNORECASE)
_LEADING_ZERO = re.compile(r"\b0(?=\d:\d\d\b)")
_HALF_DAY = re.compile(r"(?<=\d)\s*([ap])\.?m\b\.?", re.IGNORECASE)
_UNITS = {"s": "seconds", "sec": "seconds", "secs": "seconds", "min": "minutes", "mins": "minutes"}
_UNIT = re.compile(rf"(?<=\d)\s*({'|'.join(_UNITS)})\b\.?")


def first_sentence(text: str) -> str:
    """The text up to the end of its first sentence, or all of it."""
    text = text.lstrip()
    end = _SENTENCE.search(text)
    return text if end is None else text[: end.start()]


def canonical_form(text: str) -> str | None:
    """NFKC, single spaces, no marks around, no articles; numbers, dates and times in one form."""
    form = normal_form("NFKC", text).translate(_QUOTES)
    if not all(character.isprintable() or character.isspace() for character in form):
        return None
    plain = _ARTICLES.sub("", _numbers(" ".join(form.split())))
    return " ".join(plain.split()).strip(_AROUND) or None


def _numbers(text: str) -> str:
    """Numbers in digits, dates as "3 March", times as "6:40"."""
    text = _DOTTED_TIME.sub(r"\1:\2", _CENTS.sub("", digits_for_words(text)))
    text = _LEADING_ZERO.sub("", text)
    text = _MONTH_FIRST.sub(r"\2 \1", _DAY_FIRST.sub(r"\1 \2", text))
    text = _HALF_DAY.sub(lambda found: f" {found.group(1).lower()}m", text)
    return _UNIT.sub(lambda found: f" {_UNITS[found.group(1)]}", text)
