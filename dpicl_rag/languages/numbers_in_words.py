"""Numbers of a text, in digits: "twelve seconds" becomes "12 seconds"."""

from __future__ import annotations

import re

# Reading numbers takes the square of a text's length, and holds all other threads.
_PIECE = re.compile(r".{1,2000}(?!\S)|.{1,2000}", re.DOTALL)


def has_digit(word: str) -> bool:
    """True of a word with a digit in it."""
    return any(map(str.isdigit, word))


def in_digits(text: str, language: str) -> str:
    """The text with its numbers in digits."""
    from text_to_num import alpha2digit

    return "".join(alpha2digit(piece, language) for piece in _PIECE.findall(text))
