"""Private PoEtry: a product of clipped experts and one draw of the exponential mechanism.

Romijnders et al. 2026, "Private PoEtry: Private In-Context Learning via Product of Experts",
arXiv 2602.05012.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from dpicl_rag import _validate
from dpicl_rag.accounting import DIRECT, Adjacency, Budget, bounded_range_strength
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.mechanisms.utilities import LogProb
from dpicl_rag.methods.base import (
    Calibrated,
    ContentFree,
    ExpertMethod,
    Layout,
    Parameters,
    Views,
    ZeroShot,
    the_view,
)

Prior = Literal["none", "own", "public", "zero-shot"]


@dataclass(frozen=True)
class ProductOfExperts(ExpertMethod):
    """``lambda * sum_i clip(log p_i(y), -C, 0)`` as scores of the exponential mechanism.

    Romijnders et al. 2026 (Private PoEtry).

    **Adjacency and charge.** A unit added or removed makes one query (lambda * C)-bounded-range,
    a changed expert (lambda * 2C): in a group, or under replacement. ``factor`` of the stability
    says which. One query is purely epsilon-DP with ``lambda = epsilon / (C * factor)``, and
    epsilon^2 / 8 of zCDP. The paper charges ``lambda * C`` for a changed example, which is half of
    what it costs; see ``published``.

    **Prior correction** takes the labels' prior out of every expert before it is clipped: its
    log-probabilities less those of a prior, normalised again. The prior may be the expert's own
    (the same prompt with a content-free query), that of the bare model with a content-free query,
    or the bare model's answer to the query itself; in that last case it comes back once, as
    public base measure: with ``lambda = 1`` and no clipping that is the posterior of units that
    are independent given the label, ``p_0^(1 - n) prod_i p_i``. A prior is a function of the same
    unit and of public things, so the charge is the same.

    Attributes:
        clip: C, above 0.
        prior: What is taken out of each expert.
        name: Its name in the registry.
    """

    clip: float = 4.0
    prior: Prior = "none"
    name: str = "poe"

    private = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.positive("clip", self.clip)
        if self.prior not in ("none", "own", "public", "zero-shot"):
            raise ConfigurationError("prior must be none, own, public or zero-shot")

    @property
    def parameters(self) -> Parameters:
        """Clip bound, prior, group size and sampling rate."""
        return {"clip": self.clip, "prior": self.prior, **super().parameters}

    @property
    def takes_priors(self) -> bool:
        """True where the prior is the expert's own."""
        return self.prior == "own"

    def layouts(self, experts: int) -> tuple[Layout, ...]:
        """One row per expert, and the rows of the prior."""
        rows = self.expert_rows(experts)
        match self.prior:
            case "own":
                return rows, ContentFree(rows)
            case "public":
                return rows, ContentFree(ZeroShot())
            case "zero-shot":
                return rows, ZeroShot()
            case _:
                return (rows,)

    def calibrate(self, budget: Budget) -> Calibrated:
        """Lambda for the budget; see ``Method``."""
        strength = bounded_range_strength(self.to_experts(budget), self.clip, self.rate)
        return self.exponential(self._utility(), strength, budget)

    def published(self, budget: Budget) -> Calibrated | None:
        """Lambda by the paper's claim of ``lambda * C`` for a changed expert, half of the cost.

        Where no expert changes the paper is right, and the result is None. A unit that changes
        several experts, and samples, are beyond the paper; None too.
        """
        reached = self.to_experts(budget)
        if reached.stability.moved(reached.adjacency) != (0, 1) or self.rate < 1:
            return None
        claimed = replace(budget, adjacency=Adjacency.ADD_OR_REMOVE_ONE, stability=DIRECT)
        strength = bounded_range_strength(claimed, self.clip)
        return self.exponential(self._utility(), strength, budget, "published")

    def step(self, views: Views) -> DenseStep:
        """The experts, without their prior; the zero-shot row is public where it is the prior."""
        step = super().step(views)
        if self.prior == "none":
            return step
        zero_shot = self.prior == "zero-shot"
        priors = the_view(views, ZeroShot if zero_shot else ContentFree)
        corrected = step.corrected(DenseStep(step.public, priors))
        return DenseStep(priors[0], corrected.experts) if zero_shot else corrected

    def _utility(self) -> LogProb:
        return LogProb(self.clip, public_power=float(self.prior == "zero-shot"))


GROUPED = replace(ProductOfExperts(), group_size=2, name="poe-groups")
"""Two examples for each expert, on average."""

CORRECTED = replace(ProductOfExperts(), prior="own", name="poe-prior")
"""With each expert's own prior taken out."""
