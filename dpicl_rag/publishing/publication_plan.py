"""Plans of publications: one budget, shared among requests, each with a plan of its own."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from dpicl_rag import _validate
from dpicl_rag.accounting import epsilon_to_rho, rho_to_epsilon
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.accounting.conversion import NANO
from dpicl_rag.accounting.prices import Price, PricedPlan
from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.steps import STEPS
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.knowledge.bundle import ABOUT
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.requests import Kind, Request
from dpicl_rag.retrieval.retrievers import Documents

KINDS: Sequence[Kind] = ("answer", "count", "tally", "column", "label-head", "survey", "summary")
"""Kinds of requests that can be published."""

_ROUNDING = 1 + Fraction(1, 10**12)
"""Of floats, as a ledger allows it."""


@dataclass(frozen=True, slots=True)
class PublicationPlan(PricedPlan):
    """Public numbers of a publication: what each request may cost, and that they keep the budget.

    Attributes:
        requests: What is asked, in the order of paying.
        epsilons: Of each request.
        epsilon: All of them together are (epsilon, delta)-DP for every unit.
        delta: See ``epsilon``.
        rho: zCDP that all of them cost any unit at most.
        parts: A price for each request: the most that its own plan costs.
        weights: Of the shares.
        budget_left: What the ledger has left for the corpus and the caller, zCDP rho; None without
            a limit.
    """

    requests: tuple[Request, ...]
    epsilons: tuple[float, ...]
    epsilon: float
    delta: float
    rho: float
    parts: tuple[Price, ...]
    weights: tuple[float, ...]
    budget_left: float | None = None

    @property
    def digest(self) -> str:
        """A digest that distinguishes publications."""
        asked = [request.model_dump(mode="json") for request in self.requests]
        text = json.dumps([asked, self.weights, self.epsilon, self.delta], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def numbers(self) -> dict[str, Any]:
        """Numbers beside the price."""
        return {"items": len(self.parts), "budget_left": self.budget_left}

    @property
    def rho_of_budget(self) -> float:
        """The rho of the budget, which the parts share."""
        return rho_of_budget(self.epsilon, self.delta)

    @staticmethod
    def of(
        llm: PrivateContextLLM,
        documents: Documents,
        requests: Sequence[Request],
        *,
        epsilon: float,
        delta: float,
        weights: Sequence[float] | None = None,
    ) -> PublicationPlan:
        """The plan of a publication. Nothing is searched or paid.

        Args:
            llm: Answers, and books in a ledger.
            documents: As in ``PrivateContextLLM.answer``.
            requests: Answers, counts, tallies, surveys and summaries, with their kinds.
            epsilon: Of all of them together.
            delta: See ``epsilon``.
            weights: Of the share of each; equal ones by default. Public.

        Raises:
            ConfigurationError: There is no request, or one of another kind, or the same twice; or
                thresholds cost more delta than the budget has, by the ledger's settings.
        """
        shares = _shares(rho_of_budget(epsilon, delta), requests, weights)
        epsilons, parts, left = [], [], None
        for request, share in zip(requests, shares, strict=True):
            own, plan = _within(llm, documents, request, share, delta)
            epsilons.append(own)
            what = request.question or ABOUT
            parts.append(Price(request.kind or "answer", plan.rho, what, plan.threshold_delta))
            left = plan.budget_left
        planned = PublicationPlan(
            requests=tuple(requests),
            epsilons=tuple(epsilons),
            epsilon=epsilon,
            delta=delta,
            rho=math.fsum(part.rho or 0.0 for part in parts),
            parts=tuple(parts),
            weights=tuple(weights or [1.0] * len(requests)),
            budget_left=left,
        )
        _require_within(planned)
        return planned


def rho_of_budget(epsilon: float, delta: float) -> float:
    """Rho of zCDP of a publication: with its thresholds it is (epsilon, delta)-DP."""
    return epsilon_to_rho(epsilon, SHARES.beside_pool(delta))


def _shares(
    rho: float, requests: Sequence[Request], weights: Sequence[float] | None
) -> list[float]:
    """The rho of each request, whole nano-rho, of a sum that is at most ``rho``."""
    if not requests:
        raise ConfigurationError("nothing is asked for; name what is to be published")
    if wrong := {request.kind or "answer" for request in requests} - set(KINDS):
        raise ConfigurationError(f"{', '.join(sorted(wrong))} cannot be published")
    if any(request in requests[:at] for at, request in enumerate(requests)):
        raise ConfigurationError("a question stands there twice, and would be paid for twice")
    parts = [1.0] * len(requests) if weights is None else list(weights)
    if len(parts) != len(requests):
        raise ConfigurationError("give one weight for each request")
    exact = [Fraction(_validate.positive("a weight", part)) for part in parts]
    whole = Fraction(rho) * NANO / sum(exact)
    shares = [math.floor(whole * part) / NANO for part in exact]
    if not all(shares):
        raise ConfigurationError("so many items share too small a budget; raise epsilon")
    return shares


def _within(
    llm: PrivateContextLLM, documents: Documents, request: Request, rho: float, delta: float
) -> tuple[float, Plan[Any]]:
    """The epsilon of a request whose plan costs no more than its share, and that plan."""
    # An answer becomes rho beside its thresholds, a count at all of delta; where a budget is for
    # Gaussian noise alone, an epsilon has more rho. A question in steps pays for each.
    ways = (SHARES.beside_pool(delta), False), (delta, False), (delta, True)
    for steps, (rest, gaussian) in product(range(1, STEPS + 1), ways):
        epsilon = rho_to_epsilon(rho / steps, rest, gaussian=gaussian)
        plan = asking(llm, epsilon, delta).plan(documents, request)
        if plan.rho <= rho:
            return epsilon, plan
    raise ConfigurationError(
        f"a {request.kind} costs more than its share of the budget by these settings; leave them "
        "out, or ask for fewer items"
    )


def asking(llm: PrivateContextLLM, epsilon: float, delta: float) -> PrivateContextLLM:
    """The same at an epsilon; what documents do not support is not said."""
    return llm.with_settings(epsilon=epsilon, delta=delta).for_strings()


def _require_within(plan: PublicationPlan) -> None:
    """Check that all requests together keep the budget, in exact sums."""
    rho = sum(Fraction(part.rho or 0.0) for part in plan.parts)
    if rho > Fraction(plan.rho_of_budget) * _ROUNDING:
        raise ConfigurationError("the items cost more than the budget; give it fewer")
    thresholds = sum(Fraction(part.delta) for part in plan.parts)
    if thresholds > Fraction(SHARES.threshold_pool * plan.delta) * _ROUNDING:
        raise ConfigurationError(
            "thresholds of so many answers cost more delta than the bundle has for them; ask "
            "fewer questions, or let more answers share the ledger's (`dpicl-rag budget set "
            "--answers`)"
        )
