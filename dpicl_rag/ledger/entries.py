"""Entries of the ledger: budgets that are set, reservations granted, committed to and settled.

Each function runs in a transaction that holds the write lock, so what it reads stays true until
it has written. A reservation names the process that holds it, its `Owner`: what a dead one held is
given back.
"""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpicl_rag.errors import ConfigurationError, LedgerError
from dpicl_rag.files.tables import require_whole
from dpicl_rag.ledger import delta_pool, ledger_units
from dpicl_rag.ledger.budgets import Budgets, Period, day_of, instant, refused
from dpicl_rag.ledger.ledger_schema import whole
from dpicl_rag.ledger.scope import (
    ScopeKind,
    change_budget,
    every_scope,
    find_or_add,
    note_payer,
)

_ADD_SPEND = (
    "INSERT INTO spend (scope, day, fixed, individual, questions) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (scope, day) DO UPDATE SET fixed = fixed + excluded.fixed,"
    " individual = individual + excluded.individual, questions = questions + excluded.questions"
)

_CLOCK_SLACK = 3600
"""Seconds by which the clock may go back unnoticed, as time servers make it do."""


@dataclass(frozen=True, slots=True)
class SpendRequest:
    """Amounts that an answer asks for, in nano-rho.

    Attributes:
        id: A random number that names the reservation.
        session: The open ledger that asks.
        corpus: Name of the corpus.
        caller: Name of the caller, if there is one.
        source: Name of the corpus that the documents are from, if they are from one.
        unit_field: Field of their unit, of a store that is read by one.
        rho: The most the answer may spend.
        at_least: The least that is of use; None if nothing less than ``rho`` will do.
        delta: What its thresholds may cost, in 10^-18.
        gaussian: Whether all that it releases has Gaussian noise.
        digests: Keyed hashes of the units under individual accounting, else None.
    """

    id: int
    session: int
    corpus: str
    caller: str | None
    source: str | None
    unit_field: str | None
    rho: int
    at_least: int | None
    delta: int
    gaussian: bool
    digests: Sequence[bytes] | None


@dataclass(frozen=True, slots=True)
class Grant:
    """Amounts that an answer got, in nano-rho: ``held`` is public, holds for units are private.

    ``delta`` is all that was asked for, or 0; ``has_budget`` whether the corpus was ever given a
    budget. Both are public, too.
    """

    held: int
    delta: int
    units: tuple[int, ...]
    unit_holds: tuple[int, ...]
    has_budget: bool = True

    def __repr__(self) -> str:
        return f"Grant(held={self.held}, delta={self.delta})"


def set_budget(
    connection: sqlite3.Connection,
    kind: ScopeKind,
    name: str,
    given: Budgets,
    now: int,
    *,
    only_if_none: bool,
) -> None:
    """Give a corpus or a caller its budgets. What a wrong clock dated later is dated anew."""
    today = day_of(now)
    if now < observe_clock(connection, now):
        _redate(connection, now, today)
    scope = find_or_add(connection, kind, name)
    if only_if_none and scope.has_budget:
        return
    change_budget(connection, scope, today, given)
    delta_pool.set_pool(connection, scope, given.thresholds, given.answers)


