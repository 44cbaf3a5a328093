"""DP-ICL: report noisy max on hard votes with Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpicl_rag.accounting import (
    DIRECT,
    SQRT_2,
    Adjacency,
    Budget,
    Event,
    Gaussian,
    PoissonSubsampled,
    gaussian_multiplier,
)
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.report_noisy_max import ReportNoisyMax
from dpicl_rag.methods.base import Calibrated, ExpertMethod, Noise, Parameters
from dpicl_rag.methods.layouts import Layout, OneEach
from dpicl_rag.methods.votes import VOTE


@dataclass(frozen=True)
class VotesGaussian(ExpertMethod):
    """The label with the most votes, after Gaussian noise on every count.

    Wu, Panda, Wang, Mittal 2024, "Privacy-Preserving In-Context Learning for Large Language
    Models" (DP-ICL), and Panda et al. 2023, "Differentially Private In-Context Learning": the
    context is cut into subsets of k examples, each subset votes.

    **Adjacency and charge.** A vote that arrives moves the counts by 1 in L2, a changed one by
    sqrt(2): in a group, or under replacement. The argmax costs at most the Gaussian mechanism on
    the counts, with noise multiplier sigma over that number, by its exact formula (Balle, Wang
    2018); many queries compose exactly. With ``rate`` below 1 every unit joins each query by its
    own coin, which amplifies under add-or-remove adjacency alone; the charge is then a privacy
    loss distribution. For the argmax of two labels the charge is loose by sqrt(2) in sigma; with
    many labels it is met.

    Attributes:
        rate: Public probability with which a unit joins a query; needs ``group_size`` 1.
        name: Its name in the registry.
    """

    rate: float = 1.0
    name: str = "votes-gaussian"

    private = True

    def __post_init__(self) -> None:
        super().__post_init__()
        OneEach(self.rate)
        if self.rate < 1 and self.group_size > 1:
            raise ConfigurationError("a rate below 1 needs one expert per unit (group_size 1)")

    @property
    def parameters(self) -> Parameters:
        """Group size and sampling rate."""
        return {**super().parameters, "rate": self.rate}

    def layouts(self, experts: int) -> tuple[Layout, ...]:
        """One row per expert."""
        return (OneEach(self.rate),) if self.rate < 1 else super().layouts(experts)

    def calibrate(self, budget: Budget) -> Calibrated:
        """Standard deviation for the budget; see ``Method``."""
        reach = self._reach(budget)
        multiplier = gaussian_multiplier(budget, self.rate)
        return self._at(multiplier * reach, multiplier, budget)

    def published(self, budget: Budget) -> Calibrated | None:
        """As published: sensitivity sqrt(2) under any adjacency.

        One query without subsampling by the classical formula ``sigma = 2 sqrt(log(1.25 / delta))
        / epsilon``, proven for epsilon below 1; otherwise by privacy loss distributions. None
        where one unit changes more than one vote.
        """
        reach = self._reach(budget)
        if reach > SQRT_2 * (1 + 1e-12):
            return None
        if budget.queries > 1 or self.rate < 1:
            multiplier = gaussian_multiplier(budget, self.rate)
            return self._at(multiplier * SQRT_2, multiplier * (SQRT_2 / reach), budget, "published")
        sigma = 2 * math.sqrt(math.log(1.25 / budget.delta)) / budget.epsilon
        return self._at(sigma, sigma / reach, budget, "published")

    def _reach(self, budget: Budget) -> float:
        """L2 sensitivity of the votes."""
        if self.rate < 1 and (
            budget.adjacency is Adjacency.REPLACE_ONE or budget.stability != DIRECT
        ):
            raise ConfigurationError(
                "Poisson subsampling amplifies under add-or-remove adjacency, for units that "
                "change no expert but their own; use rate 1"
            )
        return self.to_experts(budget).stability.votes_l2(budget.adjacency)

    def _at(
        self, sigma: float, multiplier: float, budget: Budget, noise: Noise = "exact"
    ) -> Calibrated:
        event: Event = Gaussian(multiplier)
        rho = 1 / (2 * multiplier**2)
        if self.rate < 1:
            # Amplified by the coins, and no zCDP says how much.
            event, rho = PoissonSubsampled(self.rate, event), math.inf
        mechanism = ReportNoisyMax(VOTE, sigma, rho, budget.delta)
        return Calibrated(mechanism, sigma, event, budget, noise)
