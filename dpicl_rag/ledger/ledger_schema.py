"""Tables of the ledger file.

The file holds no text and no unit identifier: a unit is a keyed hash. What a unit has spent is
private all the same, so the file is created for its owner alone.
"""

from __future__ import annotations

from dpicl_rag.errors import LedgerError
from dpicl_rag.files.tables import FileKind
from dpicl_rag.ledger.copies import column, damaged, triggers

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


_SCHEMA = (
    # One row: the check value of the key, and the latest time seen, in seconds since 1970. checks
    # proves that a row can be written; see Ledger.check.
    f"""CREATE TABLE ledger (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        key_check BLOB CHECK (key_check IS NULL OR typeof(key_check) = 'blob'),
        latest INTEGER NOT NULL DEFAULT 0 CHECK (typeof(latest) = 'integer' AND latest >= 0),
        checks INTEGER NOT NULL DEFAULT 0,
        {column("ledger")}
    )""",
    # floor, floor_day: see bound.py. strict: whether individual answers are refused once the public
    # bound has reached the budget.
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
        {column("scope")},
        UNIQUE (kind, name)
    )""",
    # Closed answers, summed by the UTC day on which they were reserved.
    f"""CREATE TABLE spend (
        scope INTEGER NOT NULL REFERENCES scope (id),
        {_day("day")},
        {_amount("fixed")},
        {_amount("individual")},
        questions INTEGER NOT NULL DEFAULT 0 CHECK (typeof(questions) = 'integer'),
        {column("spend")},
        PRIMARY KEY (scope, day)
    ) WITHOUT ROWID""",
    # spent is for life, period_spent since the day period_start. merged_into: the unit that this
    # one turned out to be; see unit_spend.py.
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
        {column("unit")},
        UNIQUE (scope, hash)
    )""",
    "CREATE INDEX unit_merged_into ON unit (merged_into)",
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
        {column("reservation")},
        CHECK (committed <= held)
    )""",
    f"""CREATE TABLE hold (
        reservation INTEGER NOT NULL REFERENCES reservation (id),
        unit INTEGER NOT NULL REFERENCES unit (id),
        {_amount("held")},
        {_amount("committed")},
        {column("hold")},
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
        {column("part")}
    )""",
    # Which scope has paid for answers from which corpus; see payers.py.
    f"""CREATE TABLE payer (
        corpus TEXT NOT NULL CHECK (typeof(corpus) = 'text'),
        scope INTEGER NOT NULL REFERENCES scope (id),
        {column("payer")},
        PRIMARY KEY (corpus, scope)
    ) WITHOUT ROWID""",
    # The delta of thresholds, in 10^-18; see delta_pool.py.
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
    *triggers(),
    "INSERT INTO ledger (id) VALUES (1)",
)

LEDGER = FileKind(
    noun="ledger",
    holds="what was spent",
    error=LedgerError,
    application_id=0x44504C47,  # "DPLG"
    version=5,
    schema=_SCHEMA,
    remedy="go on with that version, or start a new ledger in another file: what was spent is then "
    "forgotten, and every budget begins anew",
    damaged=damaged(),
)
