"""Tables of the ledger file, whose rows hold their own values once more.

The file holds no text and no unit identifier: a unit is a keyed hash. What a unit has spent is
private all the same, so the file is created for its owner alone.

A flipped bit of an amount is a number like any other, and would be another budget. So each row
that counts has a column ``copy``, the row's values as text. It is written with the row, in the same
transaction, and triggers refuse to change or delete a row that differs from it. `whole` is for
those who read; the whole file is looked through when it is opened. What a row is found by (the hash
of a unit, the name of a scope) stands twice anyway, in the table and in its index: these are
compared when the file is opened.
"""

from __future__ import annotations

from dpicl_rag.errors import LedgerError
from dpicl_rag.files.tables import FileKind

_COPIED = {
    "ledger": ("id", "latest"),
    "scope": (
        *("id", "kind", "name", "budget", "unit_budget"),
        *("period", "floor", "floor_day", "strict", "gaussian", "other_day"),
    ),
    "spend": ("scope", "day", "fixed", "individual", "questions"),
    "unit": ("id", "scope", "spent", "period_start", "period_spent", "merged_into"),
    "reservation": (
        *("id", "corpus", "caller", "individual", "gaussian", "day"),
        *("period_start", "held", "committed", "commits"),
        *("session", "machine", "pid", "started", "touched"),
    ),
    "hold": ("reservation", "unit", "held", "committed"),
    "part": (
        *("unit", "spent", "period_start", "period_spent"),
        *("joint", "fixed", "individual"),
    ),
    "payer": ("corpus", "scope", "unit_field"),
    "delta_pool": ("scope", "delta", "answers"),
    "delta_hold": ("reservation", "held", "committed"),
    "delta_spend": ("scope", "day", "delta"),
}
_GENERATED = ("hold", "part", "payer", "delta_pool", "delta_hold", "delta_spend")
"""Tables whose copy is a generated column, which writes a row once. Triggers write the others."""


def _copy(table: str) -> str:
    if table in _GENERATED:
        return f"copy TEXT GENERATED ALWAYS AS ({_values(table)}) STORED"
    return "copy TEXT"


def whole(table: str, row: str = "") -> str:
    """SQL: whether a row is as it was written.

    Args:
        table: Name of the table.
        row: What the query calls it; its name by default.
    """
    name = row or table
    return f"({name}.copy IS {_values(table, name + '.')})"


def _triggers(table: str) -> tuple[str, ...]:
    """Statements that have copies written and checked."""
    refuse = f"WHEN NOT {whole(table, 'OLD')} BEGIN SELECT RAISE(ABORT, 'damaged'); END"
    columns = ", ".join(_COPIED[table])
    change = f"CREATE TRIGGER {table}_change BEFORE UPDATE OF {columns} ON {table} {refuse}"
    delete = f"CREATE TRIGGER {table}_delete BEFORE DELETE ON {table} {refuse}"
    if table == "hold":  # written for each token, from what the process knows, and soon gone
        return (delete,)
    if table in _GENERATED:
        return change, delete
    key = ("scope", "day") if table == "spend" else ("id",)
    this = " AND ".join(f"{name} = NEW.{name}" for name in key)
    copy = f"UPDATE {table} SET copy = {_values(table, 'NEW.')} WHERE {this}"  # noqa: S608
    return (
        f"CREATE TRIGGER {table}_added AFTER INSERT ON {table} BEGIN {copy}; END",
        f"CREATE TRIGGER {table}_changed AFTER UPDATE OF {columns} ON {table} BEGIN {copy}; END",
        change,
        delete,
    )


def _values(table: str, row: str = "") -> str:
    return " || ' ' || ".join(f"quote({row}{column})" for column in _COPIED[table])


# A sum of nano-rho: a whole number up to MAX_RHO times some slack. A budget has no slack.
_MOST_AMOUNT, _MOST_LIMIT, _MOST_DAY = 10**18, 10**15, 4_000_000


