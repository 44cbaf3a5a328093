"""Repeated questions: an answer that says nothing that was not asked, or shown, is no answer."""

from __future__ import annotations

import re

from dpicl_rag.languages.languages import language_of
from dpicl_rag.languages.sentences import first_sentence

_WORD = re.compile(r"[^\W_]+")
_OR = frozenset(("or", "oder", "ou", "o", "oppure"))


def only_repeats(question: str, answer: str, examples: str = "") -> bool:
    """True of an answer without a word that the question lacks, and without yes or no.

    Who asks "Is it red or blue?" is answered in its words. An answer that begins with a worked
    example repeats that.

    Args:
        question: Public text.
        answer: What was released.
        examples: Answers that the prompt showed.
    """
    language = language_of(question)
    words = _WORD.findall(answer.casefold())
    if _OR.intersection(_WORD.findall(question.casefold())):
        return False
    if language.yes.intersection(words) or language.no.intersection(words):
        return False
    asked, shown = language.content_words(question), language.content_words(examples)
    begins = language.content_words(first_sentence(answer))
    if (news := begins - asked) and news <= shown:
        return True
    return language.content_words(answer) <= asked
