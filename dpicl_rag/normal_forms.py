"""Unicode's normal forms, in time that grows with a text's length."""

from __future__ import annotations

import unicodedata
from typing import Literal

import regex

MOST_MARKS = 30
"""Of a run of combining marks the first so many are kept, as Unicode's Stream-Safe Text Format has
it (UAX #15, 13). Marks are put in order by insertion, which is quadratic in the length of a run."""

# The last two become marks under NFKC and NFKD.
_LONG_RUN = regex.compile(rf"([\p{{M}}\uff9e\uff9f]{{{MOST_MARKS}}})[\p{{M}}\uff9e\uff9f]+")


def normal_form(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """`unicodedata.normalize` of a text whose runs of combining marks are cut to `MOST_MARKS`."""
    if text.isascii():
        return text
    return unicodedata.normalize(form, _LONG_RUN.sub(r"\1", text))
