"""A table whose rows carry a checksum, so that a bit that flips on the disk is found."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import xxhash

from dpicl_rag.files.database import require_whole

_WANTED = 5000  # values that are looked for in one statement

SQLRow = tuple[Any, ...]


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
