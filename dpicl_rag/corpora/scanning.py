"""Scanning a corpus: what a question finds is of one moment, whoever writes meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from dpicl_rag.corpora.contents import Contents
from dpicl_rag.corpora.storage import CorpusState, Storage
from dpicl_rag.errors import CorpusError
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.metadata_filters import MetadataFilter
from dpicl_rag.retrieval.stored_record import StoredRecord
from dpicl_rag.retrieval.unit_vectors import UnitVectors
from dpicl_rag.retrieval.vector_rows import DamagedError, Mask
from dpicl_rag.retrieval.vectors import NearUnits

_ATTEMPTS = 5  # at a scan that no writer comes into


def scan(
    storage: Storage,
    embedder: Embedder,
    question: npt.ArrayLike,
    least: float,
    most: int | None,
    filter: MetadataFilter | None,
) -> NearUnits:
    """Find units near a question; see `Corpus.scan`.

    Args:
        storage: The corpus's files.
        embedder: What mends vectors that are damaged.
        question: Its embedding.
        least: Least cosine of a unit's best passage.
        most: Of these units, how many of the best suffice; all if None.
        filter: On the fields of documents.

    Raises:
        CorpusError: The corpus cannot be read.
    """

    def attempt(mended_by: Embedder | None = embedder) -> NearUnits | None:
        return _scanned(storage, mended_by, question, least, most, filter)

    for _ in range(_ATTEMPTS):
        try:
            if (found := attempt()) is not None:
                return found
        except DamagedError:
            storage.mend(embedder)
    # Somebody writes all the time, and waits now.
    try:
        found = storage.alone(lambda: attempt(None))
    except DamagedError:
        found = None
    if found is None:
        raise _damaged(storage)
    return found


def unit_vectors(storage: Storage, embedder: Embedder) -> UnitVectors:
    """Vectors of all passages; see `Corpus.unit_vectors`. A unit that is deleted later is zero.

    Args:
        storage: The corpus's files.
        embedder: What mends vectors that are damaged.

    Raises:
        CorpusError: The corpus cannot be read.
    """
    for _ in range(_ATTEMPTS):
        state = storage.state(embedder)
        try:
            return state.rows.unit_vectors()
        except DamagedError:
            if storage.read_at(state, lambda c: True):  # else a row was overwritten meanwhile
                storage.mend(embedder)
    raise _damaged(storage)


def _scanned(
    storage: Storage,
    embedder: Embedder | None,
    question: npt.ArrayLike,
    least: float,
    most: int | None,
    filter: MetadataFilter | None,
) -> NearUnits | None:
    """The units found, or None where somebody wrote meanwhile.

    Raises:
        DamagedError: The vectors are not what was written.
    """
    state = storage.state(embedder)
    allowed: Mask | None = None
    if filter is not None:
        rows = storage.read_at(state, lambda c: Contents(c).allowed(filter))
        if rows is None:
            return None
        allowed = np.zeros(len(state.rows.unit), dtype=bool)
        allowed[rows] = True
    try:
        near = state.rows.near(question, least, most, allowed)
    except DamagedError:
        if storage.read_at(state, lambda c: True):
            raise
        return None  # a row that was deleted meanwhile is overwritten
    numbers = near.units.tolist()
    names = storage.read_at(state, lambda c: Contents(c).units(numbers))
    if names is None:
        return None
    if len(names) < len(numbers):
        raise DamagedError

    def fetch(rows: Sequence[int]) -> dict[int, StoredRecord]:
        return _fetched(storage, state, names, rows)

    in_order = [names[number] for number in numbers]
    return state.rows.found(near, in_order, allowed, question, fetch)


def _fetched(
    storage: Storage, state: CorpusState, names: Mapping[int, str], rows: Sequence[int]
) -> dict[int, StoredRecord]:
    """Passages that are still what was scored, by their rows."""
    now, held = storage.read(lambda c: (storage.is_now(c, state), Contents(c).records(rows)))
    checks = state.rows.check.view(np.int64)
    found = {
        row: record
        for row, (record, check) in held.items()
        if check == checks[row] and record.unit == names[int(state.rows.unit[row])]
    }
    if now and len(found) < len(rows):
        raise _damaged(storage)
    return found


def _damaged(storage: Storage) -> CorpusError:
    return CorpusError(f"the corpus {storage.path} is damaged; restore it from a backup")
