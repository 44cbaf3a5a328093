"""API keys and their rights: a file of hashes, and the key of one run of a server."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from dpicl_rag.errors import ConfigurationError, KeyFileError
from dpicl_rag.files.database import NamedFile
from dpicl_rag.files.tables import FileKind
from dpicl_rag.ledger.scope import require_name

Role = Literal["caller", "owner"]

PREFIX = "dpk-"
BYTES = 32
"""Bytes of a key: nobody guesses it, so a plain hash is as good as a slow one."""

_COLUMNS = "name, id, role, corpora, made, each, a_minute"

_SCHEMA = (
    # id: a key made again under a name is another one, and answers to the first are not its own.
    """CREATE TABLE key (
        name TEXT PRIMARY KEY CHECK (typeof(name) = 'text'),
        digest BLOB NOT NULL UNIQUE CHECK (typeof(digest) = 'blob'),
        role TEXT NOT NULL CHECK (role IN ('caller', 'owner')),
        corpora TEXT,
        made INTEGER NOT NULL CHECK (typeof(made) = 'integer'),
        each INTEGER CHECK (each > 0),
        a_minute INTEGER CHECK (a_minute > 0),
        id TEXT
    )""",
    "CREATE UNIQUE INDEX key_id ON key (id)",
    # Corpora that one key alone may ask; the key may be gone.
    """CREATE TABLE closed (
        corpus TEXT PRIMARY KEY CHECK (typeof(corpus) = 'text'),
        key TEXT NOT NULL CHECK (typeof(key) = 'text')
    )""",
)
_KIND = FileKind(
    noun="key file",
    holds="all keys",
    error=KeyFileError,
    application_id=0x44504B59,  # "DPKY"
    version=4,
    schema=_SCHEMA,
    remedy="go on with that version, or delete the file and make all keys anew with `dpicl-rag "
    "keys add NAME`: corpora that one key alone might ask are then open to all",
)


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller, by the API key.

    Attributes:
        name: The ledger's caller; None where no keys are in use.
        id: The key itself: a key made again under the same name has another one.
        role: An owner may also fill corpora and set budgets.
        corpora: The corpora that may be asked; None for all.
        made: When the key was made, UTC.
        each: Questions at a time, under way or waiting; the server's own limit if None.
        a_minute: Questions a minute; the server's own limit if None.
        closed: Corpora that another key alone may ask.
    """

    name: str | None
    role: Role = "caller"
    id: str | None = None
    corpora: tuple[str, ...] | None = None
    made: datetime | None = None
    each: int | None = None
    a_minute: int | None = None
    closed: frozenset[str] = frozenset()

    def may_ask(self, corpus: str) -> bool:
        """True where a corpus is open to this caller."""
        named = self.corpora is None or corpus in self.corpora
        return named and corpus not in self.closed


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
        self._file = NamedFile(self.path, _KIND, _found, busy_timeout=busy_timeout)

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
        key = PREFIX + secrets.token_urlsafe(BYTES)
        named = (
            None if corpora is None else json.dumps([require_name("corpus", c) for c in corpora])
        )
        identity = secrets.token_hex(16)
        row = (name, _digest(key), role, named, int(time.time()), each, a_minute, identity)
        insert = "INSERT INTO key VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING"
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
            raise _nobody(name)

    def callers(self) -> list[Caller]:
        """Callers that have a key, by name."""
        return self._read("ORDER BY name")

    def find(self, key: str) -> Caller | None:
        """The caller of a key.

        Found by its hash: how long that takes tells nothing of the keys that are there.
        """
        return next(iter(self._read("WHERE digest = ?", _digest(key))), None)

    def close_corpus(self, corpus: str, owner: Caller) -> None:
        """Close a corpus to all keys but the owner's.

        Raises:
            ConfigurationError: It is closed to the owner.
            KeyFileError: The file cannot be written.
        """
        closed = self._write(
            "INSERT INTO closed VALUES (?, ?) ON CONFLICT (corpus) DO UPDATE SET key = key"
            " WHERE key = excluded.key",
            (corpus, owner.id),
        )
        if not closed:
            raise ConfigurationError(f"the corpus {corpus!r} is another key's")

    def open_corpus(self, corpus: str) -> None:
        """Open a corpus to every key that names it, and to those that name none.

        Raises:
            KeyFileError: The file cannot be written.
        """
        self._write("DELETE FROM closed WHERE corpus = ?", (corpus,))

    def give_corpus(self, corpus: str, name: str) -> None:
        """Close a corpus to all keys but that of one name: a key that was made again, say.

        Raises:
            ConfigurationError: Nobody of that name has a key.
            KeyFileError: The file cannot be written.
        """
        given = self._write(
            "INSERT OR REPLACE INTO closed SELECT ?, id FROM key WHERE name = ?",
            (require_name("corpus", corpus), name),
        )
        if not given:
            raise _nobody(name)

    def closed(self) -> dict[str, str | None]:
        """Corpora that one key alone may ask, and its name; None where that key is gone."""
        query = "SELECT corpus, name FROM closed LEFT JOIN key ON id = closed.key ORDER BY corpus"
        return self._file.now().read(lambda c: dict(c.execute(query).fetchall()))

    def check(self) -> None:
        """Check that keys can be looked up.

        Raises:
            KeyFileError: They cannot.
        """
        self.find("")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read(self, which: str, *values: Any) -> list[Caller]:
        query = f"SELECT {_COLUMNS} FROM key {which}"  # noqa: S608 - constants

        def read(connection: sqlite3.Connection) -> list[Caller]:
            rows = connection.execute(query, values)
            return [_caller(row, _closed_to(connection, row[1])) for row in rows]

        return self._file.now().read(read)

    def _write(self, statement: str, values: tuple[Any, ...]) -> int:
        """Number of rows that it has changed."""
        database = self._file.now()
        changed = database.write(lambda c: c.execute(statement, values).rowcount)
        database.flush()
        return changed


