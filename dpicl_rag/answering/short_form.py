"""The short form of a sentence: the names and numbers that answer the question.

Threads word a fact each in its own way, and yet give the same number, date or name. So where too
few experts say the same sentence, what is counted is that part of it. English, like
`content_words`: names are words with a capital.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from dpicl_rag.language_models.content_words import FUNCTION_WORDS, content_words

_MARKS = ".,;:!?()"
_WITH_NUMBER = 2  # words that belong to a number before them: "9 working days"

# "How do I ...", "Why ...", "What should I do ..." ask for more than a name or a number.
_AUXILIARY = "am|are|can|could|did|do|does|is|may|might|must|shall|should|to|was|were|will|would"
_HOW = re.compile(
    rf"\b(?:how\s+(?:{_AUXILIARY})|why|what\s+(?:{_AUXILIARY})\b.*\bdo)\b", re.IGNORECASE
)


def asks_how(question: str) -> bool:
    """Whether a question asks for more than a name or a number."""
    return _HOW.search(question) is not None


def short_form(form: str, asked: frozenset[str]) -> str:
    """Names and numbers of a sentence, and the words that belong to them; all of it without any.

    Args:
        form: Canonical form of the sentence.
        asked: Content words of the question: they say nothing new.
    """
    words = [word.strip(_MARKS) for word in form.split()]
    kept = {at for at, word in enumerate(words) if _is_value(word) and _is_news(word, asked)}
    # The first word has a capital anyhow.
    if 0 in kept and not (_has_digit(words[0]) or words[0][1:].lower() != words[0][1:]):
        kept -= set() if 1 in kept and words[1][1:].islower() else {0}
    # "Tallow Street" is the name, also where a street was asked for.
    kept |= {at for name in _names(words) if kept.intersection(name) for at in name}
    for at in sorted(at for at in kept if _has_digit(words[at])):
        for after in range(at + 1, min(at + 1 + _WITH_NUMBER, len(words))):
            if words[after].casefold() in FUNCTION_WORDS:
                break
            kept.add(after)
    return " ".join(words[at] for at in sorted(kept)) or form


def _names(words: Sequence[str]) -> Iterator[list[int]]:
    """Places of words with a capital that stand together."""
    capital = (word[:1].isupper() and word.casefold() not in FUNCTION_WORDS for word in words)
    for is_name, group in groupby(enumerate(capital), key=itemgetter(1)):
        if is_name:
            yield [at for at, _ in group]


def _is_value(word: str) -> bool:
    return _has_digit(word) or word[:1].isupper()


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


def _is_news(word: str, asked: frozenset[str]) -> bool:
    """Whether a word says something that the question does not."""
    return word.casefold() not in FUNCTION_WORDS and not content_words(word) <= asked
