"""Permute-and-flip on soft utilities or on votes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from dpicl_rag import _validate
from dpicl_rag.accounting import Budget, PureDP, pure_strength, zcdp
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms import permute_and_flip
from dpicl_rag.mechanisms.utilities import LogProb, Utility
from dpicl_rag.methods.base import Calibrated, ExpertMethod, Parameters
from dpicl_rag.methods.votes import VOTE


@dataclass(frozen=True)
class FlippedLabels(ExpertMethod):
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
        name: Its name in the registry.
    """

    utility: Literal["log_prob", "vote"] = "log_prob"
    clip: float = 4.0
    name: str = "permute-and-flip"

    private = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.positive("clip", self.clip)
        if self.utility not in ("log_prob", "vote"):
            raise ConfigurationError("utility must be log_prob or vote")

    @property
    def parameters(self) -> Parameters:
        """Utility, clip bound, group size and sampling rate."""
        own: Parameters = {"clip": self.clip} if self.utility == "log_prob" else {}
        return {"utility": self.utility, **own, **super().parameters}

    def calibrate(self, budget: Budget) -> Calibrated:
        """Lambda for the budget; see ``Method``."""
        utility: Utility = LogProb(self.clip) if self.utility == "log_prob" else VOTE
        reached = self.to_experts(budget)
        strength = pure_strength(reached, utility.range, self.rate)
        event = PureDP(strength * utility.range * reached.factor)
        mechanism = permute_and_flip.PermuteAndFlip(
            utility, strength, zcdp(event.epsilon), budget.search_delta
        )
        return Calibrated(mechanism, strength, self.charged(event), budget)


ON_VOTES = replace(FlippedLabels(), utility="vote", name="permute-and-flip-votes")
"""On hard votes."""
