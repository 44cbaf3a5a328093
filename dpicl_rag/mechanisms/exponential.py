"""The Product-of-Experts exponential mechanism: b(y) * exp(lambda * sum_i w_i f_i(y)).

With utilities of range R, one expert added or removed moves every log probability by amounts that
lie in an interval of length lambda * R: the draw is (lambda * R)-bounded-range (Dong, Durfee,
Rogers 2020). One expert changed: 2 * lambda * R. Zero experts: b(y) itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dpicl_rag.accounting import bounded_range_to_rho
from dpicl_rag.mechanisms.privacy_filters import PrivacyFilter
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.mechanisms.utilities import Utility


@dataclass(frozen=True, slots=True)
class ExponentialMechanism:
    """Draws tokens of answers, and labels.

    Attributes:
        utility: What an expert says about each candidate, and the base measure b.
        strength: lambda.
        factor: Of the pipeline's stability, see ``Stability.factor``.
        delta: See ``Mechanism``.
    """

    utility: Utility
    strength: float
    factor: int = 1
    delta: float = 0.0

    @property
    def rho(self) -> float:
        """Rho of zCDP of one draw: ``(lambda * R * factor)^2 / 8``."""
        return bounded_range_to_rho(self.strength * self.utility.range * self.factor)

    def draw(self, step: Step, spend: PrivacyFilter, randomness: Randomness) -> int:
        """See ``Mechanism``."""
        scores = self.scores(step, spend.weigh(lambda: self.ranges(step)))
        spend.pay()
        return randomness.draw(scores)

    def ranges(self, step: Step) -> torch.Tensor:
        """Lambda times every expert's realised range before weighting, float64 [n]."""
        return step.ranges(self.utility, self.strength)

    def scores(self, step: Step, weights: torch.Tensor | None = None) -> torch.Tensor:
        """Unnormalised log-probabilities, float64 [candidates].

        Args:
            step: What the engine computed.
            weights: Factor on each expert, float64 [n]; None for one each.
        """
        added = step.weighted_sum(self.utility, self.strength, weights)
        return self.utility.base(step.public) + added

    def distribution(self, step: Step) -> torch.Tensor:
        """Exact output distribution where every expert counts in full, float64 [candidates]."""
        return torch.softmax(self.scores(step), dim=-1)
