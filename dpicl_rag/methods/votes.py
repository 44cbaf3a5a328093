"""Hard votes and the exponential mechanism: the baseline that comparisons leave out."""

from __future__ import annotations

from dataclasses import dataclass

from dpicl_rag.accounting import Budget, bounded_range_strength
from dpicl_rag.mechanisms.utilities import Vote
from dpicl_rag.methods.base import Calibrated, ExpertMethod

VOTE = Vote(public_power=0.0)
"""Votes over a uniform base measure, as published."""


@dataclass(frozen=True)
class Votes(ExpertMethod):
    """``lambda`` times the number of experts that vote for a label, as scores of the mechanism.

    McSherry, Talwar 2007, "Mechanism Design via Differential Privacy", on the votes of DP-ICL.

    **Adjacency and charge.** A vote has range 1: a unit added or removed makes a query
    lambda-bounded-range, a changed expert 2 * lambda. One query is purely epsilon-DP with
    ``lambda = epsilon / factor``, and epsilon^2 / 8 of zCDP.

    Attributes:
        name: Its name in the registry.
    """

    name: str = "votes"

    private = True

    def calibrate(self, budget: Budget) -> Calibrated:
        """Lambda for the budget; see ``Method``."""
        strength = bounded_range_strength(self.to_experts(budget), VOTE.range, self.rate)
        return self.exponential(VOTE, strength, budget)
