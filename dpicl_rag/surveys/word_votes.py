"""Votes of units for public words, by the vectors that a corpus stores anyway.

A unit votes for the words that are nearest to its passages. Its votes are a function of its own
vectors and of public ones, bit for bit (`dpicl_rag.retrieval.unit_vectors`), so a unit that comes
moves ``most`` counts by one each, and no others.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dpicl_rag.language_models.turns import give_way
from dpicl_rag.retrieval.unit_vectors import LOWEST, Blocks

_WORDS = 1024  # scored at a time


def nearest_words(
    blocks: Blocks, words: npt.NDArray[np.float32], most: int, least: float = LOWEST
) -> list[int]:
    """How many units vote for each word, and last how many for none. Private.

    Args:
        blocks: Who votes.
        words: Vectors of the words, rounded ``[words, d]``.
        most: Words that a unit votes for.
        least: Cosine from which a word is near at all.

    Raises:
        StoppedError: It was ended between two blocks.
    """
    counts = np.zeros(len(words) + 1, dtype=np.int64)
    for vectors, firsts in blocks():
        if not len(words) or vectors.shape[1] != words.shape[1]:
            # Of another embedder: an error would tell that it is there.
            counts[-1] += len(firsts)
            continue
        scores = np.empty((len(firsts), len(words)), dtype=np.float32)
        for begun in range(0, len(words), _WORDS):
            part = vectors @ words[begun : begun + _WORDS].T
            if len(firsts) < len(vectors):
                part = np.maximum.reduceat(part, firsts, axis=0)
            scores[:, begun : begun + _WORDS] = part
        rows = np.arange(len(scores))
        for vote in range(most):
            best = scores.argmax(axis=1)
            near = scores[rows, best] >= max(least, LOWEST)  # none is voted for twice
            counts[:-1] += np.bincount(best[near], minlength=len(words))
            if not vote:
                counts[-1] += len(near) - int(near.sum())
            scores[rows, best] = -np.inf
        give_way()
    return [int(count) for count in counts]
