"""Repeated questions: an answer that says nothing that was not asked is no answer."""

from __future__ import annotations

import re

from dpicl_rag.languages.languages import language_of

_WORD = re.compile(r"[^\W_]+")
_OR = frozenset(("or", "oder", "ou", "o", "oppure"))


def only_repeats(question: str, answer: str) -> bool:
    """True of an answer without a word that the question lacks, and without yes or no.

    Who asks "Is it red or blue?" is answered in its words.

    Args:
        question: Public text.
        answer: What was released.
    """
    language = language_of(question)
    words = _WORD.findall(answer.casefold())
    if _OR.intersection(_WORD.findall(question.casefold())):
        return False
    if language.yes.intersection(words) or language.no.intersection(words):
        return False
    return language.content_words(answer) <= language.content_words(question)
