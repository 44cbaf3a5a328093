"""Private PoEtry: a product of clipped experts and one draw of the exponential mechanism.

Romijnders et al. 2026, "Private PoEtry: Private In-Context Learning via Product of Experts",
arXiv 2602.05012.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch

from dpicl_rag.accounting import _check
from dpicl_rag.accounting.events import BoundedRange
from dpicl_rag.accounting.stability import DIRECT, Adjacency, Stability
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.exponential import aggregate
from dpicl_rag.methods.base import Calibrated, Drawing, Views
from dpicl_rag.methods.calibration import bounded_range_strength
from dpicl_rag.methods.experts import expert_rows, stage, the_view
from dpicl_rag.methods.layouts import ContentFree, Groups, Layout, OneEach, ZeroShot
from dpicl_rag.methods.sensitivity import moved
from dpicl_rag.utilities import LogProb

_FLOOR = -200.0

Prior = Literal["none", "own", "public", "zero-shot"]


@dataclass(frozen=True)
class ProductOfExperts(Drawing):
    """``lambda * sum_i clip(log p_i(y), -C, 0)`` as scores of the exponential mechanism.

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
        group_size: Examples of an expert; above 1, units join random groups.
        prior: What is taken out of each expert.
        name: Its name in the registry.
    """

    clip: float = 4.0
    group_size: int = 1
    prior: Prior = "none"
    name: str = "poe"

    paper = "Romijnders et al. 2026 (Private PoEtry)"
    private = True

    def __post_init__(self) -> None:
        _check.positive("clip", self.clip)
        _check.count("group_size", self.group_size)
        if self.prior not in ("none", "own", "public", "zero-shot"):
            raise ConfigurationError("prior must be none, own, public or zero-shot")

    @property
    def parameters(self) -> Mapping[str, float | int | str]:
        """Clip bound, group size and prior."""
        return {"clip": self.clip, "group_size": self.group_size, "prior": self.prior}

    def layouts(self, experts: int) -> tuple[Layout, ...]:
        """One row per expert, and the rows of the prior."""
        rows = expert_rows(experts, self.group_size)
        match self.prior:
            case "own":
                return rows, ContentFree(rows)
            case "public":
                return rows, ContentFree(ZeroShot())
            case "zero-shot":
                return rows, ZeroShot()
            case _:
                return (rows,)

    def calibrate(
        self,
        epsilon: float,
        delta: float,
        adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
        *,
        stability: Stability = DIRECT,
        queries: int = 1,
    ) -> Calibrated:
        """Lambda for the budget; see ``Method.calibrate``."""
        factor = stability.then(stage(self.group_size)).factor(adjacency)
        strength = bounded_range_strength(epsilon, delta, self.clip, factor, queries)
        event = BoundedRange(strength * self.clip * factor)
        return Calibrated(strength, event, adjacency, epsilon, delta, queries)

    def published(
        self,
        epsilon: float,
        delta: float,
        adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
        *,
        stability: Stability = DIRECT,
        queries: int = 1,
    ) -> Calibrated | None:
        """Lambda by the paper's claim of ``lambda * C`` for a changed expert, half of the cost.

        Where no expert changes the paper is right, and the result is None. A unit that changes
        several experts is beyond the paper; None too.
        """
        pipeline = stability.then(stage(self.group_size))
        if moved(pipeline, adjacency) != (0, 1):
            return None
        strength = bounded_range_strength(epsilon, delta, self.clip, 1, queries)
        event = BoundedRange(strength * self.clip * pipeline.factor(adjacency))
        return Calibrated(strength, event, adjacency, epsilon, delta, queries, "published")

    def distribution(self, views: Views, calibrated: Calibrated) -> torch.Tensor:
        """Exact output distribution, float64 [labels]; see ``Method.distribution``."""
        experts = the_view(views, OneEach if self.group_size == 1 else Groups)
        public = experts.new_zeros(experts.shape[-1])
        base = public
        if self.prior == "zero-shot":
            base = views[ZeroShot()][0].double()
        if self.prior != "none":
            # No label is so unlikely that a difference of infinities could come up.
            corrected = experts.clamp(min=_FLOOR) - self._priors(views).clamp(min=_FLOOR)
            experts = torch.log_softmax(corrected, dim=-1)
        utilities = LogProb(self.clip)(experts, public)
        return torch.softmax(aggregate(base, utilities, calibrated.parameter), dim=-1)

    def _priors(self, views: Views) -> torch.Tensor:
        """Log-probabilities to take out [experts, labels] or [1, labels]."""
        if self.prior == "zero-shot":
            return views[ZeroShot()].double()
        return the_view(views, ContentFree)


GROUPED = replace(ProductOfExperts(), group_size=2, name="poe-groups")
"""Two examples for each expert, on average."""

CORRECTED = replace(ProductOfExperts(), prior="own", name="poe-prior")
"""With each expert's own prior taken out."""
