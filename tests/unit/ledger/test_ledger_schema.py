from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from dpicl_rag.errors import LedgerError
from dpicl_rag.ledger import Ledger, ledger_schema


def test_tables_that_cannot_be_made_leave_an_empty_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        broken = ("CREATE TABLE extra (id INTEGER)", "ALTER TABLE nothing ADD COLUMN note")
        patch.setattr(ledger_schema, "LEDGER", replace(ledger_schema.LEDGER, schema=broken))
        with pytest.raises(LedgerError):
            Ledger(path)
    with Ledger(path), sqlite3.connect(path) as connection:
        assert not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'extra'").fetchall()
    connection.close()


def test_a_file_whose_version_is_none_is_damaged(path: Path) -> None:
    Ledger(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = -7")
    connection.close()
    with pytest.raises(LedgerError, match="damaged"):
        Ledger(path)


@pytest.mark.parametrize(
    "statement",
    ["CREATE TABLE t (x)", "PRAGMA user_version = 1", "PRAGMA application_id = 7"],
)
def test_a_database_of_another_program_is_left_alone(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="another program"):
        Ledger(path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("spend", "fixed = -1"),
        ("spend", "fixed = 'many'"),
        ("spend", "day = 1e300"),
        ("reservation", "committed = held + 1"),
        ("scope", "period = 'week'"),
        ("scope", "budget = 1.5"),
    ],
)
def test_values_outside_their_range_are_found_on_opening(
    path: Path, table: str, change: str
) -> None:
    first = Ledger(path)
    first.set_budget(corpus="mail", rho=1.0)
    with first.reserve(corpus="mail", rho=0.1) as reservation:
        reservation.commit(0.1)
    running = first.reserve(corpus="mail", rho=0.1)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(f"UPDATE {table} SET {change}")
    connection.close()
    with pytest.raises(LedgerError, match="restore it from a backup"):
        Ledger(path)
    running.close()
    first.close()
