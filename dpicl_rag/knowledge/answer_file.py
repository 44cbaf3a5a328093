"""The file of released answers, of all corpora and callers: for who runs the system.

Answers are public; who asked what may not be, so the file is made for its owner alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpicl_rag.errors import KnowledgeError
from dpicl_rag.files.database import NamedFile
from dpicl_rag.files.tables import FileKind

_COLUMNS = (
    "id, corpus, caller, question, answer, epsilon, delta, released, numbers, whole, edited, drawn"
)
_COMPARED = 10_000  # newest entries that a question is compared with

EntryRow = tuple[int, str, str, str, str, float, float, int, str, int, int, int]


@dataclass(frozen=True, slots=True)
class Entry:
    """A question and the answer that was released to it. Public to who may read the memory.

    Attributes:
        id: Number in its file; never used again.
        corpus: The corpus that was asked.
        caller: Who asked; None where nobody was named.
        question: As it was asked.
        answer: The released text, or what the operator put in its place.
        epsilon: What the answer cost, (epsilon, delta)-DP; 0 where it was written by hand.
        delta: See ``epsilon``.
        time: When it was released, UTC.
        whole: Whether the answer ended by itself. One that was cut off informs others, and the same
            question is asked anew.
        edited: Whether the operator corrected it. No drawn answer takes its place then.
        drawn: Whether it was drawn token by token where experts could have said the same and did
            not. It informs others only where nothing else does.
        numbers: Those of a count, as JSON; ``""`` of an answer. A count informs no answer.
    """

    id: int
    corpus: str
    caller: str | None
    question: str
    answer: str
    epsilon: float
    delta: float
    time: datetime
    whole: bool
    edited: bool
    drawn: bool = False
    numbers: str = ""

    def damaged(self) -> KnowledgeError:
        """The error of numbers that cannot be read."""
        return KnowledgeError(
            f"entry {self.id} of the memory is damaged; `dpicl-rag memory forget {self.id}` "
            "forgets it"
        )

    @property
    def text(self) -> str:
        """Its text for the public row."""
        return f"Question: {self.question}\nAnswer: {self.answer}"


@dataclass(frozen=True, slots=True)
class MemoryScope:
    """Entries of one corpus, one caller, one key and one filter; None stands for all of a kind.

    Attributes:
        corpus: Name of the corpus.
        caller: Who asked; ``""`` is nobody.
        part: The filter on metadata that the answers were found under, see `part_of`.
        key: The key of a server that asked; ``""`` is none.
    """

    corpus: str | None = None
    caller: str | None = None
    part: str | None = None
    key: str | None = None

    def condition(self) -> tuple[str, list[str]]:
        """A condition of SQL with its parameters."""
        named = {"corpus": self.corpus, "caller": self.caller, "part": self.part, "key": self.key}
        given = {name: value for name, value in named.items() if value is not None}
        words = " AND ".join(f"{name} = ?" for name in given)  # four constants
        return words or "TRUE", list(given.values())


ALL = MemoryScope()


def part_of(where: Mapping[str, Any] | None) -> str:
    """A filter on metadata in one spelling; ``""`` for none."""
    return "" if not where else json.dumps(where, sort_keys=True, ensure_ascii=True, default=str)


_SCHEMA = (
    # key: the server's key that asked, '' for none. A key made again under a name is another one.
    # words: the question as it is compared. form: what else shaped the answer; '' fits every one.
    # drawn: token by token, where experts did not say the same.
    # numbers: those of a count, as JSON; '' of an answer.
    # asked: how often, by questions that were answered from it and those that it was drawn for.
    # AUTOINCREMENT: a number that was shown is never another entry's.
    """CREATE TABLE entry (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        corpus TEXT NOT NULL CHECK (typeof(corpus) = 'text'),
        caller TEXT NOT NULL CHECK (typeof(caller) = 'text'),
        part TEXT NOT NULL CHECK (typeof(part) = 'text'),
        key TEXT NOT NULL CHECK (typeof(key) = 'text'),
        form TEXT NOT NULL CHECK (typeof(form) = 'text'),
        words TEXT NOT NULL CHECK (typeof(words) = 'text'),
        question TEXT NOT NULL CHECK (typeof(question) = 'text'),
        answer TEXT NOT NULL CHECK (typeof(answer) = 'text'),
        epsilon REAL NOT NULL CHECK (typeof(epsilon) = 'real' AND epsilon >= 0),
        delta REAL NOT NULL CHECK (typeof(delta) = 'real' AND delta BETWEEN 0 AND 1),
        released INTEGER NOT NULL
            CHECK (typeof(released) = 'integer' AND released BETWEEN 0 AND 200000000000),
        whole INTEGER NOT NULL CHECK (whole IN (0, 1)),
        edited INTEGER NOT NULL DEFAULT 0 CHECK (edited IN (0, 1)),
        embedder TEXT,
        vector BLOB CHECK (vector IS NULL OR typeof(vector) = 'blob'),
        drawn INTEGER NOT NULL DEFAULT 0 CHECK (drawn IN (0, 1)),
        numbers TEXT NOT NULL DEFAULT '' CHECK (typeof(numbers) = 'text'),
        asked INTEGER NOT NULL DEFAULT 1 CHECK (typeof(asked) = 'integer' AND asked >= 1),
        UNIQUE (corpus, caller, part, key, form, words)
    )""",
)


MEMORY = FileKind(
    noun="memory",
    holds="the answers in it",
    error=KnowledgeError,
    application_id=0x4450414D,  # "DPAM"
    version=6,
    schema=_SCHEMA,
    remedy="go on with that version, or delete the file: its answers are then forgotten, and cost "
    "again what they cost",
)


class AnswerFile:
    """Released answers in SQLite, safe for threads and processes.

    Whoever removes the file has its answers forgotten: the next one is kept in a new file.

    Args:
        path: The file, made with mode 0600 where there is none; so is its folder, with 0700.
        busy_timeout: Seconds to wait for another process before a call fails.
        clock: Unix time in seconds; for tests.

    Raises:
        KnowledgeError: The file is damaged, of another version or another program's, locked, or
            cannot be reached.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        busy_timeout: float = 10.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        try:
            self.path = Path(path).expanduser().resolve()
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except (OSError, ValueError, RuntimeError):
            raise KnowledgeError(
                "the folder of the memory cannot be made; check the path and its permissions"
            ) from None
        self._clock = clock
        self._file = NamedFile(self.path, MEMORY, _found, busy_timeout=busy_timeout)

    def __repr__(self) -> str:
        return f"AnswerFile({str(self.path)!r})"

    def check(self) -> None:
        """Check that answers can be read and kept.

        Raises:
            KnowledgeError: They cannot.
        """
        # The version that it has: a page is written, and no table changes.
        statement = f"PRAGMA user_version = {MEMORY.version}"
        self._file.now().write(lambda c: c.execute(statement))

    def entries(self, scope: MemoryScope = ALL) -> list[Entry]:
        """Entries of a scope, the oldest first."""
        return self._entries(scope, "TRUE ORDER BY id")

    def newest(self, scope: MemoryScope, most: int) -> list[Entry]:
        """The newest entries of a scope, the newest first."""
        return self._entries(scope, "TRUE ORDER BY released DESC, id DESC LIMIT ?", most)

    def most_asked(self, scope: MemoryScope, most: int) -> list[Entry]:
        """Whole answers of a scope, those first whose questions were asked most often.

        Of the same question to several callers, or in several forms, the newest answer stands, and
        how often it was asked is their sum.
        """
        order = "ORDER BY SUM(asked) DESC, MAX(released) DESC, id DESC LIMIT ?"
        return self._entries(scope, f"whole AND numbers = '' GROUP BY words {order}", most)

    def count_asked(self, number: int) -> None:
        """Note that a question was answered from an entry; where that fails, it is not noted."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("UPDATE entry SET asked = asked + 1 WHERE id = ?", (number,))

        self._file.now().try_write(write)  # no question fails or waits for this

    def find(self, scope: MemoryScope, words: str, form: str) -> Entry | None:
        """The whole answer to the same question: the operator's own, or else the newest."""
        condition = (
            "words = ? AND numbers = '' AND whole AND form IN (?, '')"
            " ORDER BY edited DESC, released DESC, id DESC LIMIT 1"
        )
        return next(iter(self._entries(scope, condition, words, form)), None)

    def find_count(self, scope: MemoryScope, words: str, form: str) -> Entry | None:
        """The newest count that the same question released in the same form."""
        condition = (
            "words = ? AND numbers <> '' AND form = ? ORDER BY released DESC, id DESC LIMIT 1"
        )
        return next(iter(self._entries(scope, condition, words, form)), None)

    def put(
        self,
        *,
        corpus: str,
        caller: str,
        part: str,
        key: str,
        form: str,
        words: str,
        question: str,
        answer: str,
        epsilon: float,
        delta: float,
        whole: bool,
        drawn: bool,
        numbers: str = "",
    ) -> None:
        """Keep an answer, in place of an older one to the same question of the same scope.

        Of two processes at once the last stays. What the operator edited is not replaced.
        """
        texts = (corpus, caller, part, key, form, words, question, answer)
        kept = (*texts, epsilon, delta, whole, drawn, numbers)
        self._file.now().write(
            lambda c: c.execute(
                "INSERT INTO entry (corpus, caller, part, key, form, words, question, answer,"
                " epsilon, delta, whole, drawn, numbers, released)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (corpus, caller, part, key, form, words) DO UPDATE SET"
                " question = excluded.question, answer = excluded.answer,"
                " epsilon = excluded.epsilon, delta = excluded.delta, whole = excluded.whole,"
                " drawn = excluded.drawn, numbers = excluded.numbers,"
                " released = excluded.released, embedder = NULL, vector = NULL,"
                " asked = asked + 1"
                " WHERE NOT edited",
                (*kept, max(0, int(self._clock()))),
            )
        )

    def edit(self, number: int, answer: str, scope: MemoryScope = ALL) -> None:
        """Correct the answer of an entry.

        Raises:
            KnowledgeError: There is no such entry, or it is a count, or the file cannot be written.
        """
        if any(entry.id == number and entry.numbers for entry in self.entries(scope)):
            raise KnowledgeError(
                f"entry {number} is a count, whose numbers stay as they were released; "
                "`dpicl-rag memory forget` forgets it"
            )
        self._change(
            number, scope, "UPDATE entry SET answer = ?, whole = 1, edited = 1, drawn = 0", answer
        )

    def forget(self, number: int, scope: MemoryScope = ALL) -> None:
        """Delete an entry.

        Raises:
            KnowledgeError: There is no such entry, or the file cannot be written.
        """
        self._change(number, scope, "DELETE FROM entry")

    def clear(self, scope: MemoryScope = ALL) -> int:
        """Delete all entries of a scope; returns how many there were."""
        condition, values = scope.condition()
        statement = f"DELETE FROM entry WHERE {condition}"  # noqa: S608 - see Scope.condition
        return self._file.now().write(lambda c: c.execute(statement, values).rowcount)

    def vectors(self, scope: MemoryScope, fingerprint: str) -> list[tuple[Entry, bytes | None]]:
        """The newest answers, the newest first, with the vectors of an embedding model.

        Args:
            scope: Whose.
            fingerprint: Of the model; vectors of another one are None.
        """
        condition, values = scope.condition()
        query = (
            f"SELECT CASE WHEN embedder = ? THEN vector END, {_COLUMNS} FROM entry"  # noqa: S608
            f" WHERE {condition} AND numbers = ''"
            f" ORDER BY released DESC, id DESC LIMIT {_COMPARED}"
        )

        def read(connection: sqlite3.Connection) -> list[tuple[Entry, bytes | None]]:
            found = connection.execute(query, (fingerprint, *values))
            return [(_entry(tuple(row)), vector) for vector, *row in found]

        return self._file.now().read(read)

    def keep_vectors(self, fingerprint: str, vectors: Mapping[Entry, bytes]) -> None:
        """Keep vectors of questions; another process may do the same, with the same result."""
        rows = [
            (fingerprint, vector, entry.id, entry.question) for entry, vector in vectors.items()
        ]

        def write(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "UPDATE entry SET embedder = ?, vector = ? WHERE id = ? AND question = ?", rows
            )

        # A vector can be made again: no question fails or waits for this.
        self._file.now().try_write(write)

    def close(self) -> None:
        """Close the file; later calls raise KnowledgeError."""
        self._file.close()

    def _entries(self, scope: MemoryScope, further: str, *values: object) -> list[Entry]:
        condition, own = scope.condition()
        query = f"SELECT {_COLUMNS} FROM entry WHERE {condition} AND {further}"  # noqa: S608
        return self._file.now().read(
            lambda c: [_entry(row) for row in c.execute(query, (*own, *values))]
        )

    def _change(self, number: int, scope: MemoryScope, statement: str, *new: str) -> None:
        condition, values = scope.condition()
        whole = f"{statement} WHERE id = ? AND {condition}"
        changed = self._file.now().write(
            lambda c: c.execute(whole, (*new, number, *values)).rowcount
        )
        if not changed:
            raise KnowledgeError(
                f"there is no entry {number} in this memory; `dpicl-rag memory show` lists them"
            )


def _found(path: Path) -> os.stat_result:
    """The file of that name, made where there is none."""
    try:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return path.stat()
    except OSError as error:
        raise KnowledgeError(
            f"the memory {path} cannot be opened ({error.strerror}); check the path and its "
            "permissions"
        ) from error


def _entry(row: EntryRow) -> Entry:
    number, corpus, caller, question, answer, epsilon, delta, released, numbers, *flags = row
    whole, edited, drawn = map(bool, flags)
    moment = datetime.fromtimestamp(released, UTC)
    return Entry(
        id=number,
        corpus=corpus,
        caller=caller or None,
        question=question,
        answer=answer,
        epsilon=epsilon,
        delta=delta,
        time=moment,
        whole=whole,
        edited=edited,
        drawn=drawn,
        numbers=numbers,
    )
