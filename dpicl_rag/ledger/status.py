"""The public state of a budget: in numbers, and in words for the page and the command line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Literal

from dpicl_rag.accounting import rho_to_epsilon
from dpicl_rag.ledger.budgets import Budgets, Period
from dpicl_rag.ledger.fixed_point import affordable, to_rho


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


def is_budget(status: ScopeStatus, given: Budgets) -> bool:
    """Whether a scope has these budgets; how much of delta its thresholds may take is left out."""
    rho = tuple(None if one is None else to_rho(one) for one in (given.budget, given.unit_budget))
    has = status.budget, status.unit_budget, status.period, status.strict
    return has == (*rho, given.period, given.strict)


def standing(status: ScopeStatus, price: float, delta: float) -> str:
    """The spent part of a budget, and the fate of the next answer. Public.

    Args:
        status: The budget.
        price: Of one answer, zCDP rho.
        delta: At which epsilon is given.
    """
    delta = delta_of_rho(status, delta)
    spent, answer = (_epsilon(rho, delta) for rho in (status.spent, price))
    budgets = [rho for rho in (status.unit_budget, status.budget) if rho is not None]
    if not budgets:
        return f"{spent} is spent, and there is no limit."
    limit = _epsilon(max(budgets), delta)
    if status.unit_budget is not None:
        limit += f" (a unit alone {_epsilon(status.unit_budget, delta)})"
    if status.spent > max(budgets):
        head = f"{spent} was spent, more than the budget of {limit}, which was lowered since."
    else:
        head = f"{spent} of {limit} is spent."
    until = "" if status.renews_on is None else f" until it renews on {status.renews_on}"
    left = affordable(status.unit_remaining, price)
    if left:
        answers = "answer" if left == 1 else "answers"
        return f"{head} What is left pays for {left:,} more {answers} of {answer}{until}."
    asked = price if status.unit_budget is None else min(price, status.unit_budget)
    if status.room is not None and status.room < asked:
        return f"{head} An answer of {answer} is refused{until or ' until the budget is raised'}."
    return (
        f"{head} "
        "That bound holds for every unit. Answers still come, from units that have spent less; a "
        "strict budget refuses them."
    )


def delta_of_rho(status: ScopeStatus, delta: float) -> float:
    """The part of a delta at which a budget's rho is told as epsilon: the rest is its pool's."""
    pool = status.delta or 0.0
    return delta - pool if pool < delta else delta


def _epsilon(rho: float, delta: float) -> str:
    return f"epsilon {rho_to_epsilon(rho, delta):.3g}"
