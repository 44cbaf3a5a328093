"""Privacy by sampling: predictions of many Poisson-subsampled contexts, summed, with noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpicl_rag import _validate
from dpicl_rag.accounting import Budget, SubsampledSum, subsampled_sigma
from dpicl_rag.mechanisms.report_noisy_max import ReportNoisyMax
from dpicl_rag.mechanisms.utilities import Probability
from dpicl_rag.methods.base import Calibrated, Method, Parameters, require_own_coins
from dpicl_rag.methods.layouts import Layout, Subsampled


@dataclass(frozen=True)
class Sampling(Method):
    """The label with the largest sum of probabilities over subsampled contexts, after noise.

    Described as privacy by sampling in Romijnders et al. 2026, after Wu et al. 2024: every
    context is a Poisson subsample of the units, 100 of them; the model's predictions are averaged,
    Gaussian noise is added, and the best label comes out. Sums stand for averages here.

    **Adjacency and charge.** ``SubsampledSum``, a mixture of Gaussians, under add-or-remove
    adjacency for units that are in the corpus as they are; composed by privacy loss
    distributions. A unit that joins one context in ten still moves about ten predictions, so the
    noise is large: the charge says how much of the sampling is lost to that. Coins must be
    fresh for every query where queries are to compose.

    Attributes:
        contexts: Number of contexts.
        rate: Probability with which a unit joins one of them.
        name: Its name in the registry.
    """

    contexts: int = 100
    rate: float = 0.1
    name: str = "sampling"

    private = True
    rows = Subsampled

    def __post_init__(self) -> None:
        Subsampled(self.contexts, self.rate)

    @property
    def parameters(self) -> Parameters:
        """Number of contexts and sampling rate."""
        return {"contexts": self.contexts, "rate": self.rate}

    def layouts(self, experts: int) -> tuple[Layout, ...]:
        """One row per context."""
        _validate.count("experts", experts)
        return (Subsampled(self.contexts, self.rate),)

    def calibrate(self, budget: Budget) -> Calibrated:
        """Standard deviation for the budget; see ``Method``."""
        require_own_coins(budget)
        sigma = subsampled_sigma(budget, self.contexts, self.rate)
        # A mixture over coins: no zCDP says what it costs.
        mechanism = ReportNoisyMax(Probability(), sigma, math.inf, budget.delta)
        event = SubsampledSum(self.contexts, self.rate, sigma)
        return Calibrated(mechanism, sigma, event, budget)
