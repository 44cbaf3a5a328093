"""Hard votes and the exponential mechanism: the baseline that comparisons leave out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from dpicl_rag.accounting import _check
from dpicl_rag.accounting.events import BoundedRange
from dpicl_rag.accounting.stability import DIRECT, Adjacency, Stability
from dpicl_rag.mechanisms.exponential import aggregate
from dpicl_rag.methods.base import Calibrated, Drawing, Views
from dpicl_rag.methods.calibration import bounded_range_strength
from dpicl_rag.methods.experts import expert_rows, stage, the_view
from dpicl_rag.methods.layouts import Groups, Layout, OneEach
from dpicl_rag.utilities import Vote

_VOTE = Vote(public_power=0.0)


@dataclass(frozen=True)
class Votes(Drawing):
    """``lambda`` times the number of experts that vote for a label, as scores of the mechanism.

    McSherry, Talwar 2007, "Mechanism Design via Differential Privacy", on the votes of DP-ICL.

    **Adjacency and charge.** A vote has range 1: a unit added or removed makes a query
    lambda-bounded-range, a changed expert 2 * lambda. One query is purely epsilon-DP with
    ``lambda = epsilon / factor``, and epsilon^2 / 8 of zCDP.

    Attributes:
        group_size: Examples of an expert; above 1, units join random groups.
        name: Its name in the registry.
    """

    group_size: int = 1
    name: str = "votes"

    paper = "McSherry, Talwar 2007, on the votes of Wu et al. 2024 (DP-ICL)"
    private = True

    def __post_init__(self) -> None:
        _check.count("group_size", self.group_size)

    @property
    def parameters(self) -> Mapping[str, float | int | str]:
        """Group size."""
        return {"group_size": self.group_size}

    def layouts(self, experts: int) -> tuple[Layout, ...]:
        """One row per expert."""
        return (expert_rows(experts, self.group_size),)

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
        strength = bounded_range_strength(epsilon, delta, _VOTE.range, factor, queries)
        event = BoundedRange(strength * _VOTE.range * factor)
        return Calibrated(strength, event, adjacency, epsilon, delta, queries)

    def distribution(self, views: Views, calibrated: Calibrated) -> torch.Tensor:
        """Exact output distribution, float64 [labels]; see ``Method.distribution``."""
        tally = tallies(the_view(views, OneEach if self.group_size == 1 else Groups))
        return torch.softmax(calibrated.parameter * tally, dim=-1)


def tallies(experts: torch.Tensor) -> torch.Tensor:
    """Votes for each label, float64 [labels], from log-probabilities [experts, labels]."""
    public = experts.new_zeros(experts.shape[-1], dtype=torch.float64)
    return aggregate(public, _VOTE(experts, public), 1.0)
