"""Replies of a reader, kept from one question to the next.

A reply to a unit follows from that unit, from public text and from the coins of its own call, so it
may stand again wherever the same prompt would be asked. What is kept is as private as the units. It
is looked up by content, so a changed document, question, template or model finds nothing.

Where a reader draws its replies, those that are asked anew differ, and a unit that made others be
asked anew would show in them. So there is one reply for a prompt in each public epoch, a span of
the clock, whoever asks it first, also an empty one: as if every prompt's reply were drawn when the
epoch began. None is given up for want of room, and forgetting a unit takes those that nobody else
was read for. For that, units are known by a keyed hash, and by no name.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dpicl_rag import _validate
from dpicl_rag.errors import DPICLError
from dpicl_rag.files.database import Database
from dpicl_rag.files.tables import FileKind

CHARACTERS = 4096
"""Of a reply; the rest is cut off. A note is a line."""

_PATIENCE = 5.0  # seconds that another process may hold the file
_KIND = FileKind(
    noun="file of replies",
    holds="what was read",
    error=DPICLError,
    application_id=0x44505250,
    version=3,
    schema=(
        # epoch: when it began. digest: of the rest, against accidents.
        """CREATE TABLE reply (
            key BLOB PRIMARY KEY,
            text TEXT NOT NULL,
            epoch REAL NOT NULL,
            digest BLOB NOT NULL
        ) WITHOUT ROWID""",
        """CREATE TABLE read_for (
            key BLOB NOT NULL,
            unit BLOB NOT NULL,
            PRIMARY KEY (key, unit)
        ) WITHOUT ROWID""",
        "CREATE TABLE secret (value BLOB NOT NULL)",
        "INSERT INTO secret VALUES (randomblob(32))",
    ),
    remedy="delete it: what it holds is read again",
    checked_when_opened=False,
    erases=True,
)
_PUT = "INSERT OR REPLACE INTO reply (key, text, epoch, digest) VALUES (?, ?, ?, ?)"
_GET = "SELECT text, epoch, digest FROM reply WHERE key = ?"
_NOTE = "INSERT OR IGNORE INTO read_for (key, unit) VALUES (?, ?)"


class _Entry(NamedTuple):
    text: str
    epoch: float


class ReplyCache:
    """Replies by prompt, in memory and, with ``file``, on disk.

    Safe for threads and, on disk, for several processes; what a killed process has kept stays. A
    file that is damaged, deleted meanwhile, full or read-only is done without, in silence.

    Args:
        seconds: How long an epoch is. A reply stands until the epoch ends in which it was asked;
            epochs are counted from the beginning of Unix time. Public.
        file: Where to keep replies on disk too, in readable form, for its owner alone. None keeps
            nothing on disk.

    Raises:
        ConfigurationError: ``seconds`` is no number above 0.
        DPICLError: The file was made by another version.
    """

    def __init__(self, seconds: float = 86_400.0, file: str | Path | None = None) -> None:
        self._seconds = _validate.positive("seconds", seconds)
        self._entries: dict[bytes, _Entry] = {}
        self._read_for: dict[bytes, set[bytes]] = {}
        self._lock = threading.Lock()
        self._database = None if file is None else _opened(Path(file))
        self._secret = self._stored_secret() or secrets.token_bytes(32)

    def __repr__(self) -> str:
        return "ReplyCache()"

    def get(
        self, fingerprint: str, prompt: str, now: float, units: Iterable[str] = ()
    ) -> str | None:
        """The reply to a prompt that stands, or None.

        Args:
            fingerprint: Of the reader.
            prompt: Whole. Private.
            now: When the question is asked: Unix time in seconds. Public.
            units: Whom it is asked for; private. It stays until all of them are forgotten.
        """
        key = _key(fingerprint, prompt)
        with self._lock:
            found = self._entries.get(key)
        if found is None and (found := self._load(key)) is not None:
            with self._lock:
                found = self._entries.setdefault(key, found)
        if found is None or found.epoch != self._epoch(now):
            return None
        if notes := self._new_notes(key, units):
            self._write((_NOTE, notes))
        return found.text

    def put(
        self, fingerprint: str, prompt: str, reply: str, asked: float, units: Iterable[str] = ()
    ) -> str:
        """Keep the reply to a prompt, durably where there is a file.

        Args:
            fingerprint: Of the reader.
            prompt: Whole. Private.
            reply: Private.
            asked: When its question was asked: Unix time in seconds. Public.
            units: As in `get`.

        Returns:
            The reply that stands: where two ask at once, that of the first that was answered.
        """
        key, entry = _key(fingerprint, prompt), _Entry(reply[:CHARACTERS], self._epoch(asked))
        notes = self._new_notes(key, units)
        with self._lock:
            other = self._entries.get(key)
            if other is None or other.epoch < entry.epoch:
                self._entries[key] = entry = self._save(key, entry, notes)
            elif other.epoch == entry.epoch:
                entry = other
        return entry.text

    def forget_expired(self, now: float) -> None:
        """Delete what stands no longer, on disk too.

        Args:
            now: Unix time in seconds. Public.
        """
        epoch = self._epoch(now)
        with self._lock:
            self._entries = {k: one for k, one in self._entries.items() if one.epoch >= epoch}
            self._read_for = {k: own for k, own in self._read_for.items() if k in self._entries}
        self._write(
            ("DELETE FROM reply WHERE epoch < ?", [(epoch,)]),
            ("DELETE FROM read_for WHERE key NOT IN (SELECT key FROM reply)", [()]),
        )

    def keep_only(self, units: Iterable[str]) -> None:
        """Delete what was asked for none of some units, but for what was asked for nobody.

        Args:
            units: All whose replies stay; private.
        """
        kept = {self._hash(unit) for unit in units}
        known = self._read(lambda c: c.execute("SELECT key, unit FROM read_for").fetchall()) or []
        with self._lock:
            known += [(key, unit) for key, own in self._read_for.items() for unit in own]
            left = [(key, unit) for key, unit in known if unit not in kept]
            gone = {key for key, _ in left} - {key for key, unit in known if unit in kept}
            self._entries = {k: one for k, one in self._entries.items() if k not in gone}
            self._read_for = {k: own & kept for k, own in self._read_for.items() if k not in gone}
        self._write(
            ("DELETE FROM read_for WHERE key = ? AND unit = ?", left),
            ("DELETE FROM reply WHERE key = ?", [(key,) for key in gone]),
        )
        if self._database is not None:
            with contextlib.suppress(DPICLError):
                self._database.flush()  # a server that has it open keeps its log

    def close(self) -> None:
        """Close the file; replies in memory stay."""
        if self._database is not None:
            self._database.close()

    def _epoch(self, now: float) -> float:
        return math.floor(now / self._seconds) * self._seconds

    def _hash(self, unit: str) -> bytes:
        text = unit.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, key=self._secret, digest_size=32).digest()

    def _new_notes(self, key: bytes, units: Iterable[str]) -> list[tuple[bytes, bytes]]:
        """Rows of `read_for` that are new."""
        hashes = {self._hash(unit) for unit in units}
        with self._lock:
            known = self._read_for.setdefault(key, set())
            new = hashes - known
            known |= new
        return [(key, unit) for unit in new]

    def _load(self, key: bytes) -> _Entry | None:
        row = self._read(lambda c: c.execute(_GET, (key,)).fetchone())
        return _sound(key, row)

    def _save(self, key: bytes, entry: _Entry, notes: Sequence[tuple[bytes, bytes]]) -> _Entry:
        """Keep it on disk; what stands there afterwards, of another process perhaps."""

        def work(connection: sqlite3.Connection) -> _Entry:
            connection.executemany(_NOTE, notes)
            found = _sound(key, connection.execute(_GET, (key,)).fetchone())
            if found is None or found.epoch < entry.epoch:
                connection.execute(_PUT, (key, *entry, _digest(key, entry)))
            return found if found is not None and found.epoch == entry.epoch else entry

        if self._database is not None:
            with contextlib.suppress(DPICLError):
                return self._database.write(work)
        return entry

    def _stored_secret(self) -> bytes | None:
        found = self._read(lambda c: c.execute("SELECT value FROM secret").fetchone())
        return None if found is None else bytes(found[0])

    def _read(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        if self._database is not None:
            with contextlib.suppress(DPICLError):
                return self._database.read(work)
        return None

    def _write(self, *statements: tuple[str, Sequence[tuple[Any, ...]]]) -> None:
        def work(connection: sqlite3.Connection) -> None:
            for statement, rows in statements:
                connection.executemany(statement, rows)

        if self._database is not None:
            with contextlib.suppress(DPICLError):
                self._database.write(work)


def _sound(key: bytes, row: Any) -> _Entry | None:
    """The entry of a row; None of one that is damaged."""
    if row is None:
        return None
    entry = _Entry(*row[:2])
    return entry if row[2] == _digest(key, entry) else None


def _opened(file: Path) -> Database | None:
    """The file with its tables; None where it cannot be used.

    Raises:
        DPICLError: It is of another version, and would keep what was read of units that go.
    """
    try:
        file = file.expanduser().resolve()
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return None
    database = Database(file, _KIND, busy_timeout=_PATIENCE)
    try:
        database.make_ready()
    except DPICLError:
        if database.is_of_another_version:
            raise
        return None
    return database


def _key(fingerprint: str, prompt: str) -> bytes:
    # Each by a digest of its own, so that no end of one can be the beginning of the other.
    parts = (text.encode("utf-8", "surrogatepass") for text in (fingerprint, prompt))
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()


def _digest(key: bytes, entry: _Entry) -> bytes:
    return hashlib.sha256(key + repr(tuple(entry)).encode()).digest()