def grant(
    connection: sqlite3.Connection, request: SpendRequest, now: float, stale_after: float
) -> Grant:
    """Hold what ``request`` may spend, after what dead processes held was given back.

    Raises:
        BudgetExceededError: The corpus or the caller cannot pay ``at_least``. Units never cause it:
            that one of them is exhausted is private.
        ConfigurationError: A budget is for Gaussian noise alone, and the answer has other noise; or
            answers were paid for by another unit.
        LedgerError: The clock went back under a renewing budget, by more than time servers make it.
    """
    latest = observe_clock(connection, int(now))
    settle_stale(connection, latest, stale_after)
    corpus = find_or_add(connection, "corpus", request.corpus)
    if request.source is not None or request.unit_field is not None:
        note_payer(connection, corpus, request.source or request.corpus, request.unit_field)
    caller = None
    if request.caller is not None:
        caller = find_or_add(connection, "caller", request.caller)
    scopes = corpus, caller
    if latest - now > _CLOCK_SLACK and any(
        scope is not None and scope.period is not Period.LIFETIME for scope in scopes
    ):
        raise LedgerError(
            f"the clock is behind the last entry of the ledger ({instant(latest)}); set the clock "
            "right, then set the budget again"
        )
    day = day_of(latest)
    individual = request.digests is not None
    held = request.rho
    if individual and corpus.unit_budget is not None:
        held = min(held, corpus.unit_budget)
    least = held if request.at_least is None else request.at_least
    for scope in scopes:
        if scope is None:
            continue
        if scope.gaussian and not request.gaussian:
            raise ConfigurationError(
                f"the budget of {scope} is for Gaussian noise alone: answers by agreement, counts "
                "and surveys; ask for one, or set it anew without --gaussian"
            )
        usage = scope.usage(connection, day, held=True)
        room = scope.room(usage, day, individual=individual)
        if room is None:
            continue
        if room < least:
            renewal = scope.period.renewal(day)
            raise refused(request.rho, room, str(scope), renewal, gaussian=scope.gaussian)
        held = min(held, room)
    owner = current_owner()
    connection.execute(
        "INSERT INTO reservation (id, corpus, caller, individual, gaussian, day, period_start,"
        " held, session, machine, pid, started, touched)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            request.id,
            corpus.id,
            None if caller is None else caller.id,
            individual,
            request.gaussian,
            day,
            corpus.period.start(day),
            held,
            request.session,
            owner.machine,
            owner.pid,
            owner.started,
            latest,
        ),
    )
    delta = delta_pool.hold(connection, request.id, scopes, request.delta, day)
    rows: list[int] = []
    holds: list[int] = []
    if request.digests is not None:
        rows, holds = ledger_units.hold(
            connection, corpus, request.digests, reservation=request.id, day=day, most=held
        )
    return Grant(held, delta, tuple(rows), tuple(holds), corpus.has_budget)


def commit(
    connection: sqlite3.Connection,
    reservation: int,
    *,
    committed: int,
    unit_totals: Iterable[tuple[int, int]],
    delta: int | None = None,
    now: int,
) -> bool:
    """Set the totals of a reservation to what its tokens have cost so far.

    Args:
        connection: In a transaction.
        reservation: Its number.
        committed: Public total, nano-rho.
        unit_totals: Number and total of each unit whose total has changed.
        delta: Public total of its thresholds, in 10^-18; None where it has not changed.
        now: Unix time in seconds; shows that the owner is alive.

    Returns:
        False if the reservation is gone: it was settled as stale and must not release anything.
    """
    changed = connection.execute(
        "UPDATE reservation SET committed = ?, commits = commits + 1, touched = ? WHERE id = ?",
        (committed, now, reservation),
    ).rowcount
    if changed != 1:
        return False
    connection.executemany(
        "UPDATE hold SET committed = ? WHERE reservation = ? AND unit = ?",
        [(amount, reservation, unit) for unit, amount in unit_totals],
    )
    if delta is not None:
        delta_pool.commit(connection, reservation, delta)
    return True


def settle(connection: sqlite3.Connection, reservation: int) -> bool:
    """Turn what was committed into spend and give the rest back; False if it is gone already."""
    row = connection.execute(
        "SELECT corpus, caller, individual, gaussian, day, period_start, committed, commits"
        " FROM reservation WHERE id = ?",
        (reservation,),
    ).fetchone()
    if row is None:
        return False
    corpus, caller, individual, gaussian, day, start, committed, commits = row
    if commits:
        amounts = (0, committed) if individual else (committed, 0)
        connection.executemany(
            _ADD_SPEND,
            [(scope, day, *amounts, 1) for scope in (corpus, caller) if scope is not None],
        )
        ledger_units.settle(connection, reservation, start)
        if not gaussian:
            connection.execute(
                "UPDATE scope SET other_day = max(other_day, ?) WHERE id IN (?, ?)",
                (day, corpus, caller),
            )
    delta_pool.settle(connection, reservation, (corpus, caller), day)
    connection.execute("DELETE FROM hold WHERE reservation = ?", (reservation,))
    connection.execute("DELETE FROM reservation WHERE id = ?", (reservation,))
    return True


def settle_session(connection: sqlite3.Connection, session: int, pid: int) -> None:
    """Settle what one open ledger still holds. A forked child shares the session, not the pid."""
    for (reservation,) in connection.execute(
        "SELECT id FROM reservation WHERE session = ? AND pid = ?", (session, pid)
    ).fetchall():
        settle(connection, reservation)


