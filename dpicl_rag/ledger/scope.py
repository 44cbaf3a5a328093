"""Scopes of the ledger: corpora and callers that have budgets, sums over their answers, payers.

An answer from the corpus "mail" may be booked under "letters". Units of "mail" that turn out to be
one are then one in "letters" as well, or a person has two budgets there. But they are not one in
"legal", whatever the owner of "mail" says: otherwise anybody who fills a corpus could empty the
budgets of another. So joins go over the `payers` of a corpus:

- the scope of the corpus's own name, and
- the scopes that have ever paid for the corpus, noted in the transaction that holds their budget.

A store that is read by a field of its records has other units under another field, each with a
budget of its own. So a payer is noted with the field, and keeps it once it has paid.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from typing import Any, Literal

from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.files.tables import require_whole
from dpicl_rag.ledger.budgets import Budgets, Period, ScopeBudgets, ScopeStatus, Usage
from dpicl_rag.ledger.fixed_point import to_delta, to_rho
from dpicl_rag.ledger.ledger_schema import whole

ScopeKind = Literal["corpus", "caller"]

_COLUMNS = (
    "id, kind, name, budget, unit_budget, period, floor, floor_day, strict, gaussian, other_day,"
    f" {whole('scope')}"
)


@dataclass(frozen=True, slots=True)
class DeltaPool:
    """Delta for thresholds of a period, in 10^-18; an answer takes one part in ``answers``."""

    delta: int
    answers: int


@dataclass(frozen=True, slots=True)
class Scope:
    """A corpus or a caller, with its budgets in nano-rho. Callers have no units."""

    id: int
    kind: ScopeKind
    name: str
    budget: int | None
    unit_budget: int | None
    period: Period
    floor: int
    floor_day: int
    strict: bool
    gaussian: bool
    other_day: int

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"

    @property
    def has_budget(self) -> bool:
        """Presence of a budget that it was ever given, be it an endless one."""
        return self.budget is not None or self.unit_budget is not None or self.floor_day > 0

    def limits(self, day: int) -> ScopeBudgets:
        """The budgets as they are on ``day``; the floor goes when the period ends."""
        current = self.floor_day >= self.period.start(day)
        return ScopeBudgets(self.budget, self.unit_budget, self.floor if current else 0)

    def room(self, usage: Usage, day: int, *, individual: bool) -> int | None:
        """The most that an answer may reserve, from public numbers alone; None: no limit."""
        limits = self.limits(day)
        if not individual or self.kind == "caller":
            return limits.remaining(usage)
        return limits.unit_remaining(usage) if self.strict else limits.unit_room(usage.fixed)

    def usage(self, connection: sqlite3.Connection, day: int, *, held: bool) -> Usage:
        """Sums over the period that holds ``day``.

        Args:
            connection: In a transaction.
            day: Days since 1970-01-01 UTC.
            held: Count answers in progress by what they may still spend, not by what they have.
        """
        start = self.period.start(day)
        settled = self.settled(connection, start)
        fixed, individual = settled.fixed, settled.individual
        column = "held" if held else "committed"
        for is_individual, amount, sound in connection.execute(
            f"SELECT individual, sum({column}), min({whole('reservation')})"  # noqa: S608
            f" FROM reservation WHERE {self.kind} = ? AND day >= ? GROUP BY individual",
            (self.id, start),
        ):
            require_whole(sound)
            if is_individual:
                individual += amount
            else:
                fixed += amount
        if self.kind == "caller":  # the bound of an answer is all a caller is charged
            return Usage(fixed + individual, 0)
        return Usage(fixed, individual)

    def settled(self, connection: sqlite3.Connection, start: int = 0) -> Usage:
        """Sums over closed answers since a day; all of them by default."""
        fixed, individual, sound = connection.execute(
            "SELECT coalesce(sum(fixed), 0), coalesce(sum(individual), 0),"  # noqa: S608
            f" coalesce(min({whole('spend')}), 1) FROM spend WHERE scope = ? AND day >= ?",
            (self.id, start),
        ).fetchone()
        require_whole(sound)
        return Usage(fixed, individual)

    def has_paid(self, connection: sqlite3.Connection) -> bool:
        """Presence of an answer that was ever paid for here, or is about to be."""
        (running,) = connection.execute(
            f"SELECT count(*) FROM reservation WHERE {self.kind} = ?",  # noqa: S608
            (self.id,),
        ).fetchone()
        return bool(running) or self.settled(connection) != Usage(0, 0)

    def pool(self, connection: sqlite3.Connection) -> DeltaPool | None:
        """Delta for thresholds of a period; None for no limit: no budget of rho either."""
        if self.budget is None and self.unit_budget is None:
            return None
        row = connection.execute(
            f"SELECT delta, answers, {whole('delta_pool')} FROM delta_pool WHERE scope = ?",  # noqa: S608
            (self.id,),
        ).fetchone()
        require_whole(row is not None and row[2])
        return DeltaPool(row[0], row[1])

    def delta_spent(self, connection: sqlite3.Connection, day: int, *, held: bool) -> int:
        """Sum of delta over the period that holds ``day``; arguments as in ``usage``."""
        start = self.period.start(day)
        settled, sound = connection.execute(
            f"SELECT coalesce(sum(delta), 0), coalesce(min({whole('delta_spend')}), 1)"  # noqa: S608
            " FROM delta_spend WHERE scope = ? AND day >= ?",
            (self.id, start),
        ).fetchone()
        require_whole(sound)
        column = "held" if held else "committed"
        running, sound = connection.execute(
            f"SELECT coalesce(sum(delta_hold.{column}), 0),"  # noqa: S608 - constants
            f" coalesce(min({whole('delta_hold')}), 1) FROM delta_hold"
            " JOIN reservation ON reservation.id = delta_hold.reservation"
            f" WHERE reservation.{self.kind} = ? AND reservation.day >= ?",
            (self.id, start),
        ).fetchone()
        require_whole(sound)
        return int(settled + running)

    def status(self, connection: sqlite3.Connection, day: int) -> ScopeStatus:
        """The public state on ``day``."""
        pool, pool_held = self.pool(connection), self.delta_spent(connection, day, held=True)
        limits = self.limits(day)
        committed = self.usage(connection, day, held=False)
        held = self.usage(connection, day, held=True)
        spent = limits.spent(committed)
        return ScopeStatus(
            kind=self.kind,
            name=self.name,
            budget=_optional(self.budget),
            unit_budget=_optional(self.unit_budget),
            spent=to_rho(spent),
            reserved=to_rho(max(0, limits.spent(held) - spent)),
            remaining=_optional(limits.remaining(held)),
            unit_remaining=_optional(limits.unit_remaining(held)),
            period=self.period,
            renews_on=self.period.renewal(day),
            questions=self._questions(connection, day),
            strict=self.strict or self.kind == "caller",
            room=_optional(self.room(held, day, individual=True)),
            delta=None if pool is None else to_delta(pool.delta),
            delta_spent=to_delta(self.delta_spent(connection, day, held=False)),
            delta_remaining=None if pool is None else to_delta(max(0, pool.delta - pool_held)),
            answers=SHARES.answers if pool is None else pool.answers,
            gaussian=self.gaussian,
        )

    def require_gaussian(self, connection: sqlite3.Connection, start: int) -> None:
        """Raise where other noise was paid for, or is about to be.

        Raises:
            ConfigurationError: It was.
        """
        (others,) = connection.execute(
            "SELECT count(*) FROM reservation"  # noqa: S608 - kind is one of two words
            f" WHERE {self.kind} = ? AND NOT gaussian AND day >= ?",
            (self.id, start),
        ).fetchone()
        if others or self.other_day >= start:
            raise ConfigurationError(
                f"{self} has paid for more than Gaussian noise, so its budget cannot be for that "
                "alone; leave --gaussian out, or book under another name"
            )

    def _questions(self, connection: sqlite3.Connection, day: int) -> int:
        start = self.period.start(day)
        (closed,) = connection.execute(
            "SELECT coalesce(sum(questions), 0) FROM spend WHERE scope = ? AND day >= ?",
            (self.id, start),
        ).fetchone()
        (running,) = connection.execute(
            f"SELECT count(*) FROM reservation"  # noqa: S608 - kind is one of two words
            f" WHERE {self.kind} = ? AND day >= ? AND commits > 0",
            (self.id, start),
        ).fetchone()
        return int(closed + running)


def require_name(kind: ScopeKind | Literal["unit"], name: object) -> str:
    """``name`` if it can name a corpus, a caller or a unit's field.

    Raises:
        ConfigurationError: It is not a non-empty string of valid Unicode.
    """
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"the name of a {kind} must be a non-empty string")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(f"the name of a {kind} must be valid Unicode") from None
    return name


def find_or_add(connection: sqlite3.Connection, kind: ScopeKind, name: str) -> Scope:
    """The scope of that name; a new one has no budget."""
    connection.execute("INSERT OR IGNORE INTO scope (kind, name) VALUES (?, ?)", (kind, name))
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM scope WHERE kind = ? AND name = ?",  # noqa: S608 - a constant
        (kind, name),
    ).fetchone()
    return _scope(row)


def every_scope(connection: sqlite3.Connection) -> list[Scope]:
    """All scopes, corpora after callers, by name."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM scope ORDER BY kind DESC, name"  # noqa: S608 - a constant
    )
    return [_scope(row) for row in rows]