def _found(path: Path) -> os.stat_result:
    """The file of keys. Where it is gone none is made: that one would refuse all without a word."""
    try:
        found = path.stat()
    except OSError:
        raise KeyFileError(
            f"the key file {path} cannot be reached; put it back, or make a key with "
            "`dpicl-rag keys add NAME`"
        ) from None
    if os.name == "posix" and found.st_mode & stat.S_IWOTH:
        raise KeyFileError(
            f"anybody may write the key file {path}; take that right away with chmod 600, and see "
            "who has a key with `dpicl-rag keys list`"
        )
    return found


def _nobody(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"nobody named {name!r} has a key; `dpicl-rag keys list` shows who has"
    )


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


def _closed_to(connection: sqlite3.Connection, key: str) -> frozenset[str]:
    rows = connection.execute("SELECT corpus FROM closed WHERE key IS NOT ?", (key,))
    return frozenset(corpus for (corpus,) in rows)


def _caller(row: tuple[Any, ...], closed: frozenset[str]) -> Caller:
    name, identity, role, corpora, made, each, a_minute = row
    return Caller(
        name=name,
        role=role,
        id=identity,
        corpora=None if corpora is None else tuple(json.loads(corpora)),
        made=datetime.fromtimestamp(made, UTC),
        each=each,
        a_minute=a_minute,
        closed=closed,
    )


class RunKey:
    """The owner's key, until the server ends.

    Where a connection comes from says nothing of who asks: a proxy, a tunnel and a page under a
    name that leads here all ask from this machine. So there is a key here too.
    """

    def __init__(self) -> None:
        self.text = PREFIX + secrets.token_urlsafe(BYTES)

    def __repr__(self) -> str:
        return "RunKey()"

    def find(self, key: str) -> Caller | None:
        """The owner, for this key; None for any other."""
        known = secrets.compare_digest(key.encode("utf-8", "replace"), self.text.encode())
        return Caller(None, "owner") if known else None

    def address(self, url: str) -> str:
        """Address of the page with this key; what stands behind ``#`` is not sent anywhere."""
        return f"{url}#{self.text}"
