"""Private selection: the exponential mechanism, permute-and-flip, and report noisy max.

All draw one index from the exact distribution, with one uniform number. No noise vector in floating
point is there for an attacker to look into (Mironov 2012).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NoReturn, Protocol

import numpy as np
import torch

from dpicl_rag.accounting import bounded_range_to_rho
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.privacy_filters import PrivacyFilter
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.mechanisms.utilities import Utility


class Charged(Protocol):
    """A release that was calibrated to a budget beforehand, from public numbers alone."""

    @property
    def rho(self) -> float:
        """Rho of zCDP of one draw, in its worst case, for every unit."""
        ...


class Mechanism(Charged, Protocol):
    """Draws one of several candidates."""

    @property
    def delta(self) -> float:
        """Delta of one draw and of the search before it; 0 where both are purely private."""
        ...

    def draw(self, step: Step, spend: PrivacyFilter, randomness: Randomness) -> int:
        """Pay for one draw, then draw.

        Args:
            step: What the engine computed.
            spend: Pays, and says how much each expert may count.
            randomness: Where the coins come from.

        Returns:
            Index of a candidate. It may be released: it is paid for.
        """
        ...

    def distribution(self, step: Step) -> torch.Tensor:
        """Exact output distribution where every expert counts in full, float64 [candidates]."""
        ...


class ChargedAlike(ABC):
    """Draws from the exact distribution. Only a charge that is the same for all units is sound."""

    __slots__ = ()

    @abstractmethod
    def distribution(self, step: Step) -> torch.Tensor:
        """Exact output distribution, see ``Mechanism``."""

    def draw(self, step: Step, spend: PrivacyFilter, randomness: Randomness) -> int:
        """Payment and draw, see ``Mechanism``.

        Raises:
            ConfigurationError: The filter charges each unit for its own range.
        """
        spend.weigh(no_ranges)
        log_probs = torch.log(self.distribution(step))
        spend.pay()
        return randomness.draw(log_probs)


def no_ranges() -> NoReturn:
    """The argument of `PrivacyFilter.weigh` for a mechanism that has no charge of a unit's own.

    Raises:
        ConfigurationError: The filter asks.
    """
    raise ConfigurationError(
        "this mechanism is charged the same for every unit; use accounting='fixed'"
    )


@dataclass(frozen=True, slots=True)
class ExponentialMechanism:
    """The Product of Experts: ``b(y) * exp(lambda * sum_i w_i f_i(y))``, for tokens and labels.

    With utilities of range R, one expert added or removed moves every log probability by amounts
    that lie in an interval of length lambda * R: the draw is (lambda * R)-bounded-range (Dong,
    Durfee, Rogers 2020). One expert changed: 2 * lambda * R. Zero experts: b(y) itself.

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
        """Payment and draw, see ``Mechanism``."""
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


@dataclass(frozen=True, slots=True)
class PermuteAndFlip(ChargedAlike):
    """Permute-and-flip on ``lambda * sum_i f_i(y)``: random order, first coin with heads.

    McKenna, Sheldon 2020, "Permute-and-Flip: A New Mechanism for Differentially Private Selection",
    Algorithm 1. With scores s, a candidate's coin shows heads with probability
    ``exp(s(y) - max s)``; the best one's always does. It is report noisy max with exponential noise
    of scale 1 (Ding et al. 2021, "The Permute-and-Flip Mechanism is Identical to Report-Noisy-Max
    with Exponential Noise").

    **Charge.** With utilities of range R, one expert added or removed makes it exactly
    (lambda * R)-DP, the same as the exponential mechanism:

    1. The mechanism depends on differences of scores only, so ``max_y f(y)`` may be taken off a
       newcomer's utility. All scores then fall, each by at most lambda * R.
    2. In the form with exponential noise, fix the noise of all candidates but y. Then y is chosen
       when its own noise passes a threshold. The other scores and that of y fall by 0 to lambda * R
       each, so the threshold moves by at most lambda * R either way, and the tail of exponential
       noise changes by a factor of at most exp(lambda * R) when its threshold moves so far.

    One expert changed is one removed and one added: (2 * lambda * R)-DP. It is not
    (lambda * R)-bounded range: with two candidates at a tie a fall by lambda * R takes the log
    ratios to ``-lambda * R`` and to nearly ``+log 2``. So its zCDP charge is that of any pure
    mechanism, not the eighth of a square.

    Attributes:
        utility: What an expert says about each candidate; its base measure is added to the scores.
        strength: lambda.
        rho: Rho of zCDP of one draw: that of any pure mechanism.
        delta: See ``Mechanism``.
    """

    utility: Utility
    strength: float
    rho: float
    delta: float = 0.0

    def distribution(self, step: Step) -> torch.Tensor:
        """Exact output distribution, float64 [candidates]."""
        base = self.utility.base(step.public)
        return flip_distribution(base + step.weighted_sum(self.utility, self.strength))