def change_budget(connection: sqlite3.Connection, scope: Scope, day: int, given: Budgets) -> None:
    """Give ``scope`` new budgets. What was possible under the old ones stays counted.

    Units keep no daily record, so when the period changes, all that a unit ever spent counts as
    spent in the period that begins.
    """
    budget, unit_budget, period = given.budget, given.unit_budget, given.period
    renewed = replace(
        scope, budget=budget, unit_budget=unit_budget, period=period, strict=given.strict
    )
    # With another period all that was ever spent counts in the one that begins.
    if given.gaussian:
        scope.require_gaussian(connection, period.start(day) if period is scope.period else 0)
    if period is scope.period:
        floor = scope.limits(day).individual_bound(scope.usage(connection, day, held=True))
    else:
        floor = renewed.usage(connection, day, held=True).individual
        start = period.start(day)
        connection.execute(
            "UPDATE unit SET period_spent = spent, period_start = ? WHERE scope = ?",
            (start, scope.id),
        )
        connection.execute(
            "UPDATE part SET period_spent = spent, period_start = ?"
            " WHERE unit IN (SELECT id FROM unit WHERE scope = ?)",
            (start, scope.id),
        )
        if scope.kind == "corpus":
            connection.execute(
                "UPDATE reservation SET period_start = ? WHERE corpus = ?", (start, scope.id)
            )
    connection.execute(
        "UPDATE scope SET budget = ?, unit_budget = ?, period = ?, floor = ?, floor_day = ?,"
        " strict = ?, gaussian = ? WHERE id = ?",
        (budget, unit_budget, period.value, floor, day, given.strict, given.gaussian, scope.id),
    )


