"""Extracts: the sentence of a unit that answers, where the model that would read it is a toy.

A toy makes up times and names. Where the kind of an answer is known (a time, a date, a number, a
name, yes or no) sentences have them as they are. So each expert of the packaged model reads one
sentence: of those with an answer of that kind the one that is nearest to the question; and it votes
for that. An extract is a function of its own unit and of the question: the vector of a sentence
does not depend on others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from itertools import islice

import numpy as np
import numpy.typing as npt

from dpicl_rag.language_models.base import Progress
from dpicl_rag.language_models.readers.notes import Passages, UnitReading
from dpicl_rag.languages.answer_keys import AnswerKeys, answer_keys
from dpicl_rag.languages.languages import QuestionKind, days_named, language_of
from dpicl_rag.languages.sentences import statements
from dpicl_rag.languages.small_talk import is_small_talk
from dpicl_rag.retrieval.across_languages import vectors_across_languages
from dpicl_rag.retrieval.embeddings import Embedder, SentenceTransformerEmbedder
from dpicl_rag.retrieval.vectors import embedded, exact_scores, on_grid

_MOST = 64  # sentences of a unit, those of the nearest passages

_NEAR = 0.3
"""Least score of a sentence by the default embedder: no public document of the rehearsal that is
about something else than the question has such a sentence with an answer of its kind."""


def extracts(question: str, embedder: Embedder | None = None) -> UnitReading:
    """A reading of the sentence of each unit that is nearest to a question; of none that is far.

    Nothing is read for a question that leans on another one: "And on Fridays?"

    Args:
        question: Public text.
        embedder: Of sentences; the default one if None.

    Raises:
        ModelError: The embedder cannot be loaded.
    """
    embedder = embedder or SentenceTransformerEmbedder()
    query = on_grid(vectors_across_languages(embedder, [question]))[0]
    return partial(_extracted, question, embedder, query)


def _extracted(
    question: str,
    embedder: Embedder,
    query: npt.NDArray[np.float32],
    units: Sequence[Passages],
    on_progress: Progress | None = None,
    names: Sequence[str] | None = None,
) -> list[Passages]:
    each = [tuple(islice(_stated(passages, question), _MOST)) for passages in units]
    vectors = embedded([sentence for own in each for sentence in own], embedder)
    found, first = list[Passages](), 0
    for own in each:
        scores = exact_scores(vectors, query, np.arange(first, first + len(own)))
        first += len(own)
        near = bool(own) and scores.max() >= _NEAR
        found.append((own[int(scores.argmax())],) if near else ())
    if on_progress is not None:
        on_progress(1.0, 1.0)
    return found


def keys_of_extract(sentence: str, keys: AnswerKeys) -> tuple[str, ...]:
    """What a sentence has of the kind that a question asks for.

    Words of another language say a name, and not where or who else it is.
    """
    return keys.of(sentence, by_parts=language_of(sentence) is keys.language)


def _stated(passages: Passages, question: str) -> Iterator[str]:
    """What a unit that has the names and numbers of the question tells of what it asks for."""
    keys, whole = answer_keys(question), "\n".join(passages)
    try:
        whole.encode()  # what cannot be written is not embedded
        if not _leans_on_another(question, keys) and keys.about(whole):
            for sentence in (one for text in passages for one in statements(text)):
                if not is_small_talk(sentence) and _may_answer(sentence, question, keys):
                    yield sentence
    except Exception:
        return  # one unit's words


def _leans_on_another(question: str, keys: AnswerKeys) -> bool:
    return keys.language.without_conjunction(question) != question


@lru_cache(maxsize=64)
def _words_asked(question: str) -> frozenset[str]:
    """Words of a question that say what it is about."""
    language = answer_keys(question).language
    little = map(language.stem, language.generic | language.day_times)
    return language.content_words(question).difference(little)


def _may_answer(sentence: str, question: str, keys: AnswerKeys) -> bool:
    """True of a sentence with an answer, and a word of the question, if it is in its language.

    "At weekends we open at nine" is no answer where weekdays are asked for.
    """
    language = keys.language
    if not keys_of_extract(sentence, keys):
        return False
    asked = _words_asked(question)
    same = bool(asked) and language_of(sentence) is language
    if same and asked.isdisjoint(language.content_words(sentence)):
        return False
    days, its = days_named(question), days_named(sentence)
    other_days = bool(days and its) and days.isdisjoint(its)
    return keys.kind is QuestionKind.WEEKDAY or not other_days
