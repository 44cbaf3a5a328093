"""Permute-and-flip on soft utilities or on votes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch

from dpicl_rag.accounting import _check
from dpicl_rag.accounting.events import PureDP
from dpicl_rag.accounting.stability import DIRECT, Adjacency, Stability
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms import permute_and_flip
from dpicl_rag.mechanisms.exponential import aggregate
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.methods.base import Calibrated, Drawing, Views
from dpicl_rag.methods.calibration import pure_strength
from dpicl_rag.methods.experts import expert_rows, stage, the_view
from dpicl_rag.methods.layouts import Groups, Layout, OneEach
from dpicl_rag.utilities import LogProb, Utility, Vote


@dataclass(frozen=True)
class PermuteAndFlip(Drawing):
    """``lambda * sum_i f_i`` as scores of permute-and-flip.

    McKenna, Sheldon 2020, "Permute-and-Flip: A New Mechanism for Differentially Private
    Selection". At the same epsilon its expected score is never below that of the exponential
    mechanism, for any scores (their Theorem 2): use it for single answers under pure DP.

    **Adjacency and charge.** A unit added or removed costs pure ``lambda * R`` (R is C for clipped
    log-probabilities, 1 for votes), a changed expert ``2 * lambda * R``: the same factors as the
    exponential mechanism's, proven in ``mechanisms.permute_and_flip``. It is not bounded-range:
    its zCDP rho is that of any epsilon-DP mechanism, ``epsilon tanh(epsilon / 2)``, up to four
    times the exponential mechanism's. Over many queries the exponential mechanism is the better
    one.

    Attributes:
        utility: ``log_prob`` or ``vote``.
        clip: C of ``log_prob``.
        group_size: Examples of an expert; above 1, units join random groups.
        name: Its name in the registry.
    """

    utility: Literal["log_prob", "vote"] = "log_prob"
    clip: float = 4.0
    group_size: int = 1
    name: str = "permute-and-flip"

    paper = "McKenna, Sheldon 2020"
    private = True

    def __post_init__(self) -> None:
        _check.positive("clip", self.clip)
        _check.count("group_size", self.group_size)
        if self.utility not in ("log_prob", "vote"):
            raise ConfigurationError("utility must be log_prob or vote")

    @property
    def parameters(self) -> Mapping[str, float | int | str]:
        """Utility, clip bound and group size."""
        clip: dict[str, float | int | str] = (
            {"clip": self.clip} if self.utility == "log_prob" else {}
        )
        return {"utility": self.utility, **clip, "group_size": self.group_size}

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
        reach = self._utility().range
        strength = pure_strength(epsilon, delta, reach, factor, queries)
        event = PureDP(strength * reach * factor)
        return Calibrated(strength, event, adjacency, epsilon, delta, queries)

    def distribution(self, views: Views, calibrated: Calibrated) -> torch.Tensor:
        """Exact output distribution, float64 [labels]; see ``Method.distribution``."""
        return permute_and_flip.distribution(self._scores(views, calibrated))

    def draw(self, views: Views, calibrated: Calibrated, randomness: Randomness) -> int:
        """Run the mechanism itself, coins and all."""
        return permute_and_flip.draw(self._scores(views, calibrated), randomness)

    def _utility(self) -> Utility:
        return LogProb(self.clip) if self.utility == "log_prob" else Vote(public_power=0.0)

    def _scores(self, views: Views, calibrated: Calibrated) -> torch.Tensor:
        experts = the_view(views, OneEach if self.group_size == 1 else Groups)
        public = experts.new_zeros(experts.shape[-1])
        return aggregate(public, self._utility()(experts, public), calibrated.parameter)


ON_VOTES = replace(PermuteAndFlip(), utility="vote", name="permute-and-flip-votes")
"""On hard votes."""
