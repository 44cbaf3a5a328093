"""DP-ICL: report noisy max on hard votes with Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpicl_rag.accounting import SQRT_2, Budget, Gaussian, gaussian_multiplier
from dpicl_rag.mechanisms.report_noisy_max import ReportNoisyMax
from dpicl_rag.methods.base import Calibrated, ExpertMethod, Noise
from dpicl_rag.methods.votes import VOTE


@dataclass(frozen=True)
class VotesGaussian(ExpertMethod):
    """The label with the most votes, after Gaussian noise on every count.

    Wu, Panda, Wang, Mittal 2024, "Privacy-Preserving In-Context Learning for Large Language
    Models" (DP-ICL), and Panda et al. 2023, "Differentially Private In-Context Learning": the
    context is cut into subsets of k examples, each subset votes. With ``rate`` below 1 and
    ``group_size=4`` it is their Algorithm 1: a Poisson sample for every query, in subsets of four
    examples. The number of subsets is public; each unit chooses its own, so four is the mean.

    **Adjacency and charge.** A vote that arrives moves the counts by 1 in L2, a changed one by
    sqrt(2): in a group, or under replacement. The argmax costs at most the Gaussian mechanism on
    the counts, with noise multiplier sigma over that number, by its exact formula (Balle, Wang
    2018); many queries compose exactly. With ``rate`` below 1 every unit joins each query by its
    own coin, which amplifies under add-or-remove adjacency alone (see ``ExpertMethod``); the
    charge is then a privacy loss distribution. For a vote that arrives the argmax of two labels
    makes it loose by sqrt(2) in sigma; with many labels, or for a vote that changes, it is met.

    Attributes:
        name: Its name in the registry.
    """

    name: str = "votes-gaussian"

    private = True

    def calibrate(self, budget: Budget) -> Calibrated:
        """Standard deviation for the budget; see ``Method``."""
        reach = self._reach(budget)
        multiplier = gaussian_multiplier(budget, self.rate)
        return self._at(multiplier * reach, multiplier, budget)

    def published(self, budget: Budget) -> Calibrated | None:
        """As published: sensitivity sqrt(2) under any adjacency.

        One query without subsampling by the classical formula ``sigma = 2 sqrt(log(1.25 / delta))
        / epsilon``, proven for epsilon below 1; otherwise by privacy loss distributions. Where a
        vote changes, as in sampled subsets, that is the exact noise. None where one unit changes
        more than one vote.
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
        return self.to_experts(budget).stability.votes_l2(budget.adjacency)

    def _at(
        self, sigma: float, multiplier: float, budget: Budget, noise: Noise = "exact"
    ) -> Calibrated:
        # Amplified by coins, and no zCDP says how much.
        rho = 1 / (2 * multiplier**2) if self.rate == 1 else math.inf
        mechanism = ReportNoisyMax(VOTE, sigma, rho, budget.delta)
        return Calibrated(mechanism, sigma, self.charged(Gaussian(multiplier)), budget, noise)
