"""What the page shows of a budget."""

from __future__ import annotations

from typing import Any

from dpicl_rag.server.house import House
from dpicl_rag.server.keys import Caller


def budget(house: House, name: str, caller: Caller) -> dict[str, Any]:
    """Budgets that an answer comes out of, and how many answers they pay for."""
    scopes = [
        {
            "kind": one.kind,
            "name": one.name,
            "budget_rho": one.budget,
            "spent_rho": one.spent,
            "remaining_rho": one.unit_remaining,
            "renews_on": None if one.renews_on is None else one.renews_on.isoformat(),
        }
        for one in house.budgets(name, caller)
    ]
    return {"model": name, "answers_left": house.answers_left(name, caller), "scopes": scopes}
