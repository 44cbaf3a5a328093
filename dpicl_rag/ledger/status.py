"""The public state of a budget."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Literal

from dpicl_rag.ledger.period import Period


@dataclass(frozen=True, slots=True)
class ScopeStatus:
    """The public state of one scope in its current period. All amounts are zCDP rho.

    Attributes:
        kind: ``corpus`` or ``caller``.
        name: Name of the corpus or the caller.
        budget: Rho per period, or None where the scope is not limited.
        unit_budget: Rho per unit and period under individual accounting, or None if not set apart.
        spent: The bound that holds for every unit: no unit has lost more to released tokens. Under
            individual accounting it stops at the budget of a unit; what a unit has really lost is
            private and is not here.
        reserved: By how much answers in progress may still raise ``spent``.
        remaining: What a fixed answer may still reserve; None where the scope is not limited.
            Individual answers go on after it has reached 0, until ``spent`` by fixed answers alone
            fills the budget.
        unit_remaining: What every unit has left for individual answers, at the least: that of a
            unit which every answer so far has cost its whole bound. None without a limit.
        period: How often the budget renews. A renewing budget protects per period.
        renews_on: First UTC day of the next period; None for a lifetime.
        questions: Answers in this period that released at least one token.
        strict: Whether every answer is refused once ``spent`` has reached the budget. Callers have
            no units, so theirs always are.
        room: The most that an individual answer may reserve, though ``spent`` may have reached the
            budget: it comes from units that have spent less. None without a limit.
        delta: What thresholds of a period's answers may cost together; None without a limit.
        delta_spent: What they have cost.
        delta_remaining: What they may still cost; None without a limit.
    """

    kind: Literal["corpus", "caller"]
    name: str
    budget: float | None
    unit_budget: float | None
    spent: float
    reserved: float
    remaining: float | None
    unit_remaining: float | None
    period: Period
    renews_on: date | None
    questions: int
    strict: bool
    room: float | None
    delta: float | None = None
    delta_spent: float = 0.0
    delta_remaining: float | None = None


def least_remaining(
    every: Iterable[ScopeStatus], corpus: str, caller: str | None = None
) -> float | None:
    """Rho left to a corpus or a caller, whichever is less; None without a limit.

    Args:
        every: See `Ledger.status`.
        corpus: Name of the corpus.
        caller: Who asks.
    """
    mine = {("corpus", corpus), ("caller", caller)}
    left = [status.remaining for status in every if (status.kind, status.name) in mine]
    return min((rho for rho in left if rho is not None), default=None)


def least_unit_remaining(every: Iterable[ScopeStatus], corpus: str) -> float | None:
    """Rho that every unit of a corpus has left at the least; None without a limit.

    Args:
        every: See `Ledger.status`.
        corpus: Name of the corpus.
    """
    mine = [one.unit_remaining for one in every if (one.kind, one.name) == ("corpus", corpus)]
    return mine[0] if mine else None
