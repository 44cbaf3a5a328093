"""A Chroma collection that something else fills, read through Chroma's public interface.

Chroma's own search is approximate, so every vector is scored here. Vectors are kept in files of
ours, in the database's folder or for a server in the user's cache folder, and read again when the
number of records differs, and after a public time. A collection in memory is read for every
question.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from dpicl_rag.documents import unit_of
from dpicl_rag.errors import ConfigurationError, CorpusError
from dpicl_rag.files.tables import pages
from dpicl_rag.retrieval.base import unit_key
from dpicl_rag.retrieval.embeddings import Embedder, SentenceTransformerEmbedder
from dpicl_rag.retrieval.stored_record import (
    Defect,
    StoredRecord,
    SyntheticOrigin,
    find_defects,
    record_of,
    require_kind,
)
from dpicl_rag.retrieval.unit_vectors import UnitVectors
from dpicl_rag.retrieval.vector_rows import DamagedError, Mask
from dpicl_rag.retrieval.vectors import ExactSource, NearUnits, Where, on_grid
from dpicl_rag.stores.cached_vectors import Cached, CachedVectors, Page, cache_folder
from dpicl_rag.stores.chroma_client import (
    ChromaAddress,
    guarded,
    not_adopted,
    opened,
    require_field,
    require_length,
    require_silent,
    unit_on_record,
)

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

REFRESH_S = 60.0
"""Seconds after which what changed without changing the number of records is read."""

PUBLIC_FIELD = "dpicl_public"
"""Metadata field of a collection that a synthesis has made: its texts are public."""

_PREFIX = "chroma:"
_PAGE = 1000  # records asked for at a time
_LOCK_S = 3600.0  # another process reads the whole

T = TypeVar("T")
ChromaRow = tuple[StoredRecord | Defect, npt.NDArray[np.float32]]

Reach = Callable[[], AbstractContextManager["Collection"]]
"""The collection as it is now."""


@dataclass(frozen=True, slots=True)
class CollectionAddress:
    """A collection's place: ``chroma:FOLDER-OR-URL#COLLECTION``, and ``?unit=FIELD`` behind it.

    Attributes:
        place: Folder, or address of a server.
        name: Of the collection.
        unit_field: Metadata field that holds the privacy unit; the one on record if None.
    """

    place: str
    name: str
    unit_field: str | None = None

    @classmethod
    def of(cls, text: str) -> CollectionAddress | None:
        """The address that a text is; None where it is the name of a corpus.

        Raises:
            ConfigurationError: It is an address, and none of a collection.
        """
        if not text.startswith(_PREFIX):
            return None
        place, _, rest = text.removeprefix(_PREFIX).rpartition("#")
        name, _, unit = rest.partition("?unit=")
        if not place or not name or "?" in name:
            raise ConfigurationError(
                "a Chroma collection is given as chroma:FOLDER#COLLECTION or "
                "chroma:http://HOST:PORT#COLLECTION"
            )
        return cls(place, name, unit or None)


class ChromaCollection(ExactSource):
    """A `VectorSource` over a collection; it can be read and deleted from.

    Args:
        collection: A Chroma collection, for example ``Chroma._collection`` of langchain_chroma or
            ``ChromaVectorStore._collection`` of LlamaIndex.
        unit_field: Metadata field that holds the privacy unit; a record without it is never read,
            and `check` names it. With ``"document"`` each record is a unit of its own; only right
            where no document was cut into several records. LlamaIndex keeps the document in
            ``"document_id"``.
        embedder: The embedding model that the collection was filled with; the packaged one if None.
        refresh: Seconds after which it is read again, if nothing else tells of a change. Public.
        reach: How it is reached for each question; as it was given by default.

    Attributes:
        name: Of the collection. Public.
        public: Whether it says that all of its texts are.
        synthetic: The synthesis that drew its texts; None for texts that somebody wrote.
        adopted: Whether its owner has put its unit on record.

    Raises:
        CorpusError: The collection was adopted under another ``unit_field``, or has records of
            which none has this one.
    """

    def __init__(
        self,
        collection: Collection,
        *,
        unit_field: str,
        embedder: Embedder | None = None,
        refresh: float = REFRESH_S,
        reach: Reach | None = None,
    ) -> None:
        # Chroma has no public way from a collection to its client.
        client = collection._client
        require_silent(client)
        settings = client.get_settings()
        self.name: str = collection.name
        self.embedder = embedder or SentenceTransformerEmbedder()
        self.public, self.synthetic = _marks(collection)
        recorded = unit_on_record(collection)
        self.adopted: bool = recorded is not None
        if self.synthetic is None:
            require_kind(self.name, recorded, unit_field)
            with guarded():
                require_field(collection, unit_field)
        self.unit_field: str = unit_field
        self._refresh = refresh
        self._reach: Reach = reach or (lambda: nullcontext(collection))
        self._files: CachedVectors | None = None  # a collection in memory has none
        if settings.is_persistent or settings.chroma_server_host:
            local = None if settings.chroma_server_host else Path(settings.persist_directory)
            writable = local is not None and os.access(local, os.W_OK)
            place = local if local is not None and writable else cache_folder()
            self._files = CachedVectors(place, _key(collection, unit_field))
        self._lock = threading.Lock()
        self._held: Cached | None = None
        self._connections = ExitStack()

    @classmethod
    def open(
        cls,
        address: str,
        *,
        embedder: Embedder | None = None,
        refresh: float = REFRESH_S,
    ) -> ChromaCollection:
        """A collection by its address.

        Raises:
            CorpusError: There is no such collection, or its unit is neither on record nor in the
                address.
            ConfigurationError: It is no address of a collection.
        """
        wanted = CollectionAddress.of(address)
        if wanted is None:
            raise ConfigurationError(f"{address!r} is no address of a Chroma collection")
        with ExitStack() as connections:
            server = None
            if ChromaAddress.of(wanted.place) is not None:
                server = connections.enter_context(opened(wanted.place))

            @contextmanager
            def reach() -> Iterator[Collection]:
                # A client of a folder keeps what it has read, and misses what others write.
                with opened(wanted.place) if server is None else nullcontext(server) as client:
                    yield collection_named(client, wanted.name)

            with guarded(), reach() as collection:
                unit_field = wanted.unit_field or unit_on_record(collection)
                if unit_field is None:
                    raise not_adopted(address)
                made = cls(
                    collection,
                    unit_field=unit_field,
                    embedder=embedder,
                    refresh=refresh,
                    reach=reach,
                )
            made._connections = connections.pop_all()
        return made

    def __repr__(self) -> str:
        return f"ChromaCollection({self.name!r})"

    @contextmanager
    def _reached(self) -> Iterator[Collection]:
        """The collection, if the one of its name is still what it was opened as."""
        with guarded(), self._reach() as collection:
            if _marks(collection) != (self.public, self.synthetic):
                raise CorpusError(
                    f"the Chroma collection {self.name!r} was made anew as another since it was "
                    "opened; open it again, or restart what uses it"
                )
            if self.synthetic is None:
                require_kind(self.name, unit_on_record(collection), self.unit_field)
            yield collection

    def _near(
        self, question: npt.ArrayLike, least: float, most: int | None, where: Where | None
    ) -> NearUnits:
        def scanned(cached: Cached, allowed: Mask | None) -> NearUnits:
            def fetch(rows: Sequence[int]) -> dict[int, StoredRecord]:
                with self._reached() as collection:
                    return self._fetched(collection, cached, rows)

            return cached.scan(question, least, most, allowed, fetch)

        return self._on_rows(scanned, where)

    def unit_vectors(self) -> UnitVectors:
        """Vectors of all passages, as they are now; see `UnitVectorSource`. Private.

        Raises:
            CorpusError: The collection cannot be read.
        """
        return self._on_rows(
            lambda cached, _: cached.rows.unit_vectors(dict(enumerate(cached.names)))
        )

    def records(self) -> list[StoredRecord]:
        """Every passage as it is now, those of a unit together. For the owner; private.

        Raises:
            CorpusError: The collection cannot be read.
        """
        with self._reached() as collection:
            records = [row for row, _ in self._rows(collection) if isinstance(row, StoredRecord)]
        return sorted(records, key=lambda one: (unit_key(one.unit), one.unit, one.id))

    def check(self) -> list[Defect]:
        """Records that questions do not find, and why: no text, no unit, no usable vector.

        For the owner of the documents, after a collection was filled: no question tells of them,
        for that would be a release. The list is private.

        Raises:
            CorpusError: The collection cannot be read.
        """
        with self._reached() as collection:
            return find_defects(self._rows(collection), self.embedder)

    def delete_unit(self, unit: str) -> None:
        """Remove all records of a privacy unit; nothing happens if there are none.

        Chroma's files may hold traces of a deleted text until they are compacted
        (``chroma vacuum``).
        """
        with self._reached() as collection:
            page = collection.get(include=["metadatas"])
            # Not by a filter on the field: that tells the number 1 from the string, units do not.
            ids = [
                id
                for id, fields in zip(page["ids"], page["metadatas"] or [], strict=True)
                if unit_of(id, fields or {}, self.unit_field) == unit
            ]
            for some in pages(ids, _PAGE):
                collection.delete(ids=list(some))
            if self._files is not None:
                self._read_anew(collection, self._files)

    def require_ready(self, address: str) -> None:
        """Refuse what questions must not be paid for: for the owner, before any is.

        Raises:
            CorpusError: Its unit is not on record, or another embedding model has filled it.
        """
        if not self.adopted:
            raise not_adopted(address)
        with self._reached() as collection:
            require_length(collection, self.embedder)

    def close(self) -> None:
        """Forget what is in memory, and release connections."""
        self._held = None
        self._connections.close()

    def _on_rows(self, work: Callable[[Cached, Mask | None], T], where: Where | None = None) -> T:
        """Work on the rows as they are now, and on which of them a filter lets pass; all if None.

        Where they turn out to be damaged, they are read anew.
        """
        damaged: Cached | None = None
        while True:
            with self._reached() as collection:
                cached = self._current(collection, damaged)
                allowed = None if where is None else _allowed(collection, cached, where)
            try:
                return work(cached, allowed)
            except DamagedError:
                if damaged is not None:
                    raise
                damaged = cached

    def _current(self, collection: Collection, damaged: Cached | None) -> Cached:
        """The rows as they are now; one thread and one process reads, others wait for it."""
        files = self._files
        if files is None:
            return Cached.in_memory(self._pages(collection))
        version = str(collection.count())
        held = self._held
        if held is not None and held is not damaged and held.version == version:
            # Only its time is over: one reads again, others go on with what there is.
            if self._is_fresh(held) or not self._lock.acquire(blocking=False):
                return held
        else:
            self._lock.acquire()
        try:
            held = self._held
            if held not in (None, damaged) and held.version == version and self._is_fresh(held):
                return held  # another thread was first
            return self._read(collection, files, damaged)
        finally:
            self._lock.release()

    def _read(self, collection: Collection, files: CachedVectors, damaged: Cached | None) -> Cached:
        with FileLock(files.folder / f"{files.key}.lock", timeout=_LOCK_S, mode=0o600):
            kept = files.load()
            if kept is not None and damaged is not None and files.is_damaged(kept):
                kept = None
            if kept is None or kept.version != str(collection.count()) or not self._is_fresh(kept):
                kept = files.write(str(collection.count()), self._pages(collection))
            self._held = kept
            return kept

    def _read_anew(self, collection: Collection, files: CachedVectors) -> None:
        """After a deletion: nothing of it stays in the files."""
        with self._lock, FileLock(files.folder / f"{files.key}.lock", timeout=_LOCK_S, mode=0o600):
            self._held = files.write(str(collection.count()), self._pages(collection))

    def _is_fresh(self, cached: Cached) -> bool:
        return time.time() < cached.read_at + self._refresh

    def _pages(self, collection: Collection) -> Iterator[Page]:
        for page in self._row_pages(collection):
            ids = [record.id for record, _ in page]
            units = [
                record.unit if isinstance(record, StoredRecord) else None for record, _ in page
            ]
            yield ids, units, on_grid(np.stack([vector for _, vector in page]))

    def _rows(self, collection: Collection) -> Iterator[ChromaRow]:
        """Every record with its vector."""
        for page in self._row_pages(collection):
            yield from page

    def _row_pages(self, collection: Collection) -> Iterator[list[ChromaRow]]:
        # Identifiers first, in one statement: pages by offset would slip under a writer.
        for ids in pages(collection.get(include=[])["ids"], _PAGE):
            page: Any = collection.get(
                ids=list(ids), include=["embeddings", "metadatas", "documents"]
            )
            rows = zip(page["ids"], page["metadatas"] or [], page["documents"] or [], strict=True)
            records = [record_of(*row, self.unit_field) for row in rows]
            if records:
                vectors = np.asarray(page["embeddings"], dtype=np.float32)
                yield list(zip(records, vectors, strict=True))

    def _fetched(
        self, collection: Collection, cached: Cached, rows: Sequence[int]
    ) -> dict[int, StoredRecord]:
        wanted = {cached.ids[row]: row for row in rows}
        records: dict[int, StoredRecord] = {}
        for ids in pages(list(wanted), _PAGE):
            found: Any = collection.get(ids=list(ids), include=["metadatas", "documents"])
            for one in zip(
                found["ids"], found["metadatas"] or [], found["documents"] or [], strict=True
            ):
                row, record = wanted[one[0]], record_of(*one, self.unit_field)
                # A record that is another unit's by now is not what was scored.
                name = cached.names[int(cached.rows.unit[row])]
                if isinstance(record, StoredRecord) and record.unit == name:
                    records[row] = record
        return records


def _allowed(collection: Collection, cached: Cached, where: Where) -> Mask:
    """Rows that a filter lets pass."""
    ids = frozenset(collection.get(where=dict(where), include=[])["ids"])
    return np.fromiter((id in ids for id in cached.ids), dtype=bool, count=len(cached.ids))


def _marks(collection: Collection) -> tuple[bool, SyntheticOrigin | None]:
    """What makes the texts of a collection free to read."""
    metadata = collection.metadata or {}
    return metadata.get(PUBLIC_FIELD) is True, SyntheticOrigin.of(metadata)


def _key(collection: Collection, unit_field: str) -> str:
    """Names a collection, however its server or folder is spelled, and what its units are."""
    field = hashlib.sha256(json.dumps(unit_field).encode()).hexdigest()[:16]
    return f"{collection.id}.{field}"


def collection_named(client: ClientAPI, name: str) -> Collection:
    """A collection that is there.

    Raises:
        CorpusError: There is none.
    """
    from chromadb.errors import NotFoundError

    try:
        found: Collection = client.get_collection(name, embedding_function=None)
    except NotFoundError:
        raise CorpusError(
            f"there is no Chroma collection {name!r}; its address is chroma:FOLDER-OR-URL#NAME"
        ) from None
    return found
