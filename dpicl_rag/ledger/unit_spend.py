"""Units in the ledger: what they have spent, what is held for them, and two that are one.

Two units may turn out to be one: a late reply joins two threads. The one that goes keeps its row,
so that answers in progress can settle, and points to the one that stays (``merged_into``), whose
row has what both have spent. Whoever names either finds the one that stays.

What is now one unit lost more than the sum of what its parts were charged. Ranges add up and zCDP
goes with their square, so an answer that cost the parts a and b cost the whole up to
(sqrt a + sqrt b)^2; see `joint`. Which answers both took part in is not recorded. By the inequality
of Cauchy and Schwarz the same expression of the sums is a bound however the answers were split.

Each function runs in a transaction that holds the write lock.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import isqrt

from dpicl_rag.ledger.period import Period
from dpicl_rag.ledger.scope import Scope

_MOST = 10**18  # what the file takes; a thousand times the largest budget
_ADD = "INSERT OR IGNORE INTO unit (scope, hash) VALUES (?, ?)"
_FIND = (
    "SELECT unit.id, root.id, root.spent, root.period_start, root.period_spent FROM unit"
    " JOIN unit AS root ON root.id = coalesce(unit.merged_into, unit.id)"
    " WHERE unit.scope = ? AND unit.hash = ?"
)
_HELD = (
    "SELECT reservation, held FROM hold"
    " WHERE unit IN (SELECT id FROM unit WHERE id = :root OR merged_into = :root)"
)
_COMMITTED = (
    "SELECT coalesce(unit.merged_into, unit.id), hold.committed FROM hold"
    " JOIN unit ON unit.id = hold.unit WHERE hold.reservation = ? AND hold.committed > 0"
)
# A late answer may belong to a period that is over for the unit: then it counts for life only.
_SPEND = (
    "UPDATE unit SET spent = spent + :amount,"
    " period_spent = CASE WHEN period_start = :start THEN period_spent + :amount"
    "   WHEN period_start < :start THEN :amount ELSE period_spent END,"
    " period_start = max(period_start, :start) WHERE id = :unit"
)


def joint(amounts: Iterable[int]) -> int:
    """What units lost together that are one: the square of the sum of square roots, rounded up."""
    total = 0
    for amount in amounts:
        twice = 4 * total * amount
        root = isqrt(twice)
        total += amount + root + (root * root < twice)
    return min(total, _MOST)


def hold(
    connection: sqlite3.Connection,
    scope: Scope,
    digests: Sequence[bytes],
    *,
    reservation: int,
    day: int,
    most: int,
) -> tuple[list[int], list[int]]:
    """Hold for each unit what it has left, up to ``most``.

    Of units that are one, only the first gets anything where there is a limit: its history is
    theirs.

    Args:
        connection: In a transaction.
        scope: The corpus.
        digests: Keyed hashes of the units.
        reservation: Number of the answer, which is in the file.
        day: The UTC day.
        most: What the answer may cost any unit, nano-rho.

    Returns:
        Row and hold of each unit. Private.
    """
    start = scope.period.start(day)
    fixed = scope.usage(connection, day, held=True).fixed
    room = scope.limits(day).unit_room(fixed)
    keys = [(scope.id, digest) for digest in digests]
    connection.executemany(_ADD, keys)
    units: list[int] = []
    holds: list[int] = []
    seen: set[int] = set()
    for key in keys:
        unit, root, spent, since, in_period = connection.execute(_FIND, key).fetchone()
        units.append(unit)
        if room is None:
            holds.append(most)
        elif root in seen:
            holds.append(0)
        else:
            seen.add(root)
            if start:
                spent = in_period if since >= start else 0
            holds.append(max(0, min(most, room - spent - _held(connection, root))))
    connection.executemany(
        "INSERT INTO hold (reservation, unit, held) VALUES (?, ?, ?)",
        [(reservation, unit, amount) for unit, amount in zip(units, holds, strict=True)],
    )
    return units, holds


def settle(connection: sqlite3.Connection, reservation: int, start: int) -> None:
    """Charge units what an answer has committed.

    Args:
        connection: In a transaction.
        reservation: Number of the answer.
        start: First day of its period.
    """
    amounts: defaultdict[int, list[int]] = defaultdict(list)
    for root, amount in connection.execute(_COMMITTED, (reservation,)):
        amounts[root].append(amount)
    connection.executemany(
        _SPEND,
        [{"unit": root, "amount": joint(a), "start": start} for root, a in amounts.items()],
    )


def merge(connection: sqlite3.Connection, scope: Scope, one: bytes, other: bytes, day: int) -> None:
    """Make two units one, under the name of the first; again, nothing happens.

    Answers at a fixed price cost each of the two the same, and their rows do not show it. So it is
    taken into the joint sum, and what the one unit pays by itself anyway is taken out again.

    Args:
        connection: In a transaction.
        scope: The corpus.
        one: Keyed hash of the unit that stays.
        other: Of the one that goes.
        day: The UTC day.
    """
    keys = [(scope.id, one), (scope.id, other)]
    connection.executemany(_ADD, keys)
    rows = [connection.execute(_FIND, key).fetchone() for key in keys]
    (_, stays, *_), (_, goes, *_) = rows
    if stays == goes:
        return
    start = scope.period.start(day)
    lifetime = replace(scope, period=Period.LIFETIME)
    fixed = lifetime.usage(connection, day, held=True).fixed
    fixed_now = scope.usage(connection, day, held=True).fixed
    spent = joint(fixed + row[2] for row in rows) - fixed
    spent_now = joint(fixed_now + (row[4] if row[3] >= start else 0) for row in rows) - fixed_now
    connection.execute(
        "UPDATE unit SET spent = ?, period_start = ?, period_spent = ? WHERE id = ?",
        (spent, start, spent_now, stays),
    )
    connection.execute(
        "UPDATE unit SET spent = 0, period_spent = 0, merged_into = :stays"
        " WHERE id = :goes OR merged_into = :goes",
        {"stays": stays, "goes": goes},
    )


def knows(connection: sqlite3.Connection, scope: Scope, digest: bytes) -> bool:
    """Whether an answer of the corpus ever named the unit."""
    return connection.execute(_FIND, (scope.id, digest)).fetchone() is not None


def forget(
    connection: sqlite3.Connection, scope: Scope, digests: Sequence[bytes], day: int
) -> None:
    """Note that units have left the corpus. Their spend stays."""
    connection.executemany(
        "INSERT INTO unit (scope, hash, forgotten_on) VALUES (?, ?, ?)"
        " ON CONFLICT (scope, hash) DO UPDATE SET forgotten_on = excluded.forgotten_on",
        [(scope.id, digest, day) for digest in digests],
    )


def _held(connection: sqlite3.Connection, root: int) -> int:
    """What answers in progress hold for a unit under all its names."""
    holds: defaultdict[int, list[int]] = defaultdict(list)
    for reservation, amount in connection.execute(_HELD, {"root": root}):
        holds[reservation].append(amount)
    return sum(map(joint, holds.values()))
