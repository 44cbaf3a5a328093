"""The standing of a budget in words: the same on the page, on the command line and in JSON."""

from __future__ import annotations

from dpicl_rag.accounting import rho_to_epsilon
from dpicl_rag.ledger.fixed_point import affordable
from dpicl_rag.ledger.status import ScopeStatus


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
