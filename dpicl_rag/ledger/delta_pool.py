"""The delta of a budget: what thresholds of its answers may cost together.

A threshold releases with a small probability what one unit alone brings (docs/privacy.md, "Answers
by agreement"). These probabilities add up, whatever any unit has: so they are public, and every
budget has a pool for them. An answer holds all that it asks for, or nothing, and then goes on
without thresholds; what it has committed is spent. Amounts are whole numbers of 10^-18.

Each function runs in a transaction that holds the write lock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import replace

from dpicl_rag.files.tables import require_whole
from dpicl_rag.ledger.budgets import ScopeStatus
from dpicl_rag.ledger.fixed_point import to_delta
from dpicl_rag.ledger.ledger_schema import whole
from dpicl_rag.ledger.scope import Scope, every_scope

_ADD = (
    "INSERT INTO delta_spend (scope, day, delta) VALUES (?, ?, ?)"
    " ON CONFLICT (scope, day) DO UPDATE SET delta = delta + excluded.delta"
)


def set_pool(connection: sqlite3.Connection, scope: Scope, delta: int) -> None:
    """Give a budget its pool, in place of the one that it had."""
    connection.execute(
        "INSERT INTO delta_pool (scope, delta) VALUES (?, ?)"
        " ON CONFLICT (scope) DO UPDATE SET delta = excluded.delta",
        (scope.id, delta),
    )


def pool(connection: sqlite3.Connection, scope: Scope) -> int | None:
    """Delta for thresholds of a period; None for no limit: there is no budget of rho either."""
    if scope.budget is None and scope.unit_budget is None:
        return None
    row = connection.execute(
        f"SELECT delta, {whole('delta_pool')} FROM delta_pool WHERE scope = ?",  # noqa: S608
        (scope.id,),
    ).fetchone()
    require_whole(row is not None and row[1])
    return int(row[0])


def spent(connection: sqlite3.Connection, scope: Scope, day: int, *, held: bool) -> int:
    """Sum over the period that holds a day.

    Args:
        connection: In a transaction.
        scope: The corpus or the caller.
        day: Days since 1970-01-01 UTC.
        held: Count answers in progress by what they may still spend, not by what they have.
    """
    start = scope.period.start(day)
    settled, sound = connection.execute(
        f"SELECT coalesce(sum(delta), 0), coalesce(min({whole('delta_spend')}), 1)"  # noqa: S608
        " FROM delta_spend WHERE scope = ? AND day >= ?",
        (scope.id, start),
    ).fetchone()
    require_whole(sound)
    column = "held" if held else "committed"
    running, sound = connection.execute(
        f"SELECT coalesce(sum(delta_hold.{column}), 0),"  # noqa: S608 - constants
        f" coalesce(min({whole('delta_hold')}), 1) FROM delta_hold"
        " JOIN reservation ON reservation.id = delta_hold.reservation"
        f" WHERE reservation.{scope.kind} = ? AND reservation.day >= ?",
        (scope.id, start),
    ).fetchone()
    require_whole(sound)
    return int(settled + running)


def hold(
    connection: sqlite3.Connection,
    reservation: int,
    scopes: Iterable[Scope | None],
    delta: int,
    day: int,
) -> int:
    """Hold a delta for an answer where every pool has so much left; else nothing.

    Returns:
        What is held: all of it, or 0.
    """
    if not delta:
        return 0
    for scope in scopes:
        if scope is None or (most := pool(connection, scope)) is None:
            continue
        if spent(connection, scope, day, held=True) + delta > most:
            return 0
    connection.execute(
        "INSERT INTO delta_hold (reservation, held) VALUES (?, ?)", (reservation, delta)
    )
    return delta


def commit(connection: sqlite3.Connection, reservation: int, committed: int) -> None:
    """Set the total of an answer to what its thresholds have cost so far."""
    connection.execute(
        "UPDATE delta_hold SET committed = ? WHERE reservation = ?", (committed, reservation)
    )


def settle(
    connection: sqlite3.Connection, reservation: int, scopes: Iterable[int | None], day: int
) -> None:
    """Turn what was committed into spend, and give the rest back."""
    row = connection.execute(
        f"SELECT committed, {whole('delta_hold')} FROM delta_hold"  # noqa: S608 - a constant
        " WHERE reservation = ?",
        (reservation,),
    ).fetchone()
    if row is None:
        return
    committed, sound = row
    require_whole(sound)
    if committed:
        paying = [(scope, day, committed) for scope in scopes if scope is not None]
        connection.executemany(_ADD, paying)
    connection.execute("DELETE FROM delta_hold WHERE reservation = ?", (reservation,))


def redate(connection: sqlite3.Connection, day: int) -> None:
    """Move spend that a wrong clock dated after a day to that day."""
    late = connection.execute(
        "SELECT scope, sum(delta) FROM delta_spend WHERE day > ? GROUP BY scope", (day,)
    ).fetchall()
    connection.execute("DELETE FROM delta_spend WHERE day > ?", (day,))
    connection.executemany(_ADD, [(scope, day, delta) for scope, delta in late])


def every_status(connection: sqlite3.Connection, day: int) -> list[ScopeStatus]:
    """The public states of all scopes with those of their pools."""
    return [_status(connection, scope, day) for scope in every_scope(connection)]


def _status(connection: sqlite3.Connection, scope: Scope, day: int) -> ScopeStatus:
    most = pool(connection, scope)
    held = spent(connection, scope, day, held=True)
    return replace(
        scope.status(connection, day),
        delta=None if most is None else to_delta(most),
        delta_spent=to_delta(spent(connection, scope, day, held=False)),
        delta_remaining=None if most is None else to_delta(max(0, most - held)),
    )
