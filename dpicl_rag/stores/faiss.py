"""A flat FAISS index, whose texts another object holds.

A flat index is an array of vectors. They are read block by block and scored here: by cosine, in
whatever measure the index itself searches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpicl_rag._packaged import optional
from dpicl_rag.documents import unit_of
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.stored_record import (
    NO_TEXT,
    Defect,
    MetadataFilter,
    StoredRecord,
    record_of,
)
from dpicl_rag.stores.exact_store import ExactStore, QuestionVector, ScoredRow, StoreReading, T

_BLOCK = 8192  # vectors scored at a time: 12 MB at 384 dimensions
_LEAST, _MOST = 1e-9, 1e9  # lengths whose squares float32 holds in full


class FaissRecord(NamedTuple):
    """The record of a vector of an index. Private."""

    id: str
    fields: Mapping[str, Any]
    text: object


class FaissVectors(ExactStore):
    """A `VectorSource` over an ``IndexFlat``, or one inside an ``IndexIDMap``, read as it is now.

    Args:
        index: The index. Any other kind searches approximately and is refused.
        entry: The entry of a vector, by its id in an ``IndexIDMap`` or else its place; None if it
            has none. Called in the thread of the search.
        unit_field: Metadata field that holds the privacy unit; ``"document"`` makes each entry a
            unit.
        embedder: The model that the index was filled with.
        name: Public name of the corpus.

    Raises:
        ConfigurationError: The index is of another kind.
        MissingDependencyError: FAISS is not installed.
    """

    kind = "FAISS index"

    def __init__(
        self,
        index: Any,
        entry: Callable[[int], FaissRecord | None],
        *,
        unit_field: str,
        embedder: Embedder,
        name: str | None = None,
    ) -> None:
        self.name = name
        self.embedder = embedder
        self._index = index
        self._entry = entry
        self.unit_field: str = unit_field
        flat_part(index)

    def read(self, filter: MetadataFilter, work: Callable[[StoreReading], T]) -> T:
        """A reading of the index; see `ExactStore.read`."""
        flat, ids = flat_part(self._index)
        return work(_FaissReading(flat, ids, self._entry, self.unit_field, filter))


def flat_part(index: Any) -> tuple[Any, Sequence[int]]:
    """The flat index that holds the vectors, and the id of each.

    Raises:
        ConfigurationError: There is none.
    """
    faiss = optional("faiss", "dpicl-rag[faiss]", "FAISS")
    flat, ids = index, None
    if isinstance(index, faiss.IndexIDMap):
        flat = faiss.downcast_index(index.index)
        ids = faiss.vector_to_array(index.id_map).tolist()
    # By class, not by subclass: IndexHNSWFlat and the like search by a graph.
    if type(flat) not in (faiss.IndexFlat, faiss.IndexFlatIP, faiss.IndexFlatL2):
        raise ConfigurationError(
            f"{type(flat).__name__} cannot be used inside the privacy guarantee: its search is "
            "approximate or its vectors are rounded by others', so the arrival of one document can "
            "change what is found of all others. Use IndexFlatIP or IndexFlatL2, alone or inside "
            "an IndexIDMap"
        )
    return flat, range(flat.ntotal) if ids is None else ids


@dataclass(repr=False)
class _FaissReading:
    """A `StoreReading` of a flat index."""

    flat: Any
    ids: Sequence[int]
    entry: Callable[[int], FaissRecord | None]
    unit_field: str
    filter: MetadataFilter
    scores: npt.NDArray[np.float32] | None = None

    def best(self, question: QuestionVector, count: int) -> Sequence[tuple[str | None, float]]:
        scores = np.nan_to_num(self._own(question), nan=-np.inf, neginf=-np.inf)
        if count < len(scores):
            places = np.argpartition(-scores, count)[:count]
        else:
            places = np.arange(len(scores))
        return [(self._unit(place), float(scores[place])) for place in places.tolist()]

    def near(self, question: QuestionVector, floor: float) -> Iterator[ScoredRow]:
        for place in np.flatnonzero(~(self._own(question) < floor)).tolist():
            unit = self._unit(place)
            if unit is not None:
                yield ScoredRow(unit, self.flat.reconstruct(place))

    def members(self, units: Sequence[str]) -> Iterator[tuple[StoredRecord, Any]]:
        wanted = frozenset(units)
        for place in range(len(self.ids)):
            if self._unit(place) in wanted:
                record = self._record(place)
                if isinstance(record, StoredRecord):
                    yield record, self.flat.reconstruct(place)

    def everything(self) -> Iterator[tuple[StoredRecord | Defect, Any]]:
        for place in range(len(self.ids)):
            yield self._record(place), self.flat.reconstruct(place)

    def _own(self, question: QuestionVector) -> npt.NDArray[np.float32]:
        """Cosines in float32, NaN where that range does not hold them: ``[n]``."""
        if self.scores is None:
            self.scores = np.zeros(len(self.ids), dtype=np.float32)
            if self.flat.d == len(question):
                for first in range(0, len(self.ids), _BLOCK):
                    count = min(_BLOCK, len(self.ids) - first)
                    rows = self.flat.reconstruct_n(first, count)
                    self.scores[first : first + count] = _cosines(rows, question)
        return self.scores

    def _unit(self, place: int) -> str | None:
        """The unit of a row, or None where it has none, no text, or does not pass the filter."""
        entry = self.entry(self.ids[place])
        if entry is None or not isinstance(entry.text, str):
            return None
        if not self.filter.passes(entry.fields):
            return None
        return unit_of(entry.id, entry.fields, self.unit_field)

    def _record(self, place: int) -> StoredRecord | Defect:
        entry = self.entry(self.ids[place])
        if entry is None:
            return Defect(str(self.ids[place]), NO_TEXT)
        return record_of(entry.id, entry.fields, entry.text, self.unit_field)


def _cosines(rows: npt.NDArray[np.float32], question: QuestionVector) -> npt.NDArray[np.float32]:
    with np.errstate(all="ignore"):
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        cosines: npt.NDArray[np.float32] = (rows @ question) / lengths
        trusted = (lengths >= _LEAST) & (lengths <= _MOST)
    cosines[~trusted] = np.nan
    return cosines
