"""Kinds of SQLite files of ours, and tables whose rows carry a checksum: damage is found."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import xxhash

from dpicl_rag.errors import DPICLError

_WANTED = 5000  # values that are looked for in one statement

SQLRow = tuple[Any, ...]


def require_whole(whole: object) -> None:
    """Raise unless a query found a row as it was written.

    Raises:
        sqlite3.DatabaseError: It is not; `Database` says what to do.
    """
    if not whole:
        raise sqlite3.DatabaseError("a row differs from its copy")


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file: its name, its mark, its tables, and the number of their version.

    Attributes:
        noun: What messages call it.
        holds: What would be lost with it.
        error: What its failures are raised as.
        application_id: Marks a file as one of this kind.
        version: Number of the tables, above 0. A file of any other number is refused. Raised
            whenever ``schema`` changes.
        schema: Statements that make the tables in an empty file.
        remedy: What to do about a file of another version: the end of a sentence.
        damaged: Queries that find a row only in a file that is damaged.
        checked_when_opened: Whether the whole file is looked through then.
        erases: Whether what is deleted is overwritten.
    """

    noun: str
    holds: str
    error: type[DPICLError]
    application_id: int
    version: int
    schema: tuple[str, ...]
    remedy: str
    damaged: tuple[str, ...] = ()
    checked_when_opened: bool = True
    erases: bool = False

    def version_of(self, connection: sqlite3.Connection) -> int:
        """Number of the tables that a file has; 0 if it has none.

        Raises:
            sqlite3.DatabaseError: It is no number of a version: the file is damaged.
        """
        (number,) = connection.execute("PRAGMA user_version").fetchone()
        require_whole(number >= 0)
        return int(number)

    def is_foreign(self, connection: sqlite3.Connection) -> bool:
        """Test for a database of another kind or another program."""
        # The mark last: another process may make the tables, and the mark with them, in between.
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        made = tables or self.version_of(connection)
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        return bool(mark != self.application_id and (mark or made))

    def is_of_another_version(self, connection: sqlite3.Connection) -> bool:
        """Test for a file that has tables, and those of another version."""
        return self.version_of(connection) not in (0, self.version)

    def make(self, connection: sqlite3.Connection) -> None:
        """Make the tables in an empty file, within the caller's transaction; again, nothing."""
        if self.version_of(connection):
            return
        for statement in self.schema:
            connection.execute(statement)
        # PRAGMA takes no parameters; both values are constants of the program.
        connection.execute(f"PRAGMA application_id = {self.application_id}")
        connection.execute(f"PRAGMA user_version = {self.version}")

    def require_sound(self, connection: sqlite3.Connection) -> None:
        """Look for damage in the whole file, indexes included.

        Raises:
            sqlite3.DatabaseError: There is some.
        """
        (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError("integrity_check failed")
        for query in self.damaged:
            require_whole(not connection.execute(query).fetchone())


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """The columns of a table; behind them it has one more, ``checksum``.

    Attributes:
        name: Of the table.
        columns: Of a row, in order; the first identifies it.
    """

    name: str
    columns: tuple[str, ...]

    def put(self, connection: sqlite3.Connection, rows: Iterable[SQLRow]) -> None:
        """Write rows, in the place of those that are called so."""
        marks = ",".join("?" * (len(self.columns) + 1))
        names = ",".join((*self.columns, "checksum"))
        connection.executemany(
            f"INSERT OR REPLACE INTO {self.name} ({names}) VALUES ({marks})",  # noqa: S608
            ((*row, _checksum(row)) for row in rows),
        )

    def rows(
        self, connection: sqlite3.Connection, condition: str = "1", values: Sequence[Any] = ()
    ) -> Iterator[SQLRow]:
        """Rows that a condition lets pass.

        Raises:
            sqlite3.DatabaseError: One is not as it was written.
        """
        names = ",".join((*self.columns, "checksum"))
        query = f"SELECT {names} FROM {self.name} WHERE {condition}"  # noqa: S608
        for *row, checksum in connection.execute(query, values):
            require_whole(_checksum(row) == checksum)
            yield tuple(row)

    def among(
        self,
        connection: sqlite3.Connection,
        column: str,
        values: Iterable[Any],
        condition: str = "1",
    ) -> Iterator[SQLRow]:
        """Rows that have one of the values in a column; see `rows`."""
        for page in pages(list(values), _WANTED):
            marks = ",".join("?" * len(page))
            yield from self.rows(connection, f"{column} IN ({marks}) AND {condition}", page)

    def drop(self, connection: sqlite3.Connection, column: str, values: Iterable[Any]) -> None:
        """Delete the rows that have one of the values in a column."""
        connection.executemany(
            f"DELETE FROM {self.name} WHERE {column} = ?",  # noqa: S608
            ((value,) for value in values),
        )


def pages(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Pieces of a sequence, in order."""
    for first in range(0, len(items), size):
        yield items[first : first + size]


def _checksum(row: Iterable[Any]) -> int:
    """Of all values of a row and their types, as SQLite keeps numbers: signed, 64 bits."""
    coded = b"\0".join(
        b"b" + value
        if isinstance(value, bytes)
        else (type(value).__name__[0] + str(value)).encode("utf-8", "surrogatepass")
        for value in row
    )
    return int(xxhash.xxh3_64_intdigest(coded)) - 2**63
