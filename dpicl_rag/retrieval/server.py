"""Vectors of a collection on a Chroma server: kept in a file of the user's cache folder.

Servers have no counter of changes. Each write of this library to a corpus renews a random version
beside it, and each question compares that and the number of records with those of the file, so
what this library writes or forgets, from whatever machine, is seen by the next question. What
other programs write is seen when it changes the number of records, and at the latest after a
public time.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from filelock import FileLock, Timeout
from platformdirs import user_cache_dir

from dpicl_rag.corpora.defects import record_of
from dpicl_rag.corpora.passage_changes import Stored
from dpicl_rag.corpora.passages import Record
from dpicl_rag.corpora.register import Register, pages
from dpicl_rag.documents import unit_of
from dpicl_rag.errors import CorpusError
from dpicl_rag.retrieval.found import FoundInFile
from dpicl_rag.retrieval.store import Store
from dpicl_rag.retrieval.vector_file import (
    DamagedError,
    Mapped,
    Mask,
    VectorFile,
    keys_of,
    remove_files,
)
from dpicl_rag.retrieval.vectors import Found, Where, on_grid

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

_PAGE = 1000  # records asked for at a time
_LOCK_TIMEOUT_S = 3600.0  # another process reads the whole
REFRESH_S = 60.0
"""After how many seconds what other programs wrote is read, if nothing else tells of it."""


class ServerVectors:
    """The vectors of a collection on a server.

    Args:
        store: On a server.
        name: Of the collection.
        unit_field: Metadata field that holds the privacy unit.
        refresh: Seconds after which it is read again. Public.
        given: The collection, where something else fills it; it is then read as a whole. In one
            that this library fills a record's vector follows from its identifier, so that only
            records that came are read.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        unit_field: str,
        *,
        refresh: float = REFRESH_S,
        given: Collection | None = None,
    ) -> None:
        self._store = store
        self._name = name
        self._unit_field = unit_field
        self._refresh = refresh
        self._given = given
        self._lock = threading.Lock()
        self._loaded: tuple[Mapped, float] | None = None  # and when it was read

    def __repr__(self) -> str:
        return "ServerVectors(<private>)"

    def scan(
        self,
        question: npt.ArrayLike,
        least: float = -math.inf,
        most: int | None = None,
        where: Where | None = None,
    ) -> Found:
        """See `VectorSource.scan`."""
        with self._store.reading() as client:
            collection = self._collection(client)
            mapped = self._current(client, collection)
            try:
                allowed = None if where is None else _allowed(collection, mapped, where)
                near = mapped.near(question, least, most, allowed)
            except DamagedError:
                mapped = self._current(client, collection, damaged=mapped)
                allowed = None if where is None else _allowed(collection, mapped, where)
                near = mapped.near(question, least, most, allowed)

        def fetch(rows: Sequence[int]) -> dict[int, Record]:
            with self._store.reading():
                return self._fetched(collection, mapped, rows)

        return FoundInFile(mapped, near, allowed, question, fetch)

    def wrote(
        self,
        client: ClientAPI,
        collection: Collection,
        *,
        forgot: bool,
        written: Sequence[Stored] = (),
    ) -> None:
        """Let every process see a write; where something was forgotten, forget it here, too."""
        if self._given is None:
            Register(client, self._name).renew()
        if not forgot:
            return
        file = self._file(collection)
        if file.state() is not None:
            self._current(client, collection)
        _remove_others(file, str(collection.id))

    def ids_of(self, unit: str, collection: Collection) -> list[str]:
        """Identifiers of all records of a unit."""
        page = collection.get(include=["metadatas"])
        # Not by a filter on the field: that tells the number 1 from the string, units do not.
        return [
            id
            for id, fields in zip(page["ids"], page["metadatas"] or [], strict=True)
            if unit_of(id, fields or {}, self._unit_field) == unit
        ]

    def metadata(self, ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Metadata of the records that are there, by their identifiers."""
        stored: dict[str, Mapping[str, Any]] = {}
        with self._store.reading() as client:
            collection = self._collection(client)
            for page in pages(ids, _PAGE):
                found = collection.get(ids=list(page), include=["metadatas"])
                stored.update(zip(found["ids"], found["metadatas"] or [], strict=True))
        return stored

    def close(self) -> None:
        """Forget what is mapped."""
        self._loaded = None

    def _collection(self, client: ClientAPI) -> Collection:
        if self._given is not None:
            return self._given
        return client.get_collection(self._name, embedding_function=None)

    def _file(self, collection: Collection) -> VectorFile:
        where = json.dumps([self._store.server, self._unit_field])
        key = f"{collection.id}.{hashlib.sha256(where.encode()).hexdigest()[:16]}"
        return VectorFile(cache_folder(), key)

    def _current(
        self, client: ClientAPI, collection: Collection, *, damaged: Mapped | None = None
    ) -> Mapped:
        """The rows as they are now; one thread and one process reads, others wait for it."""
        version = self._version(client, collection)
        held = self._held(version, damaged)
        if held is not None:
            mapped, fresh = held
            # Only its time is over: one reads again, others go on with what there is.
            if fresh or not self._lock.acquire(blocking=False):
                return mapped
        else:
            self._lock.acquire()
        try:
            return self._read(client, collection, damaged)
        finally:
            self._lock.release()

    def _held(self, version: str, damaged: Mapped | None) -> tuple[Mapped, bool] | None:
        """What is loaded, if it is of this version, and whether its time is not over."""
        loaded = self._loaded
        if loaded is None or loaded[0] is damaged or loaded[0].version != version:
            return None
        return loaded[0], time.time() < loaded[1] + self._refresh

    def _read(self, client: ClientAPI, collection: Collection, damaged: Mapped | None) -> Mapped:
        version = self._version(client, collection)
        held = self._held(version, damaged)
        if held is not None and held[1]:
            return held[0]  # another thread was first
        file = self._file(collection)
        try:
            with FileLock(file.folder / f"{file.key}.lock", timeout=_LOCK_TIMEOUT_S, mode=0o600):
                version = self._version(client, collection)
                before = file.load(None if self._loaded is None else self._loaded[0])
                read_at = file.written_at()
                if damaged is not None and before is not None and _is_damaged(before):
                    before = None
                if (
                    before is None
                    or before.version != version
                    or not time.time() < read_at + self._refresh
                ):
                    before = self._changed(client, file, before, collection, version)
                    read_at = time.time()
        except Timeout:
            raise CorpusError(
                "another process reads the collection for too long; end it, or try again"
            ) from None
        self._loaded = before, read_at
        return before

    def _changed(
        self,
        client: ClientAPI,
        file: VectorFile,
        before: Mapped | None,
        collection: Collection,
        version: str,
    ) -> Mapped:
        """Read what came since ``before``, and drop what went."""
        # Identifiers first, in one statement: pages by offset would slip under a writer.
        ids = collection.get(include=[])["ids"]
        if self._given is not None:
            before = None
        known: set[str] = set()
        change = file.change(before)
        first = 0
        if before is not None:
            there = frozenset(ids)
            left = Register(client, self._name).left()
            moved = {place for place, unit in enumerate(before.names) if unit in left}
            gone = ~before.live
            for row, id in enumerate(before.ids):
                if not gone[row]:
                    gone[row] = id not in there or int(before.unit[row]) in moved
                    if not gone[row]:
                        known.add(id)
            change.remove(gone & before.live)
            first = len(before.number)
        new = [id for id in ids if id not in known]
        for page in pages(new, _PAGE):
            found = collection.get(ids=list(page), include=["embeddings", "metadatas", "documents"])
            rows = zip(
                found["ids"], found["metadatas"] or [], found["documents"] or [], strict=True
            )
            records = [record_of(*row, self._unit_field) for row in rows]
            if records:
                change.append(
                    np.arange(first, first + len(records)),
                    np.zeros(len(records)),
                    [record.unit if isinstance(record, Record) else None for record in records],
                    on_grid(np.asarray(found["embeddings"])),
                    found["ids"],
                )
            first += len(records)
        return change.commit(version)

    def _version(self, client: ClientAPI, collection: Collection) -> str:
        """What differs after a write of this library, and after most of others."""
        written = Register.version_of(client, self._name) if self._given is None else None
        return json.dumps([collection.count(), written])

    def _fetched(
        self, collection: Collection, mapped: Mapped, rows: Sequence[int]
    ) -> dict[int, Record]:
        wanted = {mapped.ids[row]: row for row in rows}
        records: dict[int, Record] = {}
        for ids in pages(list(wanted), _PAGE):
            found = collection.get(ids=list(ids), include=["metadatas", "documents"])
            for one in zip(
                found["ids"], found["metadatas"] or [], found["documents"] or [], strict=True
            ):
                row, record = wanted[one[0]], record_of(*one, self._unit_field)
                # A record that is another unit's by now is not what was scored.
                if isinstance(record, Record) and record.unit == mapped.names[mapped.unit[row]]:
                    records[row] = record
        return records


def _allowed(collection: Collection, mapped: Mapped, where: Where) -> Mask:
    """Rows that a filter lets pass."""
    ids = frozenset(collection.get(where=dict(where), include=[])["ids"])
    return np.fromiter((id in ids for id in mapped.ids), dtype=bool, count=len(mapped.ids))


def _remove_others(file: VectorFile, collection: str) -> None:
    """Remove what this user keeps of a collection under another spelling of its server's address.

    Whoever goes by that spelling reads anew.
    """
    for key in keys_of(file.folder, collection) - {file.key}:
        with FileLock(file.folder / f"{key}.lock", timeout=_LOCK_TIMEOUT_S, mode=0o600):
            remove_files(file.folder, key)


def _is_damaged(mapped: Mapped) -> bool:
    try:
        mapped.require_all_sound()
    except DamagedError:
        return True
    return False


def cache_folder() -> Path:
    """Where vectors of servers are kept. It is the owner's alone, as the corpora are."""
    folder = Path(user_cache_dir("dpicl-rag", appauthor=False)) / "servers"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
    except OSError as error:
        raise CorpusError(
            f"{folder} cannot be written; give this user a cache folder, for example by "
            f"XDG_CACHE_HOME ({error.strerror})"
        ) from error
    return folder
