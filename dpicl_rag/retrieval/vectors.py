"""Vectors of a corpus, and scores that do not depend on what else is there.

A cosine computed in floating point depends, in its last bits, on the shape of the matrix product
it was part of: on how many other rows there are. A unit on the threshold could then come or go
with the arrival of another, and threshold retrieval would not be what it is charged as. So vectors
are rounded to a grid on which the product is exact: components are multiples of 2^-24, products of
two are multiples of 2^-48, and all partial sums stay within 1 (Cauchy-Schwarz), so every sum is a
multiple of 2^-48 below 2^53 of them, which float64 holds exactly in any order of summation.

Of many vectors most are not scored exactly. A first pass multiplies in float32, by blocks and
threads, and is off by a bounded error (`margin`). Rows that may reach what is asked for, the error
granted, are then scored on the grid, and what is returned follows from these scores alone.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dpicl_rag._unobserved import Private
from dpicl_rag.documents import Document
from dpicl_rag.language_models.turns import give_way
from dpicl_rag.retrieval.across_languages import vectors_across_languages
from dpicl_rag.retrieval.base import unit_key
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.stored_record import StoredRecord

BLOCK = 16384
"""Rows multiplied at a time: 25 MB at 384 dimensions."""

Floats = npt.NDArray[np.float32]
RowIndices = npt.NDArray[np.intp]
Check = Callable[[int, int], None]
"""Called with the first row of a block and the one after its last, before it is used."""

_GRID = float(2**24)
_TOGETHER = 256  # texts that are embedded at a time

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

    def fetch(self, places: Sequence[int]) -> Iterable[tuple[StoredRecord, float]]:
        """Passages of units, by indices of ``units``, in any order."""
        return self._fetch([self._order[place] for place in places])

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
        for record, score in self.fetch(places):
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


def unit_field_of(documents: object) -> str | None:
    """The field that a store's units are read by; None where each document has its own. Public."""
    field: str | None = getattr(documents, "unit_field", None)
    return field


class ExactSource(ABC):
    """The base of sources of vectors: exact scores, the same search whatever holds them.

    Attributes:
        unit_field: The field of its records that their unit is read from; None where each was
            put there under its own. Public: a ledger charges no other.
    """

    unit_field: str | None = None

    def scan(
        self,
        question: npt.ArrayLike,
        *,
        least: float = -math.inf,
        most: int | None = None,
        where: Where | None = None,
    ) -> NearUnits:
        """Find units near a question by exact scores; see `VectorSource.scan`.

        ``where`` is a filter as Chroma has it; a passage's own metadata decides on it.

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
    questions: Sequence[str],
    *,
    least: float = -math.inf,
    most: int | None = None,
    where: Where | None = None,
    by_content: bool = False,
) -> NearUnits:
    """Find units of a source near a question in words; see `VectorSource.scan`. Private.

    Args:
        source: Where the vectors are.
        questions: One question in several wordings; a unit's score is that of its nearest.
        least: See `VectorSource.scan`, as what follows.
        most: The best of all are among the best of one wording.
        where: Public.
        by_content: Score without what only tells the language of a question.
    """
    embedder = source.embedder
    vectors = (
        vectors_across_languages(embedder, questions)
        if by_content
        else embedder.embed(list(questions), query=True)
    )
    found = [source.scan(vector, least=least, most=most, where=where) for vector in vectors]
    return found[0] if len(found) == 1 else _nearest(found)


def _nearest(found: Sequence[NearUnits]) -> NearUnits:
    """Units of several scans, each with its best score and the passages of that scan."""
    best: dict[str, tuple[float, int, int]] = {}
    for scan_, near in enumerate(found):
        for place, (unit, score) in enumerate(zip(near.units, near.scores.tolist(), strict=True)):
            if unit not in best or score > best[unit][0]:
                best[unit] = score, scan_, place
    rows = list(best.values())

    def fetch(places: list[int]) -> Iterable[tuple[StoredRecord, float]]:
        for scan_, near in enumerate(found):
            own = [rows[place][2] for place in places if rows[place][1] == scan_]
            yield from near.fetch(own)

    return NearUnits(list(best), np.array([score for score, _, _ in rows], dtype=np.float64), fetch)


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


def embedded(texts: Sequence[str], embedder: Embedder) -> npt.NDArray[np.float32]:
    """Vectors of texts on the grid, float32 ``[n, d]``; ``[0, 1]`` of none.

    Some texts are embedded at a time; between two steps others have their turn.

    Args:
        texts: Private or public.
        embedder: Embeds each as if it were alone.

    Raises:
        StoppedError: It was ended between two steps.
    """
    parts = [] if texts else [np.zeros((0, 1), dtype=np.float32)]
    for first in range(0, len(texts), _TOGETHER):
        parts.append(on_grid(embedder.embed(texts[first : first + _TOGETHER])))
        give_way()
    return np.concatenate(parts)


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
