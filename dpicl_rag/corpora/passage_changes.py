"""Ingest: what documents become in a corpus, and what they take the place of."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Collection as Ids
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpicl_rag.corpora.identity import names_in
from dpicl_rag.corpora.joins import Join
from dpicl_rag.corpora.passages import RECORD_FIELD, Record, passages_of, stored_fields
from dpicl_rag.corpora.register import pages
from dpicl_rag.documents import Document

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection

_PAGE = 1000
_MOST = 50_000  # passages that wait: 80 MB at 384 dimensions
_LEAST_S = 2.0  # between two writes
_PART = 5.0  # how many times as long as a write the time to the next one is

Stored = tuple[Record, npt.NDArray[np.float32]]

Progress = Callable[[int, int], None]
"""Called with the number of passages done and the total."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """What `Corpus.add` did. For the owner of the documents: the counts are private.

    Attributes:
        documents: Documents given.
        empty: Of these, documents without any text.
        passages: Passages newly embedded and stored.
        known: Passages that were stored before.
        forgotten: Documents that were left out, for the owner had them forgotten.
        joins: Units that were there and are one now.
        left: Units that left the corpus, which was made anew.
    """

    documents: int
    empty: int
    passages: int
    known: int
    forgotten: int = 0
    joins: tuple[Join, ...] = ()
    left: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class Cut:
    """The passages of documents.

    Attributes:
        passages: By id.
        former_ids: Ids that passages may have from before they were this unit's, and the ids that
            they would be given now.
        empty: Number of documents without any text.
    """

    passages: Mapping[str, Record]
    former_ids: Mapping[str, str]
    empty: int

    def __repr__(self) -> str:
        return "Cut(<private>)"

    def as_stored(self, stored: Ids[str]) -> dict[str, Record]:
        """The passages by the ids under which they are stored, those of old where they are."""
        passages = dict(self.passages)
        for old, new in self.former_ids.items():
            if old in stored and new in passages:
                passages[old] = replace(passages.pop(new), id=old)
        return passages


class Embedded:
    """Passages that are embedded and wait to be stored; left, it stores what waits.

    Storing costs by itself, the more the larger the corpus is, so passages are stored together:
    as many as keep it to a small part of the time. What a kill loses is embedded again.

    Args:
        store: Stores passages with their vectors.
    """

    def __init__(self, store: Callable[[Sequence[Stored]], None]) -> None:
        self._store = store
        self._waiting: list[Stored] = []
        self._next = time.monotonic() + _LEAST_S

    def __enter__(self) -> Embedded:
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()

    def add(self, passages: Sequence[Record], vectors: npt.NDArray[np.float32]) -> None:
        """Take in passages with their vectors, and store what waits where it is time."""
        self._waiting.extend(zip(passages, vectors, strict=True))
        if len(self._waiting) >= _MOST or time.monotonic() >= self._next:
            self._flush()

    def _flush(self) -> None:
        # Emptied first: what the store refused is not tried again on the way out.
        waiting, self._waiting = self._waiting, []
        began = time.monotonic()
        if waiting:
            self._store(waiting)
        ended = time.monotonic()
        self._next = ended + max(_LEAST_S, _PART * (ended - began))


def cut_up(
    documents: Iterable[Document], former: Mapping[str, Sequence[str]], size: int, overlap: int
) -> Cut:
    """Cut documents into passages; see `passages_of`.

    Args:
        documents: The documents, under their units.
        former: By unit, other units under whose names its passages may be stored.
        size: Longest passage, in characters.
        overlap: Characters repeated between neighbours.

    Raises:
        CorpusError: A metadata field has an empty name.
    """
    passages: dict[str, Record] = {}
    former_ids: dict[str, str] = {}
    empty = 0
    for document in documents:
        records = passages_of(document, size, overlap)
        empty += not records
        passages.update((record.id, record) for record in records)
        for name in _former_names(document, former.get(document.unit, ())):
            same = passages_of(replace(document, unit=name), size, overlap)
            former_ids.update((old.id, new.id) for old, new in zip(same, records, strict=True))
    return Cut(passages, former_ids, empty)


def delete_replaced(
    collection: Collection, documents: Iterable[Document], passages: Ids[str]
) -> None:
    """Delete what was read before from the records of the documents and is not there now.

    Args:
        collection: Where passages are stored.
        documents: What was read.
        passages: Ids of its passages.
    """
    records = list(dict.fromkeys(d.origin.record for d in documents if d.origin.record))
    found = stored_fields(collection, RECORD_FIELD, records)
    for batch in pages(sorted(set(found).difference(passages)), _PAGE):
        collection.delete(ids=list(batch))


def _former_names(document: Document, names: Sequence[str]) -> Sequence[str]:
    """Under which other names of units the passages of a document may be stored."""
    origin = document.origin
    own = names_in(origin.former)
    # Of a corpus made anew: a row was under its own name, whatever became of that since. A message
    # is known by others' keys as well, and may have been under the name of any.
    if not own or len(own) < len(origin.former) or not set(own) <= set(names_in(origin.keys)):
        return names
    return [name for name in own if name != document.unit]
