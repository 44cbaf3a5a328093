"""API keys: who may ask, and what of. The file holds hashes, never a key."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from dpicl_rag._database import Database, FileKind
from dpicl_rag.errors import ConfigurationError, KeyFileError
from dpicl_rag.ledger.scope import require_name

Role = Literal["caller", "owner"]

PREFIX = "dpk-"
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
_KIND = FileKind(
    noun="key file",
    holds="all keys",
    error=KeyFileError,
    application_id=0x44504B59,  # "DPKY"
    migrations=(_VERSION_1,),
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks.

    Attributes:
        name: The ledger's caller; None where no keys are in use.
        role: An owner may also fill corpora and set budgets.
        corpora: The corpora that may be asked; None for all.
        made: When the key was made, UTC.
    """

    name: str | None
    role: Role = "caller"
    corpora: tuple[str, ...] | None = None
    made: datetime | None = None

    def may_ask(self, corpus: str) -> bool:
        """Whether a corpus is open to this caller."""
        return self.corpora is None or corpus in self.corpora


class KeyFile:
    """Keys in SQLite, safe for threads and processes: a key taken back is refused at once.

    Args:
        path: The file, made with mode 0600 where there is none.
        busy_timeout: Seconds to wait for another process before a call fails.

    Raises:
        KeyFileError: The file is damaged, of another version or another program's, or locked.
    """

    def __init__(self, path: str | os.PathLike[str], *, busy_timeout: float = 10.0) -> None:
        self.path = Path(path).expanduser().resolve()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError:
            raise KeyFileError(
                "the folder of the key file cannot be made; check the path and its permissions"
            ) from None
        self._database = Database(self.path, _KIND, busy_timeout=busy_timeout)
        self._database.make_ready()

    def __repr__(self) -> str:
        return f"KeyFile({str(self.path)!r})"

    def add(self, name: str, *, role: Role = "caller", corpora: Sequence[str] | None = None) -> str:
        """Make a key. It is shown once: the file keeps its hash.

        Args:
            name: Who it is for: the ledger's caller.
            role: ``owner`` may also fill corpora and set budgets.
            corpora: The corpora that may be asked; all if None.

        Returns:
            The key.

        Raises:
            ConfigurationError: The name has a key already.
            KeyFileError: The file cannot be written.
        """
        name = require_name("caller", name)
        key = PREFIX + secrets.token_urlsafe(_BYTES)
        named = (
            None if corpora is None else json.dumps([require_name("corpus", c) for c in corpora])
        )
        row = (name, _digest(key), role, named, int(time.time()))
        added = self._database.write(
            lambda c: (
                c.execute(
                    "INSERT INTO key VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING", row
                ).rowcount
            )
        )
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
        gone = self._database.write(
            lambda c: c.execute("DELETE FROM key WHERE name = ?", (name,)).rowcount
        )
        if not gone:
            raise ConfigurationError(
                f"nobody named {name!r} has a key; `dpicl-rag keys list` shows who has"
            )

    def callers(self) -> list[Caller]:
        """Who has a key, by name."""
        query = "SELECT name, role, corpora, made FROM key ORDER BY name"
        return self._database.read(lambda c: [_caller(row) for row in c.execute(query)])

    def find(self, key: str) -> Caller | None:
        """Whose key this is.

        Found by its hash: how long that takes tells nothing of the keys that are there.
        """
        query = "SELECT name, role, corpora, made FROM key WHERE digest = ?"

        def read(connection: sqlite3.Connection) -> Caller | None:
            row = connection.execute(query, (_digest(key),)).fetchone()
            return None if row is None else _caller(row)

        return self._database.read(read)

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


def _caller(row: tuple[str, Role, str | None, int]) -> Caller:
    name, role, corpora, made = row
    allowed = None if corpora is None else tuple(json.loads(corpora))
    return Caller(name, role, allowed, datetime.fromtimestamp(made, UTC))
