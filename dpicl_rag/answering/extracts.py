"""Extracts: the sentence of a unit that answers, where the model that would read it is a toy.

A toy makes up times and names. The sentence that is nearest to the question has them as they stand
there, or the unit says nothing of it. So where the kind of an answer is known (a time, a date, a
number, a name, yes or no) each expert of such a model reads that sentence alone, and votes for what
it has of that kind. An extract is a function of its own unit and of the question: the vector of a
sentence does not depend on others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

import numpy as np

from dpicl_rag.language_models.base import Progress
from dpicl_rag.language_models.readers.notes import Passages, UnitReading
from dpicl_rag.languages.answer_keys import AnswerKeys, answer_keys
from dpicl_rag.languages.languages import QuestionKind, days_named
from dpicl_rag.languages.sentences import statements
from dpicl_rag.languages.small_talk import is_small_talk
from dpicl_rag.retrieval.across_languages import vectors_across_languages
from dpicl_rag.retrieval.embeddings import Embedder, SentenceTransformerEmbedder
from dpicl_rag.retrieval.vectors import embedded, exact_scores, on_grid

_MOST = 64  # sentences of a unit, the nearest passages first

_NEAR = 0.3
"""Least score of a sentence: no public document of the rehearsal that is about something else than
the question has one with a key of its kind. The default embedder's, without the language."""


def extracts(question: str, embedder: Embedder | None = None) -> UnitReading:
    """A reading of the sentence of each unit that is nearest to a question; of none that is far.

    Args:
        question: Public text.
        embedder: Of sentences; the default one if None.
    """
    return partial(_extracted, question, embedder or SentenceTransformerEmbedder())


def _extracted(
    question: str,
    embedder: Embedder,
    units: Sequence[Passages],
    on_progress: Progress | None = None,
    names: Sequence[str] | None = None,
) -> list[Passages]:
    keys = answer_keys(question)
    leans_on_another = keys.language.without_conjunction(question) != question  # "And on Fridays?"
    asked = () if leans_on_another else units
    each = [tuple(islice(_stated(passages, question, keys), _MOST)) for passages in asked]
    vectors = embedded([sentence for own in each for sentence in own], embedder)
    query = on_grid(vectors_across_languages(embedder, [question]))[0]
    found: list[Passages] = [() for _ in units]
    first = 0
    for at, own in enumerate(each):
        scores = exact_scores(vectors, query, np.arange(first, first + len(own)))
        first += len(own)
        if own and scores.max() >= _NEAR:
            found[at] = (own[int(scores.argmax())],)
    return found


def _stated(passages: Passages, question: str, keys: AnswerKeys) -> Iterator[str]:
    """What a unit tells that has the names and numbers of the question, and of no other days."""
    days = frozenset() if keys.kind is QuestionKind.WEEKDAY else days_named(question)
    try:
        if keys.about("\n".join(passages)):
            for sentence in (one for text in passages for one in statements(text)):
                its = days_named(sentence)
                if not (is_small_talk(sentence) or (days and its and its.isdisjoint(days))):
                    yield sentence
    except Exception:
        return  # one unit's words
