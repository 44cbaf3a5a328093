"""Vectors of a corpus in memory, and scores that do not depend on what else is there.

A cosine computed in floating point depends, in its last bits, on the shape of the matrix product
it was part of: on how many other rows there are. A unit on the threshold could then come or go
with the arrival of another, and threshold retrieval would not be what it is charged as. So vectors
are rounded to a grid on which the product is exact: components are multiples of 2^-24, products of
two are multiples of 2^-48, and all partial sums stay within 1 (Cauchy-Schwarz), so every sum is a
multiple of 2^-48 below 2^53 of them, which float64 holds exactly in any order of summation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dpicl_rag.retrieval.base import unit_key
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.passages import Record

_GRID = float(2**24)
_BLOCK = 16384  # rows converted to float64 at a time: 50 MB at 384 dimensions

Where = Mapping[str, Any]
"""A Chroma filter on metadata, for example ``{"owner": "ann"}``."""


@runtime_checkable
class VectorSource(Protocol):
    """Where a retriever reads all vectors; `Corpus` is one."""

    @property
    def name(self) -> str | None:
        """Name of the corpus, if it has one. Public."""
        ...

    @property
    def embedder(self) -> Embedder:
        """The model that the vectors are from."""
        ...

    def snapshot(self, where: Where | None = None) -> Snapshot:
        """All passages that pass a public filter."""
        ...


def on_grid(vectors: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Scale rows to length 1 and round their components to multiples of 2^-24.

    A row that is zero or not finite becomes zero, so its score is 0 for every question.

    Args:
        vectors: Shape ``[n, d]``.

    Returns:
        float32 of shape ``[n, d]``; a row depends on the same row of ``vectors`` alone.

    """
    rows = np.asarray(vectors, dtype=np.float64)
    usable = np.isfinite(rows).all(axis=1, keepdims=True)
    rows = np.where(usable, rows, 0.0)
    # By the largest component first: squares of huge or tiny ones leave float64's range.
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    rows = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)
    length = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    rows = np.divide(rows, length, out=rows, where=length > 0)
    gridded: npt.NDArray[np.float32] = (np.rint(rows * _GRID) / _GRID).astype(np.float32)
    return gridded


class Snapshot:
    """All passages of a corpus at one moment, rows of one unit together.

    Args:
        records: The passages, in any order.
        vectors: Their embeddings, shape ``[n, d]``, in the same order.
    """

    def __init__(self, records: Sequence[Record], vectors: npt.ArrayLike) -> None:
        keys = {unit: unit_key(unit) for unit in {record.unit for record in records}}
        order = sorted(
            range(len(records)),
            key=lambda row: (keys[records[row].unit], records[row].unit, records[row].id),
        )
        self.records: list[Record] = [records[row] for row in order]
        self.vectors: npt.NDArray[np.float32] = (
            on_grid(vectors)[order] if order else np.zeros((0, 0), dtype=np.float32)
        )

    def __repr__(self) -> str:
        return "Snapshot(<private>)"

    @cached_property
    def units(self) -> list[str]:
        """Every unit once, in the order of `unit_key`."""
        return list(dict.fromkeys(record.unit for record in self.records))

    @cached_property
    def starts(self) -> npt.NDArray[np.intp]:
        """First row of each unit, and the number of rows at the end: ``[units + 1]``."""
        names = [record.unit for record in self.records]
        changes = [row for row, name in enumerate(names) if row == 0 or name != names[row - 1]]
        return np.array([*changes, len(names)], dtype=np.intp)

    def where(self, ids: Iterable[str]) -> Snapshot:
        """The same snapshot with only the passages whose id is listed."""
        wanted = frozenset(ids)
        rows = [row for row, record in enumerate(self.records) if record.id in wanted]
        part = Snapshot.__new__(Snapshot)
        part.records = [self.records[row] for row in rows]
        part.vectors = self.vectors[rows]
        return part

    def scores(self, question: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Cosine of every passage with a question, exact on the grid.

        Args:
            question: Embedding of the question, shape ``[d]``.

        Returns:
            float64 of shape ``[n]``. Each depends on the question and its own passage alone, bit
            for bit. All are 0 where the passages were embedded in another length: an error would
            tell an empty corpus from one that is not. `Corpus.check` tells its owner.
        """
        query = on_grid(np.reshape(question, (1, -1)))[0].astype(np.float64)
        scores = np.zeros(len(self.records))
        if self.vectors.shape[1] != len(query):
            return scores
        for first in range(0, len(scores), _BLOCK):
            block = self.vectors[first : first + _BLOCK].astype(np.float64)
            scores[first : first + _BLOCK] = block @ query
        return scores

    def unit_scores(self, scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Score of each unit, that of its best passage: float64 of shape ``[units]``."""
        if not len(scores):
            return np.zeros(0)
        return np.maximum.reduceat(scores, self.starts[:-1])
