"""Vectors of a corpus, and scores that do not depend on what else is there.

A cosine computed in floating point depends, in its last bits, on the shape of the matrix product
it was part of: on how many other rows there are. A unit on the threshold could then come or go
with the arrival of another, and threshold retrieval would not be what it is charged as. So vectors
are rounded to a grid on which the product is exact: components are multiples of 2^-24, products of
two are multiples of 2^-48, and all partial sums stay within 1 (Cauchy-Schwarz), so every sum is a
multiple of 2^-48 below 2^53 of them, which float64 holds exactly in any order of summation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dpicl_rag.documents import Document
from dpicl_rag.retrieval.base import unit_key
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.stored_record import StoredRecord
from dpicl_rag.retrieval.unit_vectors import UnitVectors

_GRID = float(2**24)
_BLOCK = 16384  # rows converted to float64 at a time: 50 MB at 384 dimensions

Where = Mapping[str, Any]
"""A Chroma filter on metadata, for example ``{"owner": "ann"}``."""


class Scored(NamedTuple):
    """A passage and its exact cosine with a question. Private."""

    document: Document
    score: float


FetchPassages = Callable[[list[int]], Iterable[tuple[StoredRecord, float]]]
"""Reads the passages of units by their places, each with its exact cosine."""


class NearUnits:
    """Units near a question, each with the score of its best passage. Private.

    Args:
        units: Names, in any order; as an attribute in the order of `unit_key`.
        scores: Exact cosine of each unit's best passage: float64 ``[units]``.
        fetch: Reads the passages of units, by their places in ``units``; of none, too.
    """

    def __init__(
        self, units: Sequence[str], scores: npt.NDArray[np.float64], fetch: FetchPassages
    ) -> None:
        order = sorted(range(len(units)), key=lambda place: (unit_key(units[place]), units[place]))
        self.units: Sequence[str] = [units[place] for place in order]
        self.scores: npt.NDArray[np.float64] = scores[order]
        self._order, self._fetch = order, fetch

    def __repr__(self) -> str:
        return "NearUnits(<private>)"

    def passages(self, chosen: Iterable[int], most: int | None = None) -> list[Scored]:
        """Fetch the passages of chosen units: only now are texts read.

        Args:
            chosen: Indices of ``units``, in the order in which they shall come.
            most: Most passages of each unit, the best; all if None. Ties fall by id.

        Returns:
            Passages of a unit together, its best first.
        """
        places = list(chosen)
        of_unit: dict[str, list[tuple[StoredRecord, float]]] = {self.units[at]: [] for at in places}
        for record, score in self._fetch([self._order[place] for place in places]):
            if record.unit in of_unit:
                of_unit[record.unit].append((record, score))
        return [
            Scored(Document(record.text, record.unit, record.metadata), score)
            for own in of_unit.values()
            for record, score in sorted(own, key=lambda one: (-one[1], one[0].id))[:most]
        ]


@runtime_checkable
class VectorSource(Protocol):
    """A source in which retrievers find units by their vectors; `Corpus` is one."""

    @property
    def name(self) -> str | None:
        """Name of the corpus, if it has one. Public."""
        ...

    @property
    def embedder(self) -> Embedder:
        """The model that the vectors are from."""
        ...

    def scan(
        self,
        question: npt.ArrayLike,
        *,
        least: float = -math.inf,
        most: int | None = None,
        where: Where | None = None,
    ) -> NearUnits:
        """Find every unit whose best passage is near enough to a question, by exact scores.

        Args:
            question: Its embedding, shape ``[d]``.
            least: Least cosine of a unit's best passage.
            most: Of the units that reach ``least``, those with the best ``most`` scores suffice,
                ties with the last of them included; all if None.
            where: Filter on metadata, applied first. Public.

        Returns:
            At least these units. More may be among them: whoever asks cuts again.
        """
        ...


def scan(
    source: VectorSource,
    question: str,
    *,
    least: float = -math.inf,
    most: int | None = None,
    where: Where | None = None,
) -> NearUnits:
    """Find units of a source near a question in words; see `VectorSource.scan`. Private."""
    vector = source.embedder.embed([question], query=True)[0]
    return source.scan(vector, least=least, most=most, where=where)


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

    def unit_vectors(self) -> UnitVectors:
        """Vectors of all passages; see `UnitVectorSource`."""
        lengths = np.diff(self.starts)
        return UnitVectors(self.vectors, np.repeat(np.arange(len(lengths)), lengths))

    def unit_scores(self, scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Score of each unit, that of its best passage: float64 of shape ``[units]``."""
        if not len(scores):
            return np.zeros(0)
        return np.maximum.reduceat(scores, self.starts[:-1])
