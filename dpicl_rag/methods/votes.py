"""Published methods that draw from votes or sums: by noise, by permute-and-flip, by sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from dpicl_rag import _validate
from dpicl_rag.accounting import (
    SQRT_2,
    Budget,
    Gaussian,
    PureDP,
    SubsampledSum,
    bounded_range_strength,
    gaussian_multiplier,
    pure_strength,
    subsampled_sigma,
    zcdp,
)
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.selection import PermuteAndFlip, ReportNoisyMax
from dpicl_rag.mechanisms.utilities import LogProb, Probability, Utility, Vote
from dpicl_rag.methods.base import (
    Calibrated,
    ExpertMethod,
    Layout,
    Method,
    Noise,
    Parameters,
    Subsampled,
    require_own_coins,
)

VOTE = Vote(public_power=0.0)
"""Votes over a uniform base measure, as published."""


@dataclass(frozen=True)
class Votes(ExpertMethod):
    """``lambda`` times the number of experts that vote for a label, as scores of the mechanism.

    The exponential mechanism on hard votes: the baseline that comparisons leave out.

    McSherry, Talwar 2007, "Mechanism Design via Differential Privacy", on the votes of DP-ICL.

    **Adjacency and charge.** A vote has range 1: a unit added or removed makes a query
    lambda-bounded-range, a changed expert 2 * lambda. One query is purely epsilon-DP with
    ``lambda = epsilon / factor``, and epsilon^2 / 8 of zCDP.
    """

    name: str = "votes"

    private = True

    def calibrate(self, budget: Budget) -> Calibrated:
        """Lambda for the budget; see ``Method``."""
        strength = bounded_range_strength(self.to_experts(budget), VOTE.range, self.rate)
        return self.exponential(VOTE, strength, budget)


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


@dataclass(frozen=True)
class FlippedLabels(ExpertMethod):
    """``lambda * sum_i f_i`` as scores of permute-and-flip.

    McKenna, Sheldon 2020, "Permute-and-Flip: A New Mechanism for Differentially Private
    Selection". At the same epsilon its expected score is never below that of the exponential
    mechanism, for any scores (their Theorem 2): use it for single answers under pure DP.

    **Adjacency and charge.** A unit added or removed costs pure ``lambda * R`` (R is C for clipped
    log-probabilities, 1 for votes), a changed expert ``2 * lambda * R``: the same factors as the
    exponential mechanism's, proven in ``selection.PermuteAndFlip``. It is not bounded-range:
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
        mechanism = PermuteAndFlip(utility, strength, zcdp(event.epsilon), budget.search_delta)
        return Calibrated(mechanism, strength, self.charged(event), budget)


ON_VOTES = replace(FlippedLabels(), utility="vote", name="permute-and-flip-votes")
"""On hard votes."""


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
