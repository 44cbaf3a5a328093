"""Budgets: callers read their own, owners set them."""

import math
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from dpicl_rag.server import views
from dpicl_rag.server.catalogue import PUBLIC
from dpicl_rag.server.failures import Refusal
from dpicl_rag.server.limits import MOST_EPSILON
from dpicl_rag.server.services import Asking, Owning, Using

router = APIRouter()


class Budget(BaseModel):
    """A budget to set.

    Attributes:
        kind: Of a corpus or of a caller.
        name: Which.
        epsilon: What all answers of a period may reveal together; None for no limit.
        delta: At which epsilon is given.
        period: After which it renews.
        strict: Refuse every answer once the public bound has reached it.
    """

    kind: Literal["corpus", "caller"]
    name: str = Field(min_length=1, max_length=512)
    epsilon: float | None = Field(ge=0, le=MOST_EPSILON, allow_inf_nan=False)
    delta: float = Field(views.DELTA, gt=0, lt=1)
    period: Literal["lifetime", "day", "month", "year"] = "lifetime"
    strict: bool = False


@router.get("/v1/budget")
def budget(services: Using, caller: Asking) -> dict[str, Any]:
    """Budgets left to the caller, by corpus. Public numbers."""
    catalogue = services.catalogue
    return {"data": [views.budget(catalogue, name, caller) for name in catalogue.open_to(caller)]}


@router.post("/v1/owner/budgets")
def set_budget(body: Budget, services: Using, owner: Owning) -> dict[str, Any]:
    """Set all budgets of a corpus or a caller, in place of those it had."""
    catalogue, keys = services.catalogue, services.keys
    if body.kind == "corpus":
        if body.name == PUBLIC:
            raise Refusal(400, "the public model costs nothing and has no budget", param="name")
        catalogue.served(body.name, owner)
    elif owner.corpora is not None:
        raise Refusal(403, "budgets of callers are set by owners of all corpora")
    elif keys is None or body.name not in {one.name for one in keys.callers()}:
        raise Refusal(404, "nobody of that name has a key", param="name")
    catalogue.ledger.set_budget(
        corpus=body.name if body.kind == "corpus" else None,
        caller=body.name if body.kind == "caller" else None,
        rho=math.inf if body.epsilon is None else None,
        epsilon=body.epsilon,
        delta=body.delta,
        period=body.period,
        strict=body.strict,
    )
    every = {(one.kind, one.name): one for one in catalogue.ledger.status()}
    return views.owned(catalogue, every[body.kind, body.name], body.delta)
