"""Scanning a corpus: what a question finds is of one moment, whoever writes meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dpicl_rag.corpora.contents import Contents
from dpicl_rag.corpora.storage import ChangedError, CorpusState, Storage
from dpicl_rag.errors import CorpusError
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.stored_record import MetadataFilter, StoredRecord
from dpicl_rag.retrieval.unit_vectors import UnitVectors
from dpicl_rag.retrieval.vector_rows import DamagedError, Mask
from dpicl_rag.retrieval.vectors import NearUnits

T = TypeVar("T")
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

    def found(state: CorpusState) -> NearUnits:
        allowed: Mask | None = None
        if filter is not None:
            rows = storage.read_at(state, lambda c: Contents(c).allowed(filter))
            allowed = np.zeros(len(state.rows.unit), dtype=bool)
            allowed[rows] = True
        known: dict[int, str] = {}

        def names(numbers: list[int]) -> list[str]:
            known.update(storage.read_at(state, lambda c: Contents(c).units(numbers)))
            if len(known) < len(numbers):
                raise DamagedError
            return [known[number] for number in numbers]

        def fetch(rows: Sequence[int]) -> dict[int, StoredRecord]:
            return _fetched(storage, state, known, rows)

        return state.rows.scan(question, least, most, allowed, names, fetch)

    return _on_rows(storage, embedder, found)


def unit_vectors(storage: Storage, embedder: Embedder) -> UnitVectors:
    """Vectors of all passages; see `Corpus.unit_vectors`. A unit that is deleted later is zero.

    Args:
        storage: The corpus's files.
        embedder: What mends vectors that are damaged.

    Raises:
        CorpusError: The corpus cannot be read.
    """
    return _on_rows(storage, embedder, lambda state: state.rows.unit_vectors())


def _on_rows(storage: Storage, embedder: Embedder, work: Callable[[CorpusState], T]) -> T:
    """Work on the rows as they are at one moment, once they are sound."""

    def attempt(mended_by: Embedder | None) -> T:
        state = storage.state(mended_by)
        try:
            return work(state)
        except DamagedError:
            storage.require_now(state)  # else a row that was deleted meanwhile is overwritten
            raise

    for _ in range(_ATTEMPTS):
        try:
            return attempt(embedder)
        except DamagedError:
            storage.mend(embedder)
        except ChangedError:
            pass
    # Somebody writes all the time, and waits now.
    try:
        return storage.alone(lambda: attempt(None))
    except (DamagedError, ChangedError):
        raise _damaged(storage) from None


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