def settle_stale(connection: sqlite3.Connection, now: int, stale_after: float) -> int:
    """Settle reservations whose process is gone; returns how many."""
    stale = find_stale(connection, now, stale_after)
    for reservation in stale:
        settle(connection, reservation)
    return len(stale)


def find_stale(connection: sqlite3.Connection, now: int, stale_after: float) -> list[int]:
    """Numbers of the reservations whose process is gone; needs no write lock.

    Where the process cannot be looked up (another container, another boot), it counts as gone
    after ``stale_after`` seconds without a commit.
    """
    stale = []
    for reservation, machine, pid, started, touched in connection.execute(
        "SELECT id, machine, pid, started, touched FROM reservation"
    ):
        alive = Owner(machine, pid, started).alive()
        # A time in the future was written under a clock that has since been set back.
        if alive is False or (alive is None and abs(now - touched) > stale_after):
            stale.append(reservation)
    return stale


def observe_clock(connection: sqlite3.Connection, now: int) -> int:
    """`latest_time`, which the ledger has then seen."""
    latest = latest_time(connection, now)
    connection.execute("UPDATE ledger SET latest = ? WHERE latest != ?", (latest, latest))
    return latest


def latest_time(connection: sqlite3.Connection, now: int) -> int:
    """The latest time the ledger has seen, ``now`` included; needs no write lock."""
    latest, sound = connection.execute(
        f"SELECT latest, {whole('ledger')} FROM ledger"  # noqa: S608 - a constant
    ).fetchone()
    require_whole(sound)
    return int(max(now, latest))


def _redate(connection: sqlite3.Connection, now: int, day: int) -> None:
    """Move entries that a wrong clock dated after ``day`` to ``day``, so the present pays them."""
    late = connection.execute(
        "SELECT scope, sum(fixed), sum(individual), sum(questions) FROM spend"
        " WHERE day > ? GROUP BY scope",
        (day,),
    ).fetchall()
    connection.execute("DELETE FROM spend WHERE day > ?", (day,))
    connection.executemany(_ADD_SPEND, [(scope, day, *sums) for scope, *sums in late])
    connection.execute("UPDATE reservation SET day = min(day, ?)", (day,))
    delta_pool.redate(connection, day)
    for scope in every_scope(connection):
        start = (scope.period.start(day), scope.id)
        connection.execute(
            "UPDATE unit SET period_start = min(period_start, ?) WHERE scope = ?", start
        )
        connection.execute(
            "UPDATE part SET period_start = min(period_start, ?)"
            " WHERE unit IN (SELECT id FROM unit WHERE scope = ?)",
            start,
        )
        connection.execute(
            "UPDATE reservation SET period_start = min(period_start, ?) WHERE corpus = ?", start
        )
    connection.execute(
        "UPDATE scope SET floor_day = min(floor_day, ?), other_day = min(other_day, ?)", (day, day)
    )
    connection.execute("UPDATE ledger SET latest = ?", (now,))


_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, named so that a reused process number is not mistaken for it.

    Attributes:
        machine: On Linux the boot and the pid namespace, elsewhere the host name.
        pid: Process number within that.
        started: Start time in clock ticks since boot; 0 where the system does not tell.
    """

    machine: str
    pid: int
    started: int

    def alive(self) -> bool | None:
        """Life of the process; None where it cannot be known from here.

        A wrong answer cannot overspend: a commit to a settled reservation is refused.
        """
        if self.machine != _machine():
            return None
        if self.pid == os.getpid() and self.started == _start_time(self.pid):
            return True
        if self.started:
            return self.started == _start_time(self.pid)
        if os.name != "posix":
            return None  # os.kill(pid, 0) would end the process on Windows
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except (OSError, OverflowError):
            return None
        return None  # the number is in use, perhaps by another process


def current_owner() -> Owner:
    """The process that calls."""
    pid = os.getpid()
    return Owner(machine=_machine(), pid=pid, started=_start_time(pid))


def _machine() -> str:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        # Containers share the boot but count processes for themselves.
        return f"{boot} {os.readlink(_PROC / 'self/ns/pid')}"
    except OSError:
        return platform.node()


def _start_time(pid: int) -> int:
    """Field 22 of /proc/<pid>/stat, or 0 if there is no such process or it is a zombie."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return 0
    # The second field is the command in parentheses and may hold anything.
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in "ZXx":
        return 0
    return int(fields[19])
