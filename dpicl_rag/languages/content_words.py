"""Words that carry what a text says: their stems, without the words that every text has.

"It takes nine days" and "take 9 day" have the same. English; in other languages function words
count as content, and words are compared as they are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dpicl_rag.normal_forms import normal_form

# Reading numbers takes the square of a text's length, and holds all other threads.
_PIECE = re.compile(r".{1,2000}(?!\S)|.{1,2000}", re.DOTALL)


def has_digit(word: str) -> bool:
    """True of a word with a digit in it."""
    return any(map(str.isdigit, word))


def in_digits(text: str, language: str) -> str:
    """The text with its numbers in digits."""
    from text_to_num import alpha2digit

    return "".join(alpha2digit(piece, language) for piece in _PIECE.findall(text))


_JOINED = 2  # places from a word to the one behind what joins them


def runs_of(counted: Sequence[bool], joining: Sequence[bool] = ()) -> Iterator[list[int]]:
    """Places that count and stand together, or with one between that joins them."""
    run: list[int] = []
    for at in (at for at, one in enumerate(counted) if one):
        joined = joining and run and at - run[-1] == _JOINED and joining[at - 1]
        if run and at - run[-1] > 1 and not joined:
            yield run
            run = []
        run.append(at)
    if run:
        yield run


def run_together(words: Sequence[str]) -> str:
    """Words in small letters as one, without hyphens and apostrophes."""
    return re.sub(r"\W", "", "".join(words).casefold())


_WORD = re.compile(r"\w{1,99}")  # a stemmer goes through a longer one many times
_TWO = re.compile(r"\btwo\b", re.IGNORECASE)

FUNCTION_WORDS = frozenset(
    """
    a about after all also an and any are as at be because been before being but by can could did do
    does for from had has have he her here hers him his how i if in into is it its just me more most
    must my no not of on or our out over shall she should so some such than that the their them then
    there these they this those through to too under until up us very was we were what when where
    which while who whom whose why will with would yes you your
    """.split()  # noqa: SIM905
)


def digits_for_words(text: str) -> str:
    """The text with numbers from two on in digits: "twelve seconds" becomes "12 seconds"."""
    # "one" and "second" stay as they are, which are more than numbers, and "two" with them.
    return _TWO.sub("2", in_digits(text, "en"))


def content_words(text: str) -> frozenset[str]:
    """Stems of the words of a text that are no function words."""
    import snowballstemmer

    plain = digits_for_words(normal_form("NFKC", text)).casefold()
    words = frozenset(_WORD.findall(plain)) - FUNCTION_WORDS
    # A stemmer holds the word that it is at: threads that shared one would stem each other's.
    return frozenset(snowballstemmer.stemmer("english").stemWords(sorted(words)))
