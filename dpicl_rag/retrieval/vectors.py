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
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dpicl_rag._unobserved import Private
from dpicl_rag.documents import Document
from dpicl_rag.retrieval.base import unit_key
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.stored_record import StoredRecord

_GRID = float(2**24)

Where = Mapping[str, Any]
"""A Chroma filter on metadata, for example ``{"owner": "ann"}``."""


class Scored(NamedTuple):
    """A passage and its exact cosine with a question. Private."""

    document: Document
    score: float


FetchPassages = Callable[[list[int]], Iterable[tuple[StoredRecord, float]]]
"""Reads the passages of units by their places, each with its exact cosine."""


class NearUnits(Private):
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


class ExactSource(ABC):
    """The base of sources of vectors: exact scores, the same search whatever holds them."""

    def scan(
        self,
        question: npt.ArrayLike,
        *,
        least: float = -math.inf,
        most: int | None = None,
        where: Where | None = None,
    ) -> NearUnits:
        """Find units near a question by exact scores; see `VectorSource.scan`.

        Args:
            question: Its embedding, shape ``[d]``.
            least: Least cosine of a unit's best passage.
            most: Of these units, how many of the best suffice; all if None.
            where: Chroma metadata filter; a passage's own metadata decides on it. Public.

        Raises:
            ConfigurationError: ``where`` is no such filter, or the store cannot search exactly.
            CorpusError: The store cannot be read. No single record causes that: one without a
                text or the unit's field is left out; see `check`.
        """
        return self._near(question, least, most, where)

    @abstractmethod
    def _near(
        self, question: npt.ArrayLike, least: float, most: int | None, where: Where | None
    ) -> NearUnits:
        """As `scan`."""


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
