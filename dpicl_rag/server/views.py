"""Views for the page: public numbers of budgets and plans, and answers released before."""

from __future__ import annotations

from typing import Any

from dpicl_rag.accounting import rho_to_epsilon
from dpicl_rag.answering.free_answers import is_small_talk
from dpicl_rag.answering.plan import Plan
from dpicl_rag.knowledge import Entry
from dpicl_rag.ledger import ScopeStatus
from dpicl_rag.ledger.budgets import delta_of_rho, standing
from dpicl_rag.ledger.fixed_point import affordable
from dpicl_rag.requests import Request
from dpicl_rag.results import within


def scope_view(one: ScopeStatus, delta: float, price: float) -> dict[str, Any]:
    """One budget. All of it is public; see ``ScopeStatus``.

    Args:
        one: The budget.
        delta: At which epsilon is given.
        price: Zcdp rho of the answers that it is to pay for.
    """
    rest = delta_of_rho(one, delta)
    return {
        "kind": one.kind,
        "name": one.name,
        "budget_rho": one.budget,
        "budget_epsilon": _epsilon(one, one.budget, rest),
        "spent_rho": one.spent,
        "spent_epsilon": _epsilon(one, one.spent, rest),
        "remaining_rho": one.unit_remaining,
        "remaining_epsilon": _epsilon(one, one.unit_remaining, rest),
        "delta": delta,
        "period": one.period.value,
        "renews_on": None if one.renews_on is None else one.renews_on.isoformat(),
        "strict": one.strict,
        "gaussian": one.gaussian,
        "threshold_answers": one.answers,
        "standing": standing(one, price, delta),
    }


def plan_view(request: Request, plan: Plan[Any]) -> dict[str, Any]:
    """What is done with a request, and what it costs at most. Small talk is free."""
    kind, drawn = request.kind, plan.mechanism
    free = kind == "answer" and is_small_talk(request.asked())
    cost = {name: 0.0 if free else getattr(plan, name) for name in ("epsilon", "delta", "rho")}
    return {
        "kind": kind,
        "labels": request.labels,
        **cost,
        "steps": plan.steps,
        "units_to_agree": plan.units_to_agree,
        "within": within(drawn.noise) if kind in ("count", "tally") else None,
        "smallest": drawn.smallest() if kind == "survey" else None,
        "notes": [] if free else plan.notes(),
    }


def entry_view(entry: Entry) -> dict[str, Any]:
    """An answer that was released before."""
    names = ("question", "answer", "epsilon", "delta", "whole", "edited")
    found = {name: getattr(entry, name) for name in names}
    time, counted = entry.time.isoformat(), bool(entry.numbers)
    return {"model": entry.corpus, **found, "time": time, "counted": counted}


def answers_of(one: ScopeStatus, price: float) -> dict[str, Any]:
    """Answers that a budget pays for in a period and from now on, by the public bound."""
    budget = one.budget if one.unit_budget is None else one.unit_budget
    left = affordable(one.unit_remaining, price)
    return {"answers": affordable(budget, price), "answers_left": left}


def _epsilon(one: ScopeStatus, rho: float | None, delta: float) -> float | None:
    return None if rho is None else rho_to_epsilon(rho, delta, gaussian=one.gaussian)
