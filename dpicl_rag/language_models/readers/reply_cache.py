"""Replies of a reader, kept from one question to the next.

A reply to a unit follows from that unit, from public text and from the coins of its own call, so it
may stand again wherever the same prompt would be asked. What is kept is as private as the units. It
is looked up by content, so a changed document, question, template or model finds nothing, and no
name of a unit is stored.

Whether a reply stands again must follow from its own unit and from public numbers alone: where a
reader draws its replies, those that are asked anew differ, and a unit that made others be asked
anew would show in them. So replies are kept for a public time, counted from when their question was
asked, and never given up for want of room.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import threading
from pathlib import Path
from typing import NamedTuple

from dpicl_rag import _validate
from dpicl_rag.errors import DPICLError
from dpicl_rag.files.database import Database, FileKind

CHARACTERS = 4096
"""Of a reply; the rest is cut off. A note is a line."""

_PATIENCE = 5.0  # seconds that another process may hold the file
_KIND = FileKind(
    noun="file of replies",
    holds="what was read",
    error=DPICLError,
    application_id=0x44505250,
    migrations=(
        (
            # digest: of the rest, against accidents.
            """CREATE TABLE reply (
                key BLOB PRIMARY KEY,
                text TEXT NOT NULL,
                asked REAL NOT NULL,
                digest BLOB NOT NULL
            ) WITHOUT ROWID""",
        ),
    ),
    checked_when_opened=False,
    erases=True,
)
_PUT = """INSERT INTO reply (key, text, asked, digest) VALUES (?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE
    SET text = excluded.text, asked = excluded.asked, digest = excluded.digest
    WHERE reply.asked >= excluded.asked OR reply.asked <= ?"""


class _Entry(NamedTuple):
    text: str
    asked: float


class ReplyCache:
    """Replies by prompt, in memory and, with ``file``, on disk.

    Safe for threads and, on disk, for several processes; what a killed process has kept stays. A
    file that is damaged, deleted meanwhile, full or read-only is done without, in silence.

    Args:
        seconds: How long a reply stands, from the time that its question was asked. Public.
        file: Where to keep replies on disk too, in readable form, for its owner alone. None keeps
            nothing on disk.

    Raises:
        ConfigurationError: ``seconds`` is no number above 0.
    """

    def __init__(self, seconds: float = 86_400.0, file: str | Path | None = None) -> None:
        self._seconds = _validate.positive("seconds", seconds)
        self._entries: dict[bytes, _Entry] = {}
        self._lock = threading.Lock()
        self._database = None if file is None else _opened(Path(file))

    def __repr__(self) -> str:
        return "ReplyCache()"

    def get(self, fingerprint: str, prompt: str, now: float) -> str | None:
        """The reply to a prompt that stands, or None.

        Args:
            fingerprint: Of the reader.
            prompt: Whole. Private.
            now: When the question is asked: Unix time in seconds. Public.
        """
        key = _key(fingerprint, prompt)
        with self._lock:
            found = self._entries.get(key)
        if found is None and (found := self._load(key)) is not None:
            with self._lock:
                self._entries[key] = found
        return found.text if found is not None and now - found.asked < self._seconds else None

    def put(self, fingerprint: str, prompt: str, reply: str, asked: float) -> None:
        """Keep the reply to a prompt, durably where there is a file.

        Of two that stand, as when two ask at once, that of the earlier question stays.

        Args:
            fingerprint: Of the reader.
            prompt: Whole. Private.
            reply: Private. One that is empty or long is not kept.
            asked: When its question was asked: Unix time in seconds. Public.
        """
        if not 0 < len(reply) <= CHARACTERS:
            return
        key, entry = _key(fingerprint, prompt), _Entry(reply, asked)
        with self._lock:
            other = self._entries.get(key)
            if other is None or not asked - self._seconds < other.asked < asked:
                self._entries[key] = entry
        self._save(key, entry)

    def forget_expired(self, now: float) -> None:
        """Delete what stands no longer, on disk too.

        Args:
            now: Unix time in seconds. Public.
        """
        oldest = now - self._seconds
        with self._lock:
            self._entries = {k: one for k, one in self._entries.items() if one.asked > oldest}
        if self._database is not None:
            with contextlib.suppress(DPICLError):
                self._database.write(
                    lambda c: c.execute("DELETE FROM reply WHERE asked <= ?", (oldest,))
                )

    def close(self) -> None:
        """Close the file; replies in memory stay."""
        if self._database is not None:
            self._database.close()

    def _load(self, key: bytes) -> _Entry | None:
        def load(connection: sqlite3.Connection) -> tuple[str, float, bytes] | None:
            query = "SELECT text, asked, digest FROM reply WHERE key = ?"
            found: tuple[str, float, bytes] | None = connection.execute(query, (key,)).fetchone()
            return found

        if self._database is None:
            return None
        with contextlib.suppress(DPICLError):
            if (row := self._database.read(load)) is not None:
                entry = _Entry(*row[:2])
                return entry if row[2] == _digest(key, entry) else None
        return None

    def _save(self, key: bytes, entry: _Entry) -> None:
        row = (key, *entry, _digest(key, entry), entry.asked - self._seconds)
        if self._database is not None:
            with contextlib.suppress(DPICLError):
                self._database.write(lambda c: c.execute(_PUT, row))


def _opened(file: Path) -> Database | None:
    """The file with its tables; None where it cannot be used."""
    with contextlib.suppress(DPICLError, OSError):
        file = file.expanduser().resolve()
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        database = Database(file, _KIND, busy_timeout=_PATIENCE)
        database.make_ready()
        return database
    return None


def _key(fingerprint: str, prompt: str) -> bytes:
    # Each by a digest of its own, so that no end of one can be the beginning of the other.
    parts = (text.encode("utf-8", "surrogatepass") for text in (fingerprint, prompt))
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()


def _digest(key: bytes, entry: _Entry) -> bytes:
    return hashlib.sha256(key + repr(tuple(entry)).encode()).digest()
