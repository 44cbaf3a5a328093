from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from dpicl_rag.ledger import Ledger, ledger_schema


class Clock:
    """A clock that stands still until it is set; starts on 2026-03-15 12:00 UTC."""

    def __init__(self) -> None:
        self.now = 1_773_576_000.0

    def __call__(self) -> float:
        return self.now

    def pass_days(self, days: float) -> None:
        self.now += days * 86_400


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget.sqlite"


@pytest.fixture
def ledger(path: Path, clock: Clock) -> Iterator[Ledger]:
    with Ledger(path, clock=clock) as opened:
        yield opened


def make_older(path: Path, version: int) -> None:
    """Write a ledger as an older version of the program would have."""
    older = path.with_name("older.sqlite")
    with closing(sqlite3.connect(older)) as connection, connection:
        replace(ledger_schema.LEDGER, migrations=ledger_schema.LEDGER.migrations[:version]).migrate(
            connection
        )
        connection.execute("DELETE FROM ledger")
        connection.execute("ATTACH ? AS newer", (str(path),))
        for table in ("ledger", "scope", "spend", "unit", "reservation", "hold"):
            columns = ", ".join(
                name for _, name, *_ in connection.execute(f"PRAGMA main.table_info({table})")
            )
            connection.execute(
                f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM newer.{table}"
            )
    older.replace(path)
