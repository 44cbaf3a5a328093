"""Vectors of a local collection: mapped from a file that follows what the store holds."""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpicl_rag.corpora.passage_changes import Stored
from dpicl_rag.corpora.passages import Record
from dpicl_rag.corpora.register import pages
from dpicl_rag.documents import unit_of
from dpicl_rag.errors import CorpusError
from dpicl_rag.files.private_folder import DATABASE_FILE
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.found import FoundInFile
from dpicl_rag.retrieval.mending import fill
from dpicl_rag.retrieval.store import Store, Version
from dpicl_rag.retrieval.tables import Listing, Row, Tables
from dpicl_rag.retrieval.vector_file import Change, DamagedError, Mapped, Mask, VectorFile
from dpicl_rag.retrieval.vectors import Found, Where, on_grid

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

_PAGE = 5000  # vectors read at a time


class LocalVectors:
    """The vectors of a collection in a local database.

    A file beside the store is brought up to date by what was written since, under the store's
    lock. A question never waits for that lock where there is a file: whoever writes by this
    library leaves it up to date, so what another writer holds is not yet there.

    Args:
        store: A local one.
        name: Of the collection.
        unit_field: Metadata field that holds the privacy unit.
    """

    def __init__(self, store: Store, name: str, unit_field: str) -> None:
        self._store = store
        self._name = name
        self._unit_field = unit_field
        self._lock = threading.Lock()
        self._loaded: tuple[Listing, Mapped] | None = None

    def __repr__(self) -> str:
        return "LocalVectors(<private>)"

    def scan(
        self,
        question: npt.ArrayLike,
        least: float = -math.inf,
        most: int | None = None,
        where: Where | None = None,
    ) -> Found:
        """See `VectorSource.scan`."""
        listing, mapped = self._current()
        allowed = None if where is None else self._allowed(listing, mapped, where)
        try:
            near = mapped.near(question, least, most, allowed)
        except DamagedError:
            listing, mapped = self._mended(mapped)
            allowed = None if where is None else self._allowed(listing, mapped, where)
            near = mapped.near(question, least, most, allowed)
        tables = self._tables()

        def fetch(rows: Sequence[int]) -> dict[int, Record]:
            wanted = {int(mapped.number[row]): row for row in rows}
            records: dict[int, Record] = {}
            for one in tables.rows(listing, list(wanted)):
                row = wanted[one.number]
                # A record that was written since is not what was scored.
                if one.stamp == mapped.stamp[row] and isinstance(one.record, Record):
                    records[row] = one.record
            return records

        return FoundInFile(mapped, near, allowed, question, fetch)

    def wrote(
        self,
        client: ClientAPI,
        collection: Collection,
        *,
        forgot: bool,
        written: Sequence[Stored] = (),
    ) -> None:
        """Bring the file up to date, after a write and before the store's lock is released.

        Args:
            client: Of the store.
            collection: That was written to.
            forgot: Whether something was deleted.
            written: All that was written under the lock, in the order of its writes, if that is
                known: it need not be read back.
        """
        self._renew(collection, written=written)

    def ids_of(self, unit: str, collection: Collection) -> list[str]:
        """Identifiers of the records of a unit, under the store's lock."""
        listing, mapped = self._renew(collection)
        places = [place for place, name in enumerate(mapped.names) if name == unit]
        # Those that no question finds have no unit in the file, and may have one in the store.
        others = np.flatnonzero(mapped.live & (mapped.unit < 0))
        numbers = mapped.number[np.concatenate([mapped.rows_of(places), others])].tolist()
        return [row.id for row in self._tables().rows(listing, numbers) if row.unit == unit]

    def metadata(self, ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Metadata of the records that are there, by their identifiers."""
        tables = self._tables()
        listing = tables.listing()
        if listing is None or listing.behind:
            with self._store.reading() as client:
                listing, _ = self._renew(self._collection(client))
        return {row.id: row.fields for row in tables.rows(listing, tables.numbers(listing, ids))}

    def refill(self, collection: Collection, embedder: Embedder) -> None:
        """Give the collection's index, which was removed, all vectors again; see `fill`."""
        tables = self._tables()
        listing = tables.listing()
        kept = None if listing is None else self._file(listing).load()
        fill(collection, tables, kept, embedder, self._store.note_written)

    def close(self) -> None:
        """Forget what is mapped."""
        with self._lock:
            self._loaded = None

    def _tables(self) -> Tables:
        if self._store.path is None:
            raise CorpusError("a file of vectors needs a local database")
        return Tables(
            self._store.path / DATABASE_FILE, self._name, self._store.place, self._unit_field
        )

    def _file(self, listing: Listing) -> VectorFile:
        if self._store.path is None:
            raise CorpusError("a file of vectors needs a local database")
        return VectorFile(self._store.path, f"{listing.collection}.{field_key(self._unit_field)}")

    def _current(self) -> tuple[Listing, Mapped]:
        """The rows as they are now."""
        version = self._store.version(self._name)
        loaded = self._loaded
        if version is not None:
            if loaded is not None and loaded[1].version == _text(version):
                return loaded
            found = self._load()
            if found is not None and found[1].version == _text(version):
                return found
            if found is not None:
                with self._store.try_reading() as client:
                    if client is None:
                        return found  # somebody writes
                    return self._renew(self._collection(client))
        with self._store.reading() as client:
            return self._renew(self._collection(client))

    def _load(self) -> tuple[Listing, Mapped] | None:
        """What the file holds, if there is one of this collection."""
        listing = self._tables().listing()
        if listing is None:
            return None
        before = self._loaded
        mapped = self._file(listing).load(None if before is None else before[1])
        if mapped is None:
            return None
        with self._lock:
            self._loaded = listing, mapped
        return listing, mapped

    def _mended(self, damaged: Mapped) -> tuple[Listing, Mapped]:
        """The rows where some were not what they should be."""
        with self._store.reading() as client:
            collection = self._collection(client)
            found = self._renew(collection)
            try:
                found[1].require_all_sound()
            except DamagedError:
                found = self._renew(collection, anew=True)
            return found

    def _collection(self, client: ClientAPI) -> Collection:
        return client.get_collection(self._name, embedding_function=None)

    def _renew(
        self, collection: Collection, *, anew: bool = False, written: Sequence[Stored] = ()
    ) -> tuple[Listing, Mapped]:
        # The version first: what is written by another program meanwhile makes it another.
        version = self._store.version(self._name)
        tables = self._tables()
        listing = tables.listing()
        if listing is not None and listing.behind:
            collection.get(limit=1, include=[])  # takes in the log
            listing = tables.listing()
        if listing is None:
            raise CorpusError("the collection is gone; make it again, or open another")
        file = self._file(listing)
        before = None if anew else file.load(None if self._loaded is None else self._loaded[1])
        if before is not None and not _follows(_text(version), before.version):
            before = None  # another file, or one from a backup
        if before is None:
            file.clear_away_others(tables.collections())
        if before is None or before.version != _text(version):
            grown = None
            if before is not None and written and _keeps_bits(collection):
                grown = self._grown(tables, listing, file, before, written, _text(version))
            before = grown or self._changed(
                tables, listing, file, before, collection, _text(version)
            )
        with self._lock:
            self._loaded = listing, before
        return listing, before

    def _grown(
        self,
        tables: Tables,
        listing: Listing,
        file: VectorFile,
        before: Mapped,
        written: Sequence[Stored],
        version: str,
    ) -> Mapped | None:
        """Write what was written since ``before``; None if that is not all that happened."""
        (_, first, *_), (_, last, *_) = json.loads(before.version), json.loads(version)
        if first is None or last is None or last - first != len(written):
            return None  # somebody else wrote, too
        there = tables.stamped(listing, [record.id for record, _ in written])
        # Chroma numbers writes one by one, so each record must bear the number of its own.
        numbers = [number for number, stamp in there]
        if [stamp for _, stamp in there] != list(range(first + 1, last + 1)):
            return None
        gone = before.live & np.isin(before.number, numbers)
        if (before.live & ~gone).sum() + len(numbers) != tables.count(listing):
            return None
        change = file.change(before)
        change.remove(gone)
        for begin in range(0, len(written), _PAGE):
            page = slice(begin, begin + _PAGE)
            change.append(
                numbers[page],
                range(first + 1, last + 1)[page],
                [
                    unit_of(record.id, record.metadata, self._unit_field)
                    for record, _ in written[page]
                ],
                on_grid(np.stack([vector for _, vector in written[page]])),
            )
        return change.commit(version)

    def _changed(
        self,
        tables: Tables,
        listing: Listing,
        file: VectorFile,
        before: Mapped | None,
        collection: Collection,
        version: str,
    ) -> Mapped:
        """Write what came and went since ``before``."""
        change = file.change(before)
        last = -1 if before is None or not len(before.stamp) else int(before.stamp.max())
        numbers, stamps = tables.stamps(listing, last)
        if before is not None:
            gone = before.live & np.isin(before.number, numbers)
            if (before.live & ~gone).sum() + len(numbers) != tables.count(listing):
                there, _ = tables.stamps(listing)
                gone |= before.live & ~np.isin(before.number, there)
            change.remove(gone)
        for page in pages(numbers[np.argsort(stamps)].tolist(), _PAGE):
            rows = list(tables.rows(listing, page, whole=False))
            _append(change, rows, _vectors(collection, rows))
        return change.commit(version)

    def _allowed(self, listing: Listing, mapped: Mapped, where: Where) -> Mask:
        """Rows that a filter lets pass."""
        tables = self._tables()
        numbers = tables.matching(listing, where)
        if numbers is None:
            with self._store.reading() as client:
                ids = self._collection(client).get(where=dict(where), include=[])["ids"]
            numbers = np.array(tables.numbers(listing, ids), dtype=np.int64)
        return np.isin(mapped.number, numbers) & mapped.live


def _append(change: Change, rows: Sequence[Row], vectors: Mapping[str, npt.ArrayLike]) -> None:
    rows = [row for row in rows if row.id in vectors]
    if rows:
        change.append(
            [row.number for row in rows],
            [row.stamp for row in rows],
            [row.record.unit if isinstance(row.record, Record) else None for row in rows],
            on_grid(np.stack([vectors[row.id] for row in rows])),
        )


def _vectors(collection: Collection, rows: Sequence[Row]) -> Mapping[str, npt.ArrayLike]:
    found = collection.get(ids=[row.id for row in rows], include=["embeddings"])
    return dict(zip(found["ids"], np.asarray(found["embeddings"]), strict=True))


def _keeps_bits(collection: Collection) -> bool:
    """Whether the vectors that are read back are those that were written."""
    index = collection.configuration_json.get("hnsw")
    return bool(index and index.get("space") == "l2")


def _text(version: Version | None) -> str:
    return json.dumps(version)


def _follows(version: str, before: str) -> bool:
    """Whether a version is one of the same database as another, and no earlier one."""
    new, old = json.loads(version), json.loads(before)
    return bool(new and old and new[0] == old[0] and (new[1] or 0) >= (old[1] or 0))


def field_key(field: str) -> str:
    """A name for a field that a file's name may hold."""
    return hashlib.sha256(field.encode()).hexdigest()[:8]
