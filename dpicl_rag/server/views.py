"""Views for the page: public numbers of budgets, and answers released to a caller before."""

from __future__ import annotations

from typing import Any

from dpicl_rag.accounting import rho_to_epsilon
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.knowledge import Entry
from dpicl_rag.ledger import ScopeStatus
from dpicl_rag.ledger.budgets import delta_of_rho, standing
from dpicl_rag.ledger.fixed_point import affordable
from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.catalogue import Catalogue

DELTA = 1e-5
"""At which epsilon of an owner's budget is given, where nothing else is said."""


def budget(catalogue: Catalogue, name: str, caller: Caller) -> dict[str, Any]:
    """Budgets that an answer comes out of, and how many answers they pay for."""
    config, price = catalogue.config(name), catalogue.price(name)
    scopes = [
        {**scope(one, config.delta, price), **_answers(one, price)}
        for one in catalogue.budgets(name, caller)
    ]
    answers = [one["answers_left"] for one in scopes]
    return {
        "model": name,
        "epsilon": config.epsilon,
        "delta": config.delta,
        "answers_left": min((left for left in answers if left is not None), default=None),
        "calls": catalogue.calls(name),
        "scopes": scopes,
    }


def scope(one: ScopeStatus, delta: float, price: float) -> dict[str, Any]:
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
        "budget_epsilon": _epsilon(one.budget, rest),
        "spent_rho": one.spent,
        "spent_epsilon": _epsilon(one.spent, rest),
        "remaining_rho": one.unit_remaining,
        "remaining_epsilon": _epsilon(one.unit_remaining, rest),
        "delta": delta,
        "period": one.period.value,
        "renews_on": None if one.renews_on is None else one.renews_on.isoformat(),
        "strict": one.strict,
        "standing": standing(one, price, delta),
    }


def owned(catalogue: Catalogue, one: ScopeStatus, delta: float = DELTA) -> dict[str, Any]:
    """A budget as its owner sees it: a caller's pays for answers of the most expensive corpus."""
    names = [one.name] if one.kind == "corpus" else list(catalogue.corpora)
    price = max(
        map(catalogue.price, names), default=PrivacyConfig.create(delta=delta).rho(booked=True)
    )
    return scope(one, delta, price)


def remembered(entry: Entry) -> dict[str, Any]:
    """An answer that was released before."""
    return {
        "model": entry.corpus,
        "question": entry.question,
        "answer": entry.answer,
        "epsilon": entry.epsilon,
        "delta": entry.delta,
        "time": entry.time.isoformat(),
        "whole": entry.whole,
        "edited": entry.edited,
        "counted": bool(entry.numbers),
    }


def _answers(one: ScopeStatus, price: float) -> dict[str, Any]:
    """Answers that a budget pays for in a period and from now on, by the public bound."""
    budget = one.budget if one.unit_budget is None else one.unit_budget
    left = affordable(one.unit_remaining, price)
    return {"answers": affordable(budget, price), "answers_left": left}


def _epsilon(rho: float | None, delta: float) -> float | None:
    return None if rho is None else rho_to_epsilon(rho, delta)
