"""Tables of the ledger file and their versions.

The file holds no text and no unit identifier: a unit is a keyed hash. What a unit has spent is
private all the same, so the file is created for its owner alone.
"""

from __future__ import annotations

from dpicl_rag.errors import LedgerError
from dpicl_rag.files.database import FileKind
from dpicl_rag.ledger.copies import column, damaged, keep_copies

# One nano-rho amount: a whole number up to MAX_RHO times some slack for sums.
_AMOUNT = (
    "INTEGER NOT NULL DEFAULT 0"
    " CHECK (typeof({0}) = 'integer' AND {0} BETWEEN 0 AND 1000000000000000000)"
)
_DAY = "INTEGER NOT NULL CHECK (typeof({0}) = 'integer' AND {0} BETWEEN 0 AND 4000000)"
_LIMIT = (
    "INTEGER"
    " CHECK ({0} IS NULL OR (typeof({0}) = 'integer' AND {0} BETWEEN 0 AND 1000000000000000))"
)


def _amount(name: str) -> str:
    return f"{name} {_AMOUNT.format(name)}"


def _day(name: str) -> str:
    return f"{name} {_DAY.format(name)}"


def _limit(name: str) -> str:
    return f"{name} {_LIMIT.format(name)}"


_HOLD = f"""CREATE TABLE {{}} (
        reservation INTEGER NOT NULL REFERENCES reservation (id),
        unit INTEGER NOT NULL REFERENCES unit (id),
        {_amount("held")},
        {_amount("committed")},
        {{}}PRIMARY KEY (reservation, unit),
        CHECK (committed <= held)
    ) WITHOUT ROWID"""

_VERSION_1 = (
    # One row: the check value of the key, and the latest time seen, in seconds since 1970.
    """CREATE TABLE ledger (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        key_check BLOB CHECK (key_check IS NULL OR typeof(key_check) = 'blob'),
        latest INTEGER NOT NULL DEFAULT 0 CHECK (typeof(latest) = 'integer' AND latest >= 0)
    )""",
    "INSERT INTO ledger (id) VALUES (1)",
    # floor, floor_day: see bound.py.
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
        UNIQUE (kind, name)
    )""",
    # Closed answers, summed by the UTC day on which they were reserved.
    f"""CREATE TABLE spend (
        scope INTEGER NOT NULL REFERENCES scope (id),
        {_day("day")},
        {_amount("fixed")},
        {_amount("individual")},
        questions INTEGER NOT NULL DEFAULT 0 CHECK (typeof(questions) = 'integer'),
        PRIMARY KEY (scope, day)
    ) WITHOUT ROWID""",
    # spent is for life, period_spent since the day period_start.
    f"""CREATE TABLE unit (
        id INTEGER PRIMARY KEY,
        scope INTEGER NOT NULL REFERENCES scope (id),
        hash BLOB NOT NULL CHECK (typeof(hash) = 'blob'),
        {_amount("spent")},
        period_start INTEGER NOT NULL DEFAULT 0 CHECK (typeof(period_start) = 'integer'),
        {_amount("period_spent")},
        forgotten_on INTEGER CHECK (forgotten_on IS NULL OR typeof(forgotten_on) = 'integer'),
        UNIQUE (scope, hash)
    )""",
    # An answer in progress. held stays as it was granted; committed grows up to it.
    f"""CREATE TABLE reservation (
        id INTEGER PRIMARY KEY,
        corpus INTEGER NOT NULL REFERENCES scope (id),
        caller INTEGER REFERENCES scope (id),
        individual INTEGER NOT NULL CHECK (individual IN (0, 1)),
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
        CHECK (committed <= held)
    )""",
    _HOLD.format("hold", ""),
    "CREATE INDEX hold_of_unit ON hold (unit)",
)

# merged_into: the unit that this one turned out to be; see unit_spend.py.
_VERSION_2 = (
    "ALTER TABLE unit ADD COLUMN merged_into INTEGER REFERENCES unit (id)"
    " CHECK (merged_into IS NULL OR merged_into != id)",
    "CREATE INDEX unit_merged_into ON unit (merged_into)",
)

_VERSION_3 = (
    # Whether individual answers are refused once the public bound has reached the budget.
    "ALTER TABLE scope ADD COLUMN strict INTEGER NOT NULL DEFAULT 0 CHECK (strict IN (0, 1))",
    # Proves that a row can be written; see Ledger.check.
    "ALTER TABLE ledger ADD COLUMN checks INTEGER NOT NULL DEFAULT 0",
    # Which scope has paid for answers from which corpus; see payers.py.
    f"""CREATE TABLE payer (
        corpus TEXT NOT NULL CHECK (typeof(corpus) = 'text'),
        scope INTEGER NOT NULL REFERENCES scope (id),
        {column("payer")},
        PRIMARY KEY (corpus, scope)
    ) WITHOUT ROWID""",
    "INSERT INTO payer SELECT '', id FROM scope WHERE kind = 'corpus'",
    # A unit that is part of another: what it had spent before, and how things stood then. Of units
    # that were joined before, nobody knows: they have spent what they are together, and every
    # answer was given since. See parts.py.
    f"""CREATE TABLE part (
        unit INTEGER PRIMARY KEY REFERENCES unit (id),
        {_amount("spent")},
        period_start INTEGER NOT NULL DEFAULT 0 CHECK (typeof(period_start) = 'integer'),
        {_amount("period_spent")},
        {_amount("joint")},
        {_amount("fixed")},
        {_amount("individual")},
        {column("part")}
    )""",
    "INSERT INTO part (unit, spent, period_start, period_spent)"
    " SELECT unit.id, root.spent, root.period_start, root.period_spent FROM unit"
    " JOIN unit AS root ON root.id = coalesce(unit.merged_into, unit.id)"
    " WHERE unit.merged_into IS NOT NULL"
    " OR unit.id IN (SELECT merged_into FROM unit WHERE merged_into IS NOT NULL)",
    _HOLD.format("copied_hold", f"{column('hold')}, "),
    "INSERT INTO copied_hold SELECT reservation, unit, held, committed FROM hold",
    "DROP TABLE hold",
    "ALTER TABLE copied_hold RENAME TO hold",
    "CREATE INDEX hold_of_unit ON hold (unit)",
    *keep_copies("ledger", "scope", "spend", "unit", "reservation", "hold", "part", "payer"),
)

# The delta of thresholds, in 10^-18; see delta_pool.py.
_VERSION_4 = (
    f"""CREATE TABLE delta_pool (
        scope INTEGER PRIMARY KEY REFERENCES scope (id),
        {_amount("delta")},
        {column("delta_pool")}
    )""",
    f"""CREATE TABLE delta_hold (
        reservation INTEGER PRIMARY KEY REFERENCES reservation (id),
        {_amount("held")},
        {_amount("committed")},
        {column("delta_hold")},
        CHECK (committed <= held)
    )""",
    f"""CREATE TABLE delta_spend (
        scope INTEGER NOT NULL REFERENCES scope (id),
        {_day("day")},
        {_amount("delta")},
        {column("delta_spend")},
        PRIMARY KEY (scope, day)
    ) WITHOUT ROWID""",
    *keep_copies("delta_pool", "delta_hold", "delta_spend"),
)

LEDGER = FileKind(
    noun="ledger",
    holds="what was spent",
    error=LedgerError,
    application_id=0x44504C47,  # "DPLG"
    migrations=(_VERSION_1, _VERSION_2, _VERSION_3, _VERSION_4),
    damaged=damaged(),
)
