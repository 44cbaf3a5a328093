"""SQLite files of ours: one connection, one transaction at a time, errors with a remedy."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dpicl_rag._unobserved import unobserved
from dpicl_rag.errors import DPICLError
from dpicl_rag.files.tables import FileKind

T = TypeVar("T")
_Identity = tuple[int, int]

_REMEDIES = {
    "SQLITE_BUSY": "another process holds it; try again, or end that process",
    "SQLITE_LOCKED": "another process holds it; try again, or end that process",
    "SQLITE_FULL": "the disk is full; free some space and ask again",
    "SQLITE_IOERR": "the disk cannot be read or written; check its space and health, and ask again",
    "SQLITE_READONLY": "it cannot be written; give this user write access to it and its folder",
    "SQLITE_PERM": "it cannot be opened; give this user access to it and its folder",
    "SQLITE_CANTOPEN": "it cannot be opened; check that its folder exists and can be written",
    "SQLITE_NOTADB": "it is not a {noun}; choose another path or restore it from a backup",
}
_DAMAGED = "it is damaged; restore it from a backup (a new one would forget {holds})"
_MOVED = (
    "was removed or replaced while it was in use, so what is written would be lost; put it back as "
    "it was, with the files beside it, or restart to use the one that is there now"
)


class Database:
    """A connection that threads share and that survives a fork.

    Each transaction makes sure that the path still leads to the file that is open. A file that was
    removed or replaced goes on to exist for whoever has it open, and nobody else would ever see
    what is written there.

    The connection is closed also where the database is left to the garbage collector.

    Args:
        path: The file, absolute, with symbolic links resolved.
        kind: What it is.
        busy_timeout: Seconds to wait for another process before giving up.

    Attributes:
        is_of_another_version: Whether the file was refused for its version.
    """

    def __init__(self, path: Path, kind: FileKind, *, busy_timeout: float) -> None:
        self.path = path
        self._kind = kind
        self._busy_timeout = busy_timeout
        # Reentrant, so that what runs inside a transaction (a finaliser, a signal's handler) can be
        # told that it does: it would wait for itself.
        self._lock = threading.RLock()
        self._open: list[sqlite3.Connection] = []  # one at most
        # No `__del__`: in a cycle, the collector could come to the connection first. Not when the
        # process ends: another thread may be at work on it.
        weakref.finalize(self, _close, self._open).atexit = False
        self.is_of_another_version = False
        self._file: _Identity | None = None
        self._beside: dict[Path, _Identity | None] = {}
        self._closed = False
        with _adding:
            _live.add(self)

    def make_ready(self, make: Callable[[sqlite3.Connection], None] | None = None) -> None:
        """Make the tables in an empty file, and look for damage in any other.

        Takes the write lock only where there is something to write, so that a look never waits
        for the writes of others.

        Args:
            make: What makes them; that of the kind by default.

        Raises:
            DPICLError: Of the kind: the file cannot be used.
        """
        if not self.read(self._kind.version_of):
            self.write(make or self._kind.make)
        self.read(self._require_version)  # another process may have been first
        if self._kind.checked_when_opened:
            self.read(self._kind.require_sound)

    def write(self, action: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``action`` in a transaction that holds the write lock; durable on return.

        Raises:
            DPICLError: Of the kind: the file cannot be used, or this thread is in a transaction of
                it; nothing was changed.
        """
        return self._guarded(lambda: self._transact(action, "BEGIN IMMEDIATE"))

    def read(self, action: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``action`` on one consistent state of the file."""
        return self._guarded(lambda: self._transact(action, "BEGIN"))

    def try_write(self, action: Callable[[sqlite3.Connection], None]) -> bool:
        """``write`` for finalisers: False, with nothing done, where it would wait or fail.

        It leaves no connection behind where there was none: its finaliser may have run.
        """
        if is_held_here(self._lock) or not self._lock.acquire(blocking=False):
            return False
        was_open = bool(self._open)
        try:
            connection = self._connected()
            (patience,) = connection.execute("PRAGMA busy_timeout").fetchone()
            connection.execute("PRAGMA busy_timeout = 0")  # others may be writing
            try:
                self._transact(action, "BEGIN IMMEDIATE")
            finally:
                connection.execute(f"PRAGMA busy_timeout = {patience}")
        except (self._kind.error, sqlite3.Error, UnicodeDecodeError, OSError):
            return False
        finally:
            if self._closed or not was_open:
                self._disconnect()
            self._lock.release()
        return True

    def flush(self) -> None:
        """Bring what was written from the log beside the file into the file itself.

        So a copy of the file alone is whole, and a file that is put in its place is not overlaid
        by what the log says of the former one. Where others are reading, it is left to them.
        """
        self._guarded(lambda: self._connected().execute("PRAGMA wal_checkpoint(TRUNCATE)"))

    def shrink(self) -> None:
        """Give the space of what was deleted back to the disk."""
        self._guarded(lambda: self._connected().execute("VACUUM"))

    def close(self) -> None:
        """Close the connection; later calls raise the error of the kind.

        Inside a transaction of this thread, it is closed at the end of that.
        """
        self._closed = True
        if not is_held_here(self._lock):
            with self._lock:
                self._disconnect()

    def _transact(self, action: Callable[[sqlite3.Connection], T], begin: str) -> T:
        connection = self._connected()
        try:
            connection.execute(begin)
            self._require_in_place()
            result = action(connection)
            connection.execute("COMMIT")
        except BaseException:
            if self._open and connection.in_transaction:
                connection.rollback()
            raise
        return result

    def _connected(self) -> sqlite3.Connection:
        if self._closed:
            raise self._failure("is closed; open it again")
        if not self._open:
            self._open.append(self._connect())
        (connection,) = self._open
        if connection.in_transaction:  # a second Ctrl-C cut the rollback short
            connection.rollback()
        return connection

    def _connect(self) -> sqlite3.Connection:
        if self._file is None:
            # The umask must not decide who may read what it holds.
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            self._file = _identity(self.path)
        else:  # after a fork
            self._beside = {}
            self._require_in_place()
        self._require_guarded()
        connection = sqlite3.connect(
            self.path,
            timeout=self._busy_timeout,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            self._prepare(connection)
            # SQLite keeps its log and its locks in these, as long as anybody is connected.
            for suffix in ("-wal", "-shm"):
                beside = self.path.with_name(self.path.name + suffix)
                self._beside[beside] = _identity(beside)
        except BaseException:
            connection.close()
            raise
        return connection

    def _require_in_place(self) -> None:
        for path, opened in {self.path: self._file, **self._beside}.items():
            if _identity(path) != opened:
                raise self._failure(_MOVED)

    def _require_guarded(self) -> None:
        if os.name == "posix" and self.path.stat().st_mode & stat.S_IWOTH:
            raise self._failure(
                "can be written by anybody; take that right away with chmod 600, and see what has "
                "been written"
            )

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if self._kind.is_foreign(connection):
            raise self._kind.error(f"{self.path} belongs to another program; choose another path")
        self._require_version(connection)
        if self._write_ahead(connection) != "wal":
            raise self._failure(
                "is on a file system without shared memory; move it to a local disk"
            )
        # A commit returns after the disk has it. fullfsync matters on macOS only.
        for setting in ("synchronous = FULL", "fullfsync = ON", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {setting}")
        if self._kind.erases:
            connection.execute("PRAGMA secure_delete = ON")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens the log

    def _require_version(self, connection: sqlite3.Connection) -> None:
        self.is_of_another_version = self._kind.is_of_another_version(connection)
        if self.is_of_another_version:
            raise self._failure(f"was made by another version of dpicl-rag; {self._kind.remedy}")

    def _write_ahead(self, connection: sqlite3.Connection) -> str:
        # Two processes that switch a new file at once collide without being made to wait.
        deadline = time.monotonic() + self._busy_timeout
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                if _code(error) != "SQLITE_BUSY" or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return str(mode)

    def _disconnect(self) -> None:
        _close(self._open)

    def _guarded(self, work: Callable[[], T]) -> T:
        if is_held_here(self._lock):
            raise self._failure(
                "is in a transaction of this very thread, which something interrupted (a signal's "
                "handler, a finaliser); ask again when that has ended"
            )
        try:
            # `with` on the lock itself: a Ctrl-C cannot fall between taking it and guarding it, as
            # it could in a context manager written in Python.
            with unobserved(), self._lock:  # a statement for each unit
                try:
                    return work()
                finally:
                    if self._closed:
                        self._disconnect()
        except sqlite3.ProgrammingError as error:
            raise self._failure("was closed by a fork in a transaction; ask again") from error
        except sqlite3.Error as error:
            raise self._failure(f"failed: {self._remedy(_code(error))}") from error
        except UnicodeDecodeError:  # SQLite quotes a damaged schema in its message
            raise self._failure(f"failed: {self._remedy()}") from None
        except OSError as error:
            raise self._failure(
                f"cannot be opened ({error.strerror}); check the path and its permissions"
            ) from error

    def _failure(self, what: str) -> DPICLError:
        return self._kind.error(f"the {self._kind.noun} {self.path} {what}")

    def _remedy(self, code: str = "") -> str:
        text = _REMEDIES.get(code, _DAMAGED)
        return text.format(noun=self._kind.noun, holds=self._kind.holds)


class NamedFile:
    """Opens the file of a name anew when another one stands there.

    An open file lives on when it is removed: what its owner has taken away would go on being read,
    and what is written would be nowhere.

    Args:
        path: The file, absolute, with symbolic links resolved.
        kind: What it is.
        find: Its state now; makes the file or raises where there is none.
        busy_timeout: Seconds to wait for another process.

    Raises:
        DPICLError: Of the kind: the file cannot be used.
    """

    def __init__(
        self,
        path: Path,
        kind: FileKind,
        find: Callable[[Path], os.stat_result],
        *,
        busy_timeout: float,
    ) -> None:
        self.path = path
        self._kind = kind
        self._find = find
        self._busy_timeout = busy_timeout
        self._lock = threading.RLock()  # a signal's handler may come in again
        self._opened: tuple[Database, tuple[int, int]] | None = None
        self._closed = False
        with _adding:
            _live.add(self)
        self.now()

    def now(self) -> Database:
        """The database that has the name now.

        Raises:
            DPICLError: Of the kind: the file cannot be used.
        """
        return self._current() or self._anew()

    def close(self) -> None:
        """Close it; later calls raise the error of the kind."""
        with self._lock:
            self._closed = True
            if self._opened is not None:
                self._opened[0].close()

    def _current(self) -> Database | None:
        """The open database, if it still has the name."""
        if self._opened is None:
            return None
        database, file = self._opened
        return database if self._closed or self._named() == file else None

    def _anew(self) -> Database:
        with self._lock:
            if (current := self._current()) is not None:
                return current
            if self._opened is not None:
                # Forgotten before its number can be another file's.
                former, self._opened = self._opened, None
                former[0].close()
            file = self._named()
            opened = Database(self.path, self._kind, busy_timeout=self._busy_timeout)
            try:
                opened.make_ready()
            except BaseException:
                opened.close()
                raise
            self._opened = opened, file
            return opened

    def _named(self) -> tuple[int, int]:
        found = self._find(self.path)
        return found.st_dev, found.st_ino


def is_held_here(lock: threading.RLock) -> bool:
    """True where this thread has a lock already: what it interrupts has to go on first."""
    return bool(lock._is_owned())  # type: ignore[attr-defined]


def _close(connections: list[sqlite3.Connection]) -> None:
    while connections:
        with contextlib.suppress(sqlite3.Error):
            connections.pop().close()


def _identity(path: Path) -> _Identity | None:
    """Identity of a file among others of the same name; None if it cannot be reached."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _code(error: sqlite3.Error) -> str:
    """Primary result code, for example SQLITE_IOERR for SQLITE_IOERR_WRITE."""
    name = getattr(error, "sqlite_errorname", None) or ""
    return "_".join(name.split("_")[:2])


# SQLite keeps its locks in process memory, and a forked child would believe that it holds them.
# So connections are closed before a fork and opened again by whoever needs one.
_live: weakref.WeakSet[Database | NamedFile] = weakref.WeakSet()
_adding = threading.RLock()  # nothing else is waited for by whoever has it
_forking: list[Database | NamedFile] = []


def _before_fork() -> None:
    """Take all locks, and have none while one is waited for: whoever has it may want another."""
    busy: Database | NamedFile | None = None
    while True:
        held = [] if busy is None or not busy._lock.acquire() else [busy]
        _adding.acquire()
        for one in _live:
            if not one._lock.acquire(blocking=False):
                busy = one
                break
            held.append(one)
        else:
            break
        _adding.release()
        _release(held)
    _forking.extend(held)
    for one in held:
        if isinstance(one, Database):
            one._disconnect()


def _after_fork() -> None:
    _release(_forking)
    _adding.release()


def _release(held: list[Database | NamedFile]) -> None:
    while held:
        held.pop()._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