def note_payer(
    connection: sqlite3.Connection, scope: Scope, corpus: str, unit_field: str | None = None
) -> None:
    """Note that a scope pays for answers from a corpus.

    Args:
        connection: In a transaction that holds the write lock.
        scope: It pays.
        corpus: Name of the corpus.
        unit_field: The field of the unit, of a store that is read by one. Public.

    Raises:
        ConfigurationError: The scope has paid for them by another unit.
    """
    connection.execute(
        "INSERT OR IGNORE INTO payer (corpus, scope) VALUES (?, ?)", (corpus, scope.id)
    )
    if unit_field is None:
        return
    former = _units_of_payers(connection, corpus)[scope.id]
    if former not in (None, unit_field) and scope.has_paid(connection):
        raise ConfigurationError(
            f"answers from {corpus!r} were paid for by the unit {former!r}: by {unit_field!r} a "
            f"person would have a second budget. Ask by {former!r}; `dpicl-rag corpora adopt` puts "
            "it on record (`corpora release` takes back a unit by which nothing was spent). Other "
            "documents are booked under another name"
        )
    connection.execute(
        "UPDATE payer SET unit_field = ? WHERE corpus = ? AND scope = ? AND unit_field IS NOT ?",
        (unit_field, corpus, scope.id, unit_field),
    )


def units_charged(connection: sqlite3.Connection, corpus: str) -> set[str | None]:
    """The fields of the units by which answers from a corpus were paid for; see `Ledger`."""
    units = _units_of_payers(connection, corpus)
    return {
        units.get(scope.id)
        for scope in every_scope(connection)
        if (scope.id in units or (scope.kind, scope.name) == ("corpus", corpus))
        and scope.has_paid(connection)
    }


def payers(connection: sqlite3.Connection, corpus: str) -> list[Scope]:
    """The scopes that follow what becomes of the units of a corpus, its own among them."""
    note_payer(connection, find_or_add(connection, "corpus", corpus), corpus)
    known = _units_of_payers(connection, corpus)
    return [scope for scope in every_scope(connection) if scope.id in known]


def _units_of_payers(connection: sqlite3.Connection, corpus: str) -> dict[int, str | None]:
    """The scopes that pay for a corpus, each with the field of the unit."""
    units = {}
    for scope, unit_field, sound in connection.execute(
        f"SELECT scope, unit_field, {whole('payer')} FROM payer WHERE corpus = ?",  # noqa: S608
        (corpus,),
    ):
        require_whole(sound)
        units[scope] = unit_field
    return units


def _scope(row: tuple[Any, ...]) -> Scope:
    id, kind, name, budget, unit_budget, period, floor, floor_day, *rest, sound = row
    require_whole(sound)
    strict, gaussian, other_day = rest
    budgets, floors = (budget, unit_budget, Period(period)), (floor, floor_day)
    return Scope(id, kind, name, *budgets, *floors, bool(strict), bool(gaussian), other_day)


def _optional(nano: int | None) -> float | None:
    return None if nano is None else to_rho(nano)
