"""Exact scores of many vectors, without computing most of them exactly.

A first pass multiplies in float32, by blocks and threads, and is off by a bounded error. Rows that
may reach what is asked for, the error granted, are then scored exactly on the grid. What is
returned follows from the exact scores alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np
import numpy.typing as npt

BLOCK = 16384
"""Rows multiplied at a time: 25 MB at 384 dimensions."""

Floats = npt.NDArray[np.float32]
RowIndices = npt.NDArray[np.intp]
Check = Callable[[int, int], None]
"""Called with the first row of a block and the one after its last, before it is used."""


def margin(dimensions: int) -> float:
    """By how much a float32 score of two gridded vectors is off at most.

    Both vectors are exact in float32: multiples of 2^-24 of at most 1. Products are at least
    2^-48 or zero, so nothing underflows. For any order of summation, fused or not, the error of a
    product of d terms is at most gamma = d u / (1 - d u) times the sum of |a_i b_i|, u = 2^-24
    (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1), and that sum is at most
    |a| |b| by Cauchy-Schwarz. A gridded vector is at most 1 + sqrt(d) 2^-25 long.

    Args:
        dimensions: Length of the vectors, below a million.
    """
    u = 2.0**-24
    gamma = dimensions * u / (1 - dimensions * u)
    return float(gamma * (1 + np.sqrt(dimensions) * 2.0**-25) ** 2)


def rough_scores(vectors: Floats, question: Floats, check: Check | None = None) -> Floats:
    """Scores in float32, each within `margin` of the exact one.

    Args:
        vectors: Gridded, shape ``[n, d]``; may be a mapped file.
        question: Gridded, shape ``[d]``.
        check: Looks at each block first.

    Returns:
        Shape ``[n]``.
    """
    scores = np.empty(len(vectors), dtype=np.float32)

    def score(first: int) -> None:
        end = min(first + BLOCK, len(vectors))
        if check is not None:
            check(first, end)
        np.matmul(vectors[first:end], question, out=scores[first:end])

    firsts = range(0, len(vectors), BLOCK)
    if len(firsts) > 1:
        list(_threads(os.getpid()).map(score, firsts))
    else:
        for first in firsts:
            score(first)
    return scores


def exact_scores(vectors: Floats, question: Floats, rows: RowIndices) -> npt.NDArray[np.float64]:
    """Exact scores of some rows; see `dpicl_rag.retrieval.vectors`.

    Args:
        vectors: Gridded, shape ``[n, d]``.
        question: Gridded, shape ``[d]``.
        rows: Which ones, ``[k]``.

    Returns:
        float64 ``[k]``; each depends on the question and its own row alone.
    """
    scores = np.empty(len(rows))
    query = question.astype(np.float64)
    for first in range(0, len(rows), BLOCK):
        block = vectors[rows[first : first + BLOCK]].astype(np.float64)
        scores[first : first + BLOCK] = block @ query
    return scores


def edge(scores: Floats, units: npt.NDArray[np.int32], most: int) -> float:
    """Score of the unit that is the last of the best ``most``, by its best row.

    Args:
        scores: Of each row; minus infinity for rows that do not count.
        units: Of each row.
        most: At least 1.

    Returns:
        Minus infinity where there are fewer units.
    """
    count = most
    while True:
        count = min(4 * count, len(scores))
        top = np.argpartition(scores, len(scores) - count)[len(scores) - count :]
        top = top[np.isfinite(scores[top])]
        top = top[np.argsort(-scores[top])]
        firsts = np.sort(np.unique(units[top], return_index=True)[1])
        if len(firsts) >= most:
            return float(scores[top[firsts[most - 1]]])
        if count == len(scores):
            return -np.inf


@lru_cache(maxsize=1)
def _threads(process: int) -> ThreadPoolExecutor:
    """Threads of this process: those of its parent are gone after a fork."""
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="dpicl-scores")
