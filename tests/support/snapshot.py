"""The plain scan that every source must equal: all passages in memory, all scores in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dpicl_rag.retrieval.base import unit_key
from dpicl_rag.retrieval.stored_record import StoredRecord
from dpicl_rag.retrieval.vectors import NearUnits, on_grid


class Snapshot:
    """All passages of a corpus at one moment, rows of one unit together.

    Args:
        records: The passages, in any order.
        vectors: Their embeddings, shape ``[n, d]``, in the same order.
    """

    def __init__(self, records: Sequence[StoredRecord], vectors: npt.ArrayLike) -> None:
        keys = {unit: unit_key(unit) for unit in {record.unit for record in records}}
        order = sorted(
            range(len(records)),
            key=lambda row: (keys[records[row].unit], records[row].unit, records[row].id),
        )
        self.records: list[StoredRecord] = [records[row] for row in order]
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
        if self.vectors.shape[1] != len(query):
            return np.zeros(len(self.records))
        return self.vectors.astype(np.float64) @ query

    def scan(
        self, question: npt.ArrayLike, least: float = -math.inf, most: int | None = None
    ) -> NearUnits:
        """See `VectorSource.scan`."""
        scores = self.scores(question)
        best = self.unit_scores(scores)
        if most is not None and most < len(best):
            least = max(least, float(np.partition(best, -most)[-most]))
        near = np.flatnonzero(best >= least)

        def fetch(places: list[int]) -> Iterator[tuple[StoredRecord, float]]:
            for unit in near[places]:
                rows = slice(self.starts[unit], self.starts[unit + 1])
                yield from zip(self.records[rows], scores[rows].tolist(), strict=True)

        return NearUnits([self.units[place] for place in near], best[near], fetch)

    def unit_scores(self, scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Score of each unit, that of its best passage: float64 of shape ``[units]``."""
        if not len(scores):
            return np.zeros(0)
        return np.maximum.reduceat(scores, self.starts[:-1])
