"""Vectors of a question in several languages, of which what tells the language is taken out.

Embeddings of sentences lie together by their language, too: to an embedder that knows English best
every Spanish mail is near to every Spanish question. So the mean vectors of public questions in
each language span directions that say nothing about what is asked, and a question is searched for
without them (language identity removal: Yang, Yang, Cer, Darve 2021, "A Simple and Effective Method
to Eliminate the Self Language Bias in Multilingual Representations"). It is a projection, which is
its own transpose: done to the question alone it takes the same out of every product with a
passage, so stored vectors stay as they are. All of it is public.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from dpicl_rag.languages.languages import QuestionKind, languages, worked_examples
from dpicl_rag.retrieval.embeddings import Embedder

_NOTHING = 1e-3
"""Singular values, and lengths of vectors, that are rounding alone."""

_known: Final[dict[str, npt.NDArray[np.float64]]] = {}
"""Directions by the fingerprint of an embedder."""


def vectors_across_languages(
    embedder: Embedder, questions: Sequence[str]
) -> npt.NDArray[np.float32]:
    """Unit vectors of questions without what only tells their language: float32 ``[n, d]``.

    A question of which nothing would be left keeps its vector.

    Args:
        embedder: That of the passages.
        questions: Public.
    """
    vectors = np.asarray(embedder.embed(list(questions), query=True), dtype=np.float64)
    telling = _directions(embedder)
    left = vectors - vectors @ telling.T @ telling
    lengths = np.linalg.norm(left, axis=1, keepdims=True)
    found = np.where(lengths > _NOTHING, left / np.maximum(lengths, _NOTHING), vectors)
    return found.astype(np.float32)


def _directions(embedder: Embedder) -> npt.NDArray[np.float64]:
    """Orthonormal directions in which questions of a language lie together: ``[k, d]``."""
    known = _known.get(embedder.fingerprint)
    if known is None:
        asked = (embedder.embed(_questions(one.code), query=True) for one in languages())
        means = np.stack([np.mean(vectors, axis=0, dtype=np.float64) for vectors in asked])
        _, values, directions = np.linalg.svd(np.nan_to_num(means), full_matrices=False)
        known = _known[embedder.fingerprint] = directions[values > _NOTHING]
    return known


def _questions(language: str) -> list[str]:
    shown = (one.question for kind in QuestionKind for one in worked_examples(language, kind))
    return list(dict.fromkeys(shown))
