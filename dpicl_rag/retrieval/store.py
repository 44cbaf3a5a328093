"""Reaching a Chroma database so that what is read is what is there.

A local Chroma client keeps its vector index in memory and does not see what another process wrote:
it answers with old vectors, or fails with "Error finding id". So each read or write of a local
database goes through a client of its own, opened for it (10 ms) and closed after it, one at a
time across threads and processes.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout
from platformdirs import user_data_dir

from dpicl_rag._unobserved import unobserved
from dpicl_rag.corpora.register import PREFIX
from dpicl_rag.errors import CorpusError, DPICLError
from dpicl_rag.files.private_folder import DATABASE_FILE, LOCK_FILE, make_private
from dpicl_rag.retrieval.torn import Note
from dpicl_rag.stores.chroma_address import NO_TELEMETRY, Address, disconnect

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

_LOCK_TIMEOUT_S = 120.0
_PAGE = 100  # collections named at a time
_LOGGED = "SELECT max(seq_id) FROM embeddings_queue"
_SEGMENTS = """
SELECT segments.id, max_seq_id.seq_id
FROM collections
JOIN segments ON segments.collection = collections.id
LEFT JOIN max_seq_id ON max_seq_id.segment_id = segments.id
WHERE collections.name = ?
ORDER BY segments.id
"""

Version = tuple[object, ...]
_File = tuple[int, int]


def default_path() -> Path:
    """Folder of the local database if none is named."""
    return Path(user_data_dir("dpicl-rag", appauthor=False)) / "chroma"


def local_path(path: str | Path | None) -> Path:
    """A folder in the one spelling under which the store knows it; the default one if None."""
    return (default_path() if path is None else Path(path)).expanduser().resolve()


def beside(place: str | Path | None, what: str) -> Path:
    """A folder of this library's own for what is no part of a store but follows from it.

    It lies next to a local store. What follows from a server's lies in the user's data folder.

    Args:
        place: A folder, the default one if None, or the address of a Chroma server.
        what: What is kept there.
    """
    address = Address.of(place)
    store = local_path(place) if address is None else default_path().with_name(address.name)
    return store.parent / f"{store.name}-{what}"


class Store:
    """A Chroma database: a local folder, or a server, or a client that the caller made.

    A folder is kept private; see `make_private`. That of a client is as the client's program made
    it.

    Args:
        path: Folder of a local database.
        client: Client to use for writing, and for reading too where there is no folder.
        tenant: Chroma tenant.
        database: Chroma database of the tenant.
        address: Of a server, in place of the two.

    Attributes:
        menders: By the name of a collection, what gives its index all vectors again. An index that
            a killed process may have left torn is removed, and its mender called.

    Raises:
        CorpusError: No server answers there.
    """

    def __init__(
        self,
        path: Path | None,
        client: ClientAPI | None = None,
        tenant: str = "default_tenant",
        database: str = "default_database",
        *,
        address: Address | None = None,
    ) -> None:
        self.path = None if path is None else local_path(path)
        self._own: ClientAPI | None = None  # made here, so closed here
        if address is not None:
            with _guarded():
                client = self._own = address.connect(tenant, database)
        self._client = client
        self._tenant = tenant
        self._database = database
        self.menders: Mapping[str, Callable[[Collection], None]] = {}
        self._watch: tuple[sqlite3.Connection, _File] | None = None
        self._watch_lock = threading.Lock()

    @classmethod
    def at(cls, path: str | Path | None, client: ClientAPI | None) -> Store:
        """The store at a place, or behind a client.

        Args:
            path: A folder, the user's own if None, or the address of a Chroma server.
            client: In its place.

        Raises:
            CorpusError: Both are given, or no server answers.
        """
        if client is None:
            address = Address.of(path)
            return cls(local_path(path)) if address is None else cls(None, address=address)
        if path is not None:
            raise CorpusError("give a path or a client, not both")
        return cls.of_client(client, client.tenant, client.database)

    @classmethod
    def of_client(cls, client: ClientAPI, tenant: str, database: str) -> Store:
        """The store behind a client; its folder is found if it is a local one.

        Raises:
            CorpusError: The client has telemetry of its own.
        """
        settings = client.get_settings()
        if settings.chroma_product_telemetry_impl != NO_TELEMETRY:
            raise CorpusError(
                "the client's telemetry would be told how many records are read; leave "
                "chroma_product_telemetry_impl out of its settings"
            )
        local = settings.is_persistent and not settings.chroma_server_host
        path = Path(settings.persist_directory) if local else None
        return cls(path, client, tenant, database)

    @property
    def server(self) -> str | None:
        """Address of the server that the database is on; None where it is in this process."""
        if self._client is None or self.path is not None:
            return None
        settings = self._client.get_settings()
        host = settings.chroma_server_host
        return f"{host}:{settings.chroma_server_http_port}" if host else None

    @property
    def place(self) -> tuple[str, str]:
        """Database and tenant of Chroma."""
        return self._database, self._tenant

    @contextmanager
    def reading(self) -> Iterator[ClientAPI]:
        """A client that sees everything written so far.

        Raises:
            CorpusError: There is no database in the folder, or it fails.
        """
        if self.path is not None and not self._is_there(self.path):
            raise _gone(self.path)
        with self._any() as client:
            yield client

    @contextmanager
    def try_reading(self) -> Iterator[ClientAPI | None]:
        """`reading`, or None at once where that would take long.

        Somebody else reads or writes, or was killed while an index was written.

        Raises:
            CorpusError: As `reading`.
        """
        if self.path is None:
            with self.reading() as client:
                yield client
            return
        if not self._is_there(self.path):
            raise _gone(self.path)
        lock = FileLock(self.path / LOCK_FILE, timeout=0, mode=0o600)
        try:
            lock.acquire()
        except Timeout:
            yield None
            return
        except OSError as error:
            raise _closed(self.path, error) from error
        try:
            if self._torn(Note(self.path)):
                yield None
                return
            with _guarded(), self._fresh(self.path) as client:
                yield client
            self._keep_private(self.path)
        finally:
            lock.release()

    def note_written(self) -> None:
        """Call it between writes: what was written until now is whole, whatever comes after."""
        if self.path is not None and self._client is None:
            Note(self.path).renew()

    @contextmanager
    def writing(self) -> Iterator[ClientAPI]:
        """A client to write with: the caller's own, whose index would miss another's writes."""
        if self._client is None or self.path is None:
            with self._any() as client:
                yield client
        else:
            with _guarded(), self._locked(self.path):
                yield self._client

    def names(self) -> list[str]:
        """Names of the collections but registers, sorted; none if there is no database."""
        if self.path is not None and not self._is_there(self.path):
            return []
        names: list[str] = []
        with self.reading() as client:
            while page := client.list_collections(limit=_PAGE, offset=len(names)):
                names.extend(collection.name for collection in page)
        return sorted(name for name in names if not name.startswith(PREFIX))

    def version(self, name: str) -> Version | None:
        """A value that differs after any write to a collection, whoever made it.

        Chroma numbers its writes: those in the log, and the last that each segment of the
        collection has taken in. Two reads of these tables cost less than a millisecond. The file
        as a whole would not do: Chroma writes to it whenever a client opens it. The numbers begin
        anew with each database, so the file's identity is part of the version.

        Returns:
            None where it cannot be told; assume that everything changed.
        """
        if self.path is None:
            return None
        with self._watch_lock:
            try:
                watch, file = self._watching(self.path / DATABASE_FILE)
                segments = watch.execute(_SEGMENTS, (name,)).fetchall()
                ((logged,),) = watch.execute(_LOGGED).fetchall()
            except (OSError, sqlite3.Error):
                return None
        return (file, logged, *segments) if segments else None

    def close(self) -> None:
        """Release the file, or the connection."""
        with self._watch_lock:
            self._unwatch()
        if self._own is not None:
            disconnect(self._own)

    @contextmanager
    def kept(self) -> Iterator[Store]:
        """This store, which is closed if the block fails."""
        try:
            yield self
        except BaseException:
            self.close()
            raise

    def _watching(self, database: Path) -> tuple[sqlite3.Connection, _File]:
        """A connection to the file that has this name now, and which file that is.

        The connection keeps its file open, so no file that takes the name later has its number.
        """
        found = database.stat()
        file = (found.st_dev, found.st_ino)
        if self._watch is None or self._watch[1] != file:
            self._unwatch()
            uri = database.as_uri() + "?mode=ro"
            self._watch = (
                sqlite3.connect(uri, uri=True, check_same_thread=False, timeout=_LOCK_TIMEOUT_S),
                file,
            )
        return self._watch

    def _unwatch(self) -> None:
        if self._watch is not None:
            self._watch[0].close()
            self._watch = None

    @contextmanager
    def _any(self) -> Iterator[ClientAPI]:
        with _guarded():
            if self.path is None:
                yield self._given()
            else:
                with self._locked(self.path), self._fresh(self.path) as client:
                    yield client

    @staticmethod
    def _is_there(path: Path) -> bool:
        return (path / DATABASE_FILE).is_file()

    def _given(self) -> ClientAPI:
        if self._client is None:
            raise CorpusError("a corpus needs a folder or a Chroma client")
        return self._client

    @contextmanager
    def _locked(self, path: Path) -> Iterator[None]:
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = FileLock(path / LOCK_FILE, timeout=_LOCK_TIMEOUT_S, mode=0o600)
            lock.acquire()
        except Timeout:
            raise CorpusError(
                f"another process has held the database in {path} for {_LOCK_TIMEOUT_S:.0f} s; "
                "wait for it to finish"
            ) from None
        except OSError as error:
            raise _closed(path, error) from error
        try:
            self._keep_private(path)
            yield
            self._keep_private(path)  # an index has a new folder
        finally:
            lock.release()

    def _keep_private(self, path: Path) -> None:
        if self._client is not None:
            return
        try:
            make_private(path)
        except OSError as error:
            raise CorpusError(
                f"the database in {path} cannot be kept from other users; give a folder on a disk "
                f"with file permissions ({error})"
            ) from error

    @contextmanager
    def _fresh(self, path: Path) -> Iterator[ClientAPI]:
        from chromadb.errors import InternalError

        note = Note(path)
        note.take()
        try:
            with self._opened(path) as client:
                for index, name in self._torn(note).items():
                    if (path / index).is_dir():  # not where a mender was killed
                        shutil.rmtree(path / index)
                    self.menders[name](client.get_collection(name, embedding_function=None))
                    note.mended(index)
                yield client
        except InternalError:
            raise  # the note stays: it may have failed at writing an index
        except BaseException:
            note.drop()
            raise
        note.drop()

    def _torn(self, note: Note) -> dict[str, str]:
        """The torn indexes that can be mended here, each with the name of its collection."""
        named = ((index, note.collection(index, self.place)) for index in note.torn())
        return {index: name for index, name in named if name is not None and name in self.menders}

    @contextmanager
    def _opened(self, path: Path) -> Iterator[ClientAPI]:
        import chromadb
        from chromadb.config import Settings

        # Chroma shares one index between clients of one spelling of a path. This spelling is
        # nobody else's, so the client starts from the files.
        with chromadb.PersistentClient(
            str(path) + os.sep + os.curdir,
            settings=Settings(
                anonymized_telemetry=False, chroma_product_telemetry_impl=NO_TELEMETRY
            ),
            tenant=self._tenant,
            database=self._database,
        ) as client:
            yield client


def _gone(path: Path) -> CorpusError:
    return CorpusError(
        f"there is no database in {path}; ingest the documents again, or give the folder that it "
        "was moved to"
    )


def _closed(path: Path, error: OSError) -> CorpusError:
    return CorpusError(
        f"the database in {path} cannot be opened; give a folder that this user may write to "
        f"({error})"
    )


@contextmanager
def _guarded() -> Iterator[None]:
    """Keep Chroma's errors to their kind, and its spans out of traces.

    Messages of errors quote the values that Chroma refuses; spans count what is read.
    """
    try:
        with unobserved():
            _require_untraced()
            yield
    except (DPICLError, MemoryError):
        raise
    except Exception as error:
        raise CorpusError(
            f"the Chroma database refused or failed ({type(error).__name__}); check that it is "
            "there, and the filter on metadata if one was given"
        ) from None


def _require_untraced() -> None:
    from chromadb.telemetry import opentelemetry

    tracer = opentelemetry.tracer
    if tracer is not None and tracer.start_span("untraced").is_recording():
        raise CorpusError(
            "Chroma's tracer takes in every span and would be told how many records are read; set "
            "OTEL_TRACES_SAMPLER=parentbased_always_on, or leave CHROMA_OTEL_GRANULARITY out"
        )
