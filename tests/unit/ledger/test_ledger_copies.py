"""A bit that flips in the file is an error, never another budget."""

from __future__ import annotations

import random
import sqlite3
import warnings
from contextlib import closing
from pathlib import Path

import pytest

from dpicl_rag.errors import LedgerError
from dpicl_rag.ledger import Ledger
from dpicl_rag.ledger.ledger_schema import whole
from tests.support.flipped_bits import answers, flipped, good_files, leaves_more
from tests.unit.ledger.test_ledger_individual import charge, limits

pytestmark = pytest.mark.filterwarnings("ignore::dpicl_rag.NoBudgetWarning")

TABLES = ("ledger", "scope", "spend", "unit", "reservation", "hold", "part", "payer")
POOLS = ("delta_pool", "delta_hold", "delta_spend")
CHANGES = [
    ("ledger", "latest = latest + 65536"),
    ("scope", "budget = budget + 1048576"),
    ("scope", "unit_budget = NULL"),
    ("scope", "floor = floor + 1"),
    ("scope", "period = 'day'"),
    ("spend", "fixed = fixed - 1"),
    ("spend", "individual = individual - 8"),
    ("spend", "day = day - 128"),
    ("unit", "spent = spent - 1"),
    ("unit", "period_spent = 0"),
    ("unit", "period_start = period_start + 1"),
    ("unit", "merged_into = NULL"),
    ("reservation", "held = held - 4"),
    ("reservation", "committed = 0"),
    ("reservation", "commits = 0"),
    ("hold", "held = held - 1"),
    ("hold", "committed = 0"),
    ("part", "spent = 0"),
    ("part", "individual = individual + 1024"),
    ("payer", "corpus = 'other'"),
    ("payer", "unit_field = 'other'"),
    ("delta_pool", "delta = delta + 1048576"),
    ("delta_hold", "held = held - 4"),
    ("delta_hold", "committed = 0"),
    ("delta_spend", "delta = delta - 1"),
    ("delta_spend", "day = day - 128"),
]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return good_files(tmp_path)


def change(path: Path, table: str, to: str) -> None:
    """Change a table behind the back of its copies, as a flipped bit does."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        if table in ("hold", "part", "payer", *POOLS):  # whose copy is written by SQLite itself
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute(
                "UPDATE sqlite_master SET sql = substr(sql, 1, instr(sql, 'copy TEXT') + 8)"
                " || substr(sql, instr(sql, 'STORED') + 6) WHERE name = ?",
                (table,),
            )
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(f"UPDATE {table} SET {to}")
        assert connection.execute(f"SELECT 1 FROM {table} WHERE NOT {whole(table)}").fetchone()


def test_every_row_has_its_copy(files: dict[str, bytes], tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "good.sqlite")) as connection:
        for table in (*TABLES, *POOLS):
            rows, sound = connection.execute(
                f"SELECT count(*), sum({whole(table)}) FROM {table}"
            ).fetchone()
            assert rows == sound > 0, table


@pytest.mark.parametrize(("table", "to"), CHANGES)
def test_a_value_that_has_changed_is_found_on_opening(
    files: dict[str, bytes], tmp_path: Path, table: str, to: str
) -> None:
    path = tmp_path / "good.sqlite"
    change(path, table, to)
    with pytest.raises(LedgerError, match="damaged; restore it from a backup"):
        Ledger(path)


def test_every_bit_of_an_amount_is_guarded(files: dict[str, bytes], tmp_path: Path) -> None:
    """All bits of the rows of units: what they have spent stands nowhere else."""
    with closing(sqlite3.connect(tmp_path / "good.sqlite")) as connection:
        (spent,) = connection.execute("SELECT max(spent) FROM unit").fetchone()
    content = files["good.sqlite"]
    raw = spent.to_bytes((spent.bit_length() + 8) // 8, "big")
    places = [at for at in range(len(content)) if content.startswith(raw, at)]
    assert places
    for at in places:
        for bit in range(8 * at, 8 * (at + len(raw))):
            assert answers({**files, "good.sqlite": flipped(content, bit)}, tmp_path) is None


def test_no_flipped_bit_leaves_more_of_a_budget(files: dict[str, bytes], tmp_path: Path) -> None:
    good, content = answers(files, tmp_path), files["good.sqlite"]
    assert good is not None
    used = [at for at, byte in enumerate(content) if byte]
    coins, refused = random.Random(25), 0
    for _ in range(250):
        bit = 8 * coins.choice(used) + coins.randrange(8)
        found = answers({**files, "good.sqlite": flipped(content, bit)}, tmp_path)
        refused += found is None
        assert found is None or not leaves_more(found, good)
    assert refused > 100


@pytest.mark.parametrize(
    ("to", "call"),
    [
        ("UPDATE unit SET spent = spent - 1", lambda ledger: limits(ledger, "a")),
        (
            "UPDATE unit SET spent = spent - 1",
            lambda ledger: ledger.merge_units("mail", {"b": "a"}),
        ),
        ("UPDATE spend SET fixed = fixed + 1", lambda ledger: ledger.status()),
        ("UPDATE spend SET fixed = fixed + 1", lambda ledger: limits(ledger, "new")),
        ("UPDATE scope SET budget = budget + 1", lambda ledger: ledger.status()),
        ("UPDATE ledger SET latest = latest + 1", lambda ledger: limits(ledger, "new")),
    ],
)
def test_what_changes_under_a_living_process_is_found_where_it_is_read(
    ledger: Ledger, to: str, call
) -> None:
    ledger.set_budget(corpus="mail", rho=1.0)
    charge(ledger, 0.5, a=0.25, b=0.36)
    table = to.split()[1]

    def behind(connection: sqlite3.Connection) -> None:
        connection.execute(f"DROP TRIGGER {table}_changed")
        connection.execute(to)

    ledger._database.write(behind)
    with pytest.raises(LedgerError, match="damaged; restore it from a backup"):
        call(ledger)


def test_nothing_is_written_over_a_row_that_is_damaged(ledger: Ledger) -> None:
    """A charge would add to a wrong amount, and its copy would then agree with it."""
    ledger.set_budget(corpus="mail", rho=1.0)
    charge(ledger, 0.5, a=0.25)
    running = ledger.reserve(corpus="mail", rho=0.5, units=["a"])
    running.commit(0.1, [0.1])

    def behind(connection: sqlite3.Connection) -> None:
        connection.execute("DROP TRIGGER unit_changed")
        connection.execute("UPDATE unit SET spent = 0")

    ledger._database.write(behind)
    running.close()
    with pytest.raises(LedgerError, match="damaged"):
        ledger.settle_stale()
