"""The delta of a budget: what thresholds of its answers may cost together.

A threshold releases with a small probability what one unit alone brings (docs/privacy.md, "Answers
by agreement"). These probabilities add up, whatever any unit has: so they are public, and every
budget has a pool for them. An answer holds all that it asks for, or nothing, and then goes on
without thresholds; what it has committed is spent. Amounts are whole numbers of 10^-18.

An answer asks for one part in so many of what is left, 200 by default, so a pool does not end. The
part decides how high a threshold is, and so how many units must agree: at epsilon 2 a fifth of it
needs 20 for 19. What an answer does not use goes back. How large the part is is the owner's
setting, and public, as what is left is: both follow from questions and from what was released.

Each function runs in a transaction that holds the write lock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from dpicl_rag.files.tables import require_whole
from dpicl_rag.ledger.ledger_schema import whole
from dpicl_rag.ledger.scope import Scope

_ADD = (
    "INSERT INTO delta_spend (scope, day, delta) VALUES (?, ?, ?)"
    " ON CONFLICT (scope, day) DO UPDATE SET delta = delta + excluded.delta"
)


def set_pool(connection: sqlite3.Connection, scope: Scope, delta: int, answers: int) -> None:
    """Give a budget its pool, in place of the one that it had."""
    connection.execute(
        "INSERT INTO delta_pool (scope, delta, answers) VALUES (?, ?, ?) ON CONFLICT (scope)"
        " DO UPDATE SET delta = excluded.delta, answers = excluded.answers",
        (scope.id, delta, answers),
    )


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
        if scope is None or (pool := scope.pool(connection)) is None:
            continue
        if scope.delta_spent(connection, day, held=True) + delta > pool.delta:
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
