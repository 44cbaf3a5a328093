"""API keys: who may ask, and what of. The file holds hashes, never a key."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import stat
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from dpicl_rag._database import Database, FileKind
from dpicl_rag.errors import ConfigurationError, KeyFileError
from dpicl_rag.ledger.scope import require_name

Role = Literal["caller", "owner"]

PREFIX = "dpk-"
_COLUMNS = "name, role, corpora, made, each, a_minute"
_BYTES = 32  # of a key: nobody guesses it, so a plain hash is as good as a slow one

_VERSION_1 = (
    """CREATE TABLE key (
        name TEXT PRIMARY KEY CHECK (typeof(name) = 'text'),
        digest BLOB NOT NULL UNIQUE CHECK (typeof(digest) = 'blob'),
        role TEXT NOT NULL CHECK (role IN ('caller', 'owner')),
        corpora TEXT,
        made INTEGER NOT NULL CHECK (typeof(made) = 'integer')
    )""",
)
_VERSION_2 = (
    "ALTER TABLE key ADD COLUMN each INTEGER CHECK (each > 0)",
    "ALTER TABLE key ADD COLUMN a_minute INTEGER CHECK (a_minute > 0)",
)
_KIND = FileKind(
    noun="key file",
    holds="all keys",
    error=KeyFileError,
    application_id=0x44504B59,  # "DPKY"
    migrations=(_VERSION_1, _VERSION_2),
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks.

    Attributes:
        name: The ledger's caller; None where no keys are in use.
        role: An owner may also fill corpora and set budgets.
        corpora: The corpora that may be asked; None for all.
        made: When the key was made, UTC.
        each: Questions at a time, under way or waiting; the server's own limit if None.
        a_minute: Questions a minute; the server's own limit if None.
    """

    name: str | None
    role: Role = "caller"
    corpora: tuple[str, ...] | None = None
    made: datetime | None = None
    each: int | None = None
    a_minute: int | None = None

    def may_ask(self, corpus: str) -> bool:
        """Whether a corpus is open to this caller."""
        return self.corpora is None or corpus in self.corpora


class KeyFile:
    """Keys in SQLite, safe for threads and processes: a key taken back is refused at once.

    So it is if another file is put in the place of this one, or none.

    Args:
        path: The file, made with mode 0600 where there is none.
        busy_timeout: Seconds to wait for another process before a call fails.

    Raises:
        KeyFileError: The file is damaged, of another version or another program's, or locked, or
            anybody may write it.
    """

    def __init__(self, path: str | os.PathLike[str], *, busy_timeout: float = 10.0) -> None:
        self.path = Path(path).expanduser().resolve()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with suppress(FileExistsError):
                self.path.touch(0o600, exist_ok=False)
        except OSError:
            raise KeyFileError(
                "the key file cannot be made; check the path and its permissions"
            ) from None
        self._busy_timeout = busy_timeout
        self._lock = threading.Lock()
        self._opened: Database | None = None
        self._file: tuple[int, int] | None = None
        self._closed = False
        self._open()

    def __repr__(self) -> str:
        return f"KeyFile({str(self.path)!r})"

    def add(
        self,
        name: str,
        *,
        role: Role = "caller",
        corpora: Sequence[str] | None = None,
        each: int | None = None,
        a_minute: int | None = None,
    ) -> str:
        """Make a key. It is shown once: the file keeps its hash.

        Args:
            name: Who it is for: the ledger's caller.
            role: ``owner`` may also fill corpora and set budgets.
            corpora: The corpora that may be asked; all if None.
            each: Questions at a time; the server's own limit if None.
            a_minute: Questions a minute; the server's own limit if None.

        Returns:
            The key.

        Raises:
            ConfigurationError: The name has a key already, or a limit is below 1.
            KeyFileError: The file cannot be written.
        """
        name = require_name("caller", name)
        if any(limit is not None and limit < 1 for limit in (each, a_minute)):
            raise ConfigurationError("limits of a key are 1 or more")
        key = PREFIX + secrets.token_urlsafe(_BYTES)
        named = (
            None if corpora is None else json.dumps([require_name("corpus", c) for c in corpora])
        )
        row = (name, _digest(key), role, named, int(time.time()), each, a_minute)
        insert = "INSERT INTO key VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING"
        added = self._write(insert, row)
        if not added:
            raise ConfigurationError(
                f"{name!r} has a key already; take it back with `dpicl-rag keys remove {name}` "
                "first"
            )
        return key

    def remove(self, name: str) -> None:
        """Take a key back.

        Raises:
            ConfigurationError: Nobody of that name has one.
        """
        gone = self._write("DELETE FROM key WHERE name = ?", (name,))
        if not gone:
            raise ConfigurationError(
                f"nobody named {name!r} has a key; `dpicl-rag keys list` shows who has"
            )

    def callers(self) -> list[Caller]:
        """Who has a key, by name."""
        query = f"SELECT {_COLUMNS} FROM key ORDER BY name"  # noqa: S608 - names of columns
        return self._open().read(lambda c: [_caller(row) for row in c.execute(query)])

    def find(self, key: str) -> Caller | None:
        """Whose key this is.

        Found by its hash: how long that takes tells nothing of the keys that are there.
        """
        query = f"SELECT {_COLUMNS} FROM key WHERE digest = ?"  # noqa: S608 - names of columns

        def read(connection: sqlite3.Connection) -> Caller | None:
            row = connection.execute(query, (_digest(key),)).fetchone()
            return None if row is None else _caller(row)

        return self._open().read(read)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._closed = True
            if self._opened is not None:
                self._opened.close()

    def _write(self, statement: str, values: tuple[Any, ...]) -> int:
        """How many keys it has changed."""
        database = self._open()
        changed = database.write(lambda c: c.execute(statement, values).rowcount)
        database.flush()
        return changed

    def _open(self) -> Database:
        """The file that has the name now: its owner may have put another one there."""
        with self._lock:
            file = self._named()
            if self._opened is not None and (self._closed or file == self._file):
                return self._opened
            if self._opened is not None:
                self._opened.close()
            opened = Database(self.path, _KIND, busy_timeout=self._busy_timeout)
            opened.make_ready()
            self._opened, self._file = opened, file
            return opened

    def _named(self) -> tuple[int, int]:
        try:
            found = self.path.stat()
        except OSError:
            raise KeyFileError(
                f"the key file {self.path} cannot be reached; put it back, or make a key with "
                "`dpicl-rag keys add NAME`"
            ) from None
        if os.name == "posix" and found.st_mode & stat.S_IWOTH:
            raise KeyFileError(
                f"anybody may write the key file {self.path}; take that right away with chmod 600, "
                "and see who has a key with `dpicl-rag keys list`"
            )
        return found.st_dev, found.st_ino


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


def _caller(row: tuple[str, Role, str | None, int, int | None, int | None]) -> Caller:
    name, role, corpora, made, each, a_minute = row
    allowed = None if corpora is None else tuple(json.loads(corpora))
    return Caller(name, role, allowed, datetime.fromtimestamp(made, UTC), each, a_minute)