def flip_distribution(scores: torch.Tensor) -> torch.Tensor:
    """Exact output distribution of permute-and-flip.

    A uniform order is one of independent uniform arrival times, so with heads probability p and
    t for the time at which y arrives (McKenna, Sheldon 2020, section 3.3, in another form)

        P(y) = p_y * integral over t from 0 to 1 of  prod over z != y of (1 - t p_z),

    a polynomial in t, which Gauss-Legendre quadrature of enough nodes integrates exactly. All
    terms are positive, so small probabilities keep their digits.

    Args:
        scores: float64 [candidates], -inf for what must never come out.

    Returns:
        Probabilities, float64 [candidates].
    """
    heads = torch.exp(scores - scores.max()).numpy(force=True)
    nodes, weights = np.polynomial.legendre.leggauss(len(heads) // 2 + 1)
    tails = 1 - (nodes[:, None] + 1) / 2 * heads
    # Products without one factor, from both sides: dividing by it could be by zero.
    ones = np.ones((len(nodes), 1))
    before = np.cumprod(np.hstack([ones, tails[:, :-1]]), axis=1)
    after = np.cumprod(np.hstack([ones, tails[:, :0:-1]]), axis=1)[:, ::-1]
    probabilities = heads * ((weights / 2) @ (before * after))
    return torch.from_numpy(probabilities / probabilities.sum()).to(scores.device)


@dataclass(frozen=True, slots=True)
class ReportNoisyMax(ChargedAlike):
    """The candidate of the largest ``sum_i f_i(y)`` after Gaussian noise on every sum.

    Only the index is released, so it costs no more than the Gaussian mechanism on all the sums, and
    in general less: with two labels the noise of both works against one difference.

    Attributes:
        utility: What an expert says about each candidate. Its base measure is not used.
        sigma: Standard deviation of the noise.
        rho: Rho of zCDP of one draw.
        delta: See ``Mechanism``.
    """

    utility: Utility
    sigma: float
    rho: float
    delta: float

    def distribution(self, step: Step) -> torch.Tensor:
        """Exact output distribution, float64 [candidates]."""
        return argmax_distribution(step.weighted_sum(self.utility, 1.0), self.sigma)


_REACH = 10.0
"""Standard deviations of the noise beyond which nothing is left: the tail is 1e-23."""


def argmax_distribution(sums: torch.Tensor, sigma: float) -> torch.Tensor:
    """Exact distribution of the index of the largest of independent Gaussians.

    ``P(j) = integral of phi((t - s_j) / sigma) * prod_{i != j} Phi((t - s_i) / sigma) dt / sigma``
    by the trapezoidal rule.

    **Error.** Let h be the step of the rule and K the number of values. The integrand is the
    density of a Gaussian times K - 1 of its cumulative functions. Off the real axis, at height y,
    each of these K factors grows by at most ``exp(y^2 / 2)``, so the rule's error for a probability
    p is at most ``2 p exp(K y^2 / 2) / (exp(2 pi y / h) - 1)`` for every y (Trefethen, Weideman
    2014, Theorem 5.1). At ``y = 2 pi / (h K)`` that is about ``2 p exp(-2 pi^2 / (h^2 K))``, below
    1e-33 p for the h taken here. What is cut off at ten standard deviations has probability below
    ``(K + 1) 1e-23``. So what is left is the rounding of float64, near 1e-13 of each probability.

    Args:
        sums: Means, float64 [values].
        sigma: Standard deviation of the noise on each, above 0.

    Returns:
        Probabilities, float64 [values].
    """
    from scipy.special import log_ndtr

    means = sums.double().numpy(force=True) / sigma
    means = means - means.max()
    step = min(0.05, 0.5 / np.sqrt(len(means) + 1))
    at = np.arange(-_REACH, _REACH + step, step)[:, None] - means
    log_below = log_ndtr(at)
    log_density = -0.5 * at * at - 0.5 * np.log(2 * np.pi)
    # Of all values, less the one whose density stands in its place.
    others = log_below.sum(axis=1, keepdims=True) - log_below
    probabilities = step * np.exp(log_density + others).sum(axis=0)
    return torch.from_numpy(probabilities / probabilities.sum()).to(sums.device)
