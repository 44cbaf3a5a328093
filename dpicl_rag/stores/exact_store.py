"""Exact retrieval over a store that scores its rows itself, in floating point.

A store's own score of a row is a float whose last bits depend on how the store adds. So it only
nominates: every row within a proven `margin` of the threshold is read, and scored again on the
grid of `vectors`. What is found is, unit for unit, what `Corpus` finds, and no more is in memory.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from dpicl_rag._unobserved import unobserved
from dpicl_rag.errors import CorpusError, DPICLError
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.stored_record import (
    Defect,
    MetadataFilter,
    StoredRecord,
    comparable_rows,
    filter_from,
    find_defects,
)
from dpicl_rag.retrieval.vectors import ExactSource, NearUnits, Where, on_grid

T = TypeVar("T")
QuestionVector = npt.NDArray[np.float32]
_BATCH = 1024  # rows scored at a time: 12 MB at 1536 dimensions


class ScoredRow(NamedTuple):
    """A record that may be near enough. Private.

    Attributes:
        unit: Privacy unit.
        vector: Its embedding. What is no row of numbers of the question's length scores 0.
    """

    unit: str
    vector: Any


class StoreReading(Protocol):
    """The rows of a store now, under one filter. A record without a text or a unit is not there.

    The question has length 1 and lies on the grid, or is zero. An own score may be off by
    `margin`. Each is a function of the question and its own row.
    """

    def best(self, question: QuestionVector, count: int) -> Sequence[tuple[str | None, float]]:
        """The ``count`` rows with the highest own scores, or all rows if there are fewer.

        Returns:
            Unit and own score of each; None for a unit where the row is not to be read.
        """
        ...

    def near(self, question: QuestionVector, floor: float) -> Iterable[ScoredRow]:
        """Every row whose own score is at least ``floor`` or cannot be trusted."""
        ...

    def members(self, units: Sequence[str]) -> Iterable[tuple[StoredRecord, Any]]:
        """Every record of some units, with its vector."""
        ...

    def everything(self) -> Iterable[tuple[StoredRecord | Defect, Any]]:
        """Every record of the store, whatever the filter, with its vector."""
        ...


class ExactStore(ExactSource):
    """A `VectorSource` over a store with an exact search.

    Attributes:
        name: Public name of the corpus.
        embedder: The model that the store was filled with.
        kind: What the store is called in messages.
    """

    name: str | None
    embedder: Embedder
    kind: str

    @abstractmethod
    def read(self, filter: MetadataFilter, work: Callable[[StoreReading], T]) -> T:
        """Do some work on the store as it is now.

        Args:
            filter: What of it is read.
            work: What is done; it keeps nothing of the reading.

        Raises:
            ConfigurationError: Its search is not exact, or not by cosine. No row causes that.
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def _near(
        self, question: npt.ArrayLike, least: float, most: int | None, where: Where | None
    ) -> NearUnits:
        filter = filter_from(where)
        query = on_grid(np.reshape(question, (1, -1)))[0]
        scored = self._guarded(filter, lambda store: _scanned(store, query, least, most))
        units = list(scored)

        def fetch(places: list[int]) -> list[tuple[StoredRecord, float]]:
            # For nothing, too: a store that refuses shall not do so only where there is something.
            chosen = [units[place] for place in places]
            return self._guarded(filter, lambda store: _passages(store, chosen, query))

        return NearUnits(units, np.array(list(scored.values()), dtype=np.float64), fetch)

    def check(self) -> list[Defect]:
        """Records that questions do not find, and why: no text, no unit, no usable vector.

        For the owner of the documents; the list is private.

        Raises:
            CorpusError: The store cannot be read.
        """
        everything = filter_from(None)
        return self._guarded(everything, lambda s: find_defects(s.everything(), self.embedder))

    def _guarded(self, filter: MetadataFilter, work: Callable[[StoreReading], T]) -> T:
        """Keep a driver's errors to their kind, and its spans out of traces: both quote units."""
        try:
            with unobserved():
                return self.read(filter, work)
        except (DPICLError, MemoryError):
            raise
        except Exception as error:
            raise CorpusError(
                f"the {self.kind} refused or failed ({type(error).__name__}); check that it is "
                "there, and that this user may read it"
            ) from None


def margin(dimension: int) -> float:
    """The largest distance of a store's own score from the exact one.

    With u = 2^-24 and vectors of length 1: float32 sums of d products in any order are off by at
    most d u (to first order), the two lengths by d u together. The grid moves each component by
    u / 2 and a cosine by sqrt(d) u at most, question and row together. Half as much again, and 64
    u, are more than the second order, the conversions and the roots can take.
    """
    return (3 * dimension + 64) * 2.0**-24


def exact_scores(vectors: Sequence[Any], query: QuestionVector) -> npt.NDArray[np.float64]:
    """Cosines on the grid, each a function of the question and its own vector alone.

    Args:
        vectors: Of ``n`` rows. What is no row of ``d`` numbers scores 0.
        query: The question on the grid, ``[d]``.

    Returns:
        float64 ``[n]``, each a multiple of 2^-48.
    """
    rows = comparable_rows(vectors, len(query))
    scores: npt.NDArray[np.float64] = on_grid(rows).astype(np.float64) @ query.astype(np.float64)
    return scores


def _scanned(
    store: StoreReading, query: QuestionVector, least: float, most: int | None
) -> dict[str, float]:
    """Units that reach ``least``, the best ``most`` of them among those found."""
    if most is None:
        return _scored(store, query, least)
    bound = max(least, _bound(store, query, most))
    found = _scored(store, query, bound)
    if bound > least and len(found) < most:  # rows went while it was read
        found = _scored(store, query, least)
    return found


def _bound(store: StoreReading, query: QuestionVector, most: int) -> float:
    """A score that the best ``most`` units all reach, so that the others need not be read."""
    count = 64 + 4 * most
    while True:
        rows = store.best(query, count)
        best: dict[str, float] = {}
        for unit, score in rows:
            if unit is not None and math.isfinite(score):
                best[unit] = max(score, best.get(unit, -math.inf))
        if len(best) >= most:
            return sorted(best.values(), reverse=True)[most - 1] - margin(len(query))
        if len(rows) < count:
            return -math.inf
        count *= 4


def _scored(store: StoreReading, query: QuestionVector, least: float) -> dict[str, float]:
    """Every unit whose best passage reaches ``least``, and its exact score."""
    scored: dict[str, float] = {}
    for batch in _batches(store.near(query, least - margin(len(query)))):
        scores = exact_scores([row.vector for row in batch], query)
        for row, score in zip(batch, scores.tolist(), strict=True):
            if score >= least:
                scored[row.unit] = max(score, scored.get(row.unit, -math.inf))
    return scored


def _batches(rows: Iterable[T]) -> Iterator[list[T]]:
    waiting = iter(rows)
    while batch := list(islice(waiting, _BATCH)):
        yield batch


def _passages(
    store: StoreReading, units: Sequence[str], query: QuestionVector
) -> list[tuple[StoredRecord, float]]:
    """All passages of some units, each with its exact score."""
    found: list[tuple[StoredRecord, float]] = []
    for batch in _batches(store.members(units)):
        scores = exact_scores([vector for _, vector in batch], query).tolist()
        found += zip([record for record, _ in batch], scores, strict=True)
    return found