def _amount(name: str) -> str:
    return f"{name} INTEGER NOT NULL DEFAULT 0 CHECK ({_is_whole(name, _MOST_AMOUNT)})"


def _day(name: str) -> str:
    return f"{name} INTEGER NOT NULL CHECK ({_is_whole(name, _MOST_DAY)})"


def _limit(name: str) -> str:
    return f"{name} INTEGER CHECK ({name} IS NULL OR ({_is_whole(name, _MOST_LIMIT)}))"


def _is_whole(name: str, most: int) -> str:
    return f"typeof({name}) = 'integer' AND {name} BETWEEN 0 AND {most}"


_SCHEMA = (
    # One row: the check value of the key, and the latest time seen, in seconds since 1970. checks
    # proves that a row can be written; see Ledger.check.
    f"""CREATE TABLE ledger (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        key_check BLOB CHECK (key_check IS NULL OR typeof(key_check) = 'blob'),
        latest INTEGER NOT NULL DEFAULT 0 CHECK (typeof(latest) = 'integer' AND latest >= 0),
        checks INTEGER NOT NULL DEFAULT 0,
        {_copy("ledger")}
    )""",
    # floor, floor_day: see budgets.py. strict: whether individual answers are refused once the
    # public bound has reached the budget. gaussian: whether it is for Gaussian noise alone.
    # other_day: the last day on which other noise was paid for; -1 for never.
    f"""CREATE TABLE scope (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL CHECK (kind IN ('corpus', 'caller')),
        name TEXT NOT NULL CHECK (typeof(name) = 'text'),
        {_limit("budget")},
        {_limit("unit_budget")},
        period TEXT NOT NULL DEFAULT 'lifetime'
            CHECK (period IN ('lifetime', 'day', 'month', 'year')),
        {_amount("floor")},
        floor_day INTEGER NOT NULL DEFAULT 0 CHECK (typeof(floor_day) = 'integer'),
        strict INTEGER NOT NULL DEFAULT 0 CHECK (strict IN (0, 1)),
        gaussian INTEGER NOT NULL DEFAULT 0 CHECK (gaussian IN (0, 1)),
        other_day INTEGER NOT NULL DEFAULT -1 CHECK (typeof(other_day) = 'integer'),
        {_copy("scope")},
        UNIQUE (kind, name)
    )""",
    # Closed answers, summed by the UTC day on which they were reserved.
    f"""CREATE TABLE spend (
        scope INTEGER NOT NULL REFERENCES scope (id),
        {_day("day")},
        {_amount("fixed")},
        {_amount("individual")},
        questions INTEGER NOT NULL DEFAULT 0 CHECK (typeof(questions) = 'integer'),
        {_copy("spend")},
        PRIMARY KEY (scope, day)
    ) WITHOUT ROWID""",
    # spent is for life, period_spent since the day period_start. merged_into: the unit that this
    # one turned out to be; see ledger_units.py.
    f"""CREATE TABLE unit (
        id INTEGER PRIMARY KEY,
        scope INTEGER NOT NULL REFERENCES scope (id),
        hash BLOB NOT NULL CHECK (typeof(hash) = 'blob'),
        {_amount("spent")},
        period_start INTEGER NOT NULL DEFAULT 0 CHECK (typeof(period_start) = 'integer'),
        {_amount("period_spent")},
        forgotten_on INTEGER CHECK (forgotten_on IS NULL OR typeof(forgotten_on) = 'integer'),
        merged_into INTEGER REFERENCES unit (id)
            CHECK (merged_into IS NULL OR merged_into != id),
        {_copy("unit")},
        UNIQUE (scope, hash)
    )""",
    "CREATE INDEX unit_merged_into ON unit (merged_into)",
    # An answer in progress. held stays as it was granted; committed grows up to it.
    f"""CREATE TABLE reservation (
        id INTEGER PRIMARY KEY,
        corpus INTEGER NOT NULL REFERENCES scope (id),
        caller INTEGER REFERENCES scope (id),
        individual INTEGER NOT NULL CHECK (individual IN (0, 1)),
        gaussian INTEGER NOT NULL CHECK (gaussian IN (0, 1)),
        {_day("day")},
        period_start INTEGER NOT NULL CHECK (typeof(period_start) = 'integer'),
        {_amount("held")},
        {_amount("committed")},
        commits INTEGER NOT NULL DEFAULT 0 CHECK (typeof(commits) = 'integer'),
        session INTEGER NOT NULL CHECK (typeof(session) = 'integer'),
        machine TEXT NOT NULL CHECK (typeof(machine) = 'text'),
        pid INTEGER NOT NULL CHECK (typeof(pid) = 'integer' AND pid > 0),
        started INTEGER NOT NULL CHECK (typeof(started) = 'integer'),
        touched INTEGER NOT NULL CHECK (typeof(touched) = 'integer'),
        {_copy("reservation")},
        CHECK (committed <= held)
    )""",
    f"""CREATE TABLE hold (
        reservation INTEGER NOT NULL REFERENCES reservation (id),
        unit INTEGER NOT NULL REFERENCES unit (id),
        {_amount("held")},
        {_amount("committed")},
        {_copy("hold")},
        PRIMARY KEY (reservation, unit),
        CHECK (committed <= held)
    ) WITHOUT ROWID""",
    "CREATE INDEX hold_of_unit ON hold (unit)",
    # A unit that is part of another: what it had spent before, and how things stood then. See
    # parts.py.
    f"""CREATE TABLE part (
        unit INTEGER PRIMARY KEY REFERENCES unit (id),
        {_amount("spent")},
        period_start INTEGER NOT NULL DEFAULT 0 CHECK (typeof(period_start) = 'integer'),
        {_amount("period_spent")},
        {_amount("joint")},
        {_amount("fixed")},
        {_amount("individual")},
        {_copy("part")}
    )""",
    # Which scope has paid for answers from which corpus, and the field of their unit, where they
    # come from a store that is read by one; see scope.py.
    f"""CREATE TABLE payer (
        corpus TEXT NOT NULL CHECK (typeof(corpus) = 'text'),
        scope INTEGER NOT NULL REFERENCES scope (id),
        unit_field TEXT CHECK (unit_field IS NULL OR typeof(unit_field) = 'text'),
        {_copy("payer")},
        PRIMARY KEY (corpus, scope)
    ) WITHOUT ROWID""",
    # The delta of thresholds, in 10^-18, of which an answer takes a part; see delta_pool.py.
    f"""CREATE TABLE delta_pool (
        scope INTEGER PRIMARY KEY REFERENCES scope (id),
        {_amount("delta")},
        answers INTEGER NOT NULL CHECK (typeof(answers) = 'integer' AND answers > 0),
        {_copy("delta_pool")}
    )""",
    f"""CREATE TABLE delta_hold (
        reservation INTEGER PRIMARY KEY REFERENCES reservation (id),
        {_amount("held")},
        {_amount("committed")},
        {_copy("delta_hold")},
        CHECK (committed <= held)
    )""",
    f"""CREATE TABLE delta_spend (
        scope INTEGER NOT NULL REFERENCES scope (id),
        {_day("day")},
        {_amount("delta")},
        {_copy("delta_spend")},
        PRIMARY KEY (scope, day)
    ) WITHOUT ROWID""",
    *(trigger for table in _COPIED for trigger in _triggers(table)),
    "INSERT INTO ledger (id) VALUES (1)",
)

LEDGER = FileKind(
    noun="ledger",
    holds="what was spent",
    error=LedgerError,
    application_id=0x44504C47,  # "DPLG"
    version=7,
    schema=_SCHEMA,
    remedy="go on with that version, or start a new ledger in another file: what was spent is then "
    "forgotten, and every budget begins anew",
    damaged=tuple(
        f"SELECT 1 FROM {table} WHERE NOT {whole(table)} LIMIT 1"  # noqa: S608 - constants
        for table in _COPIED
    ),
)
