"""The charge of a noisy sum over many Poisson-subsampled contexts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from dpicl_rag import _validate
from dpicl_rag.accounting import _search
from dpicl_rag.accounting.events import Event
from dpicl_rag.accounting.stability import SQRT_2

if TYPE_CHECKING:
    import numpy as np

_GRID = 4001
_NEWTON_STEPS = 4

_NEGLIGIBLE = 1e-20
"""Larger numbers of contexts than have this probability count as all of them."""


@dataclass(frozen=True, slots=True)
class SubsampledSum(Event):
    """Gaussian noise on a sum over contexts, each a Poisson subsample of the units.

    Let K be the number of contexts that a unit joins, Binomial(contexts, rate). In each of them
    it moves the prediction, a probability vector, by ``sqrt(2)`` at most. Given the coins of all
    other units, the outputs without and with the unit are N(s, sigma^2) and the mixture over its
    coins J of N(s + d_J, sigma^2), ``|d_J| <= sqrt(2) |J|``. Their likelihood ratio is
    ``L = sum_J P(J) exp(<x, d_J> / sigma^2 - |d_J|^2 / (2 sigma^2))``, a mean of exponentials of
    centred Gaussians, and the delta of either direction is the mean of a convex function of L. By
    Kahane's inequality (1985) it grows with all covariances <d_I, d_J> / sigma^2, which are at
    most those of the numbers sqrt(2) |J| on one line. So the pair is dominated in both directions
    by

        N(0, sigma^2)   and   the mixture over k of Binomial(k) * N(sqrt(2) k, sigma^2).

    This is Choquette-Choo et al. 2024, "Privacy Amplification for Matrix Mechanisms", section 4
    (mixtures of Gaussians). Equality is possible: all contexts may move alike. Joint convexity
    takes the mixture over the other units' coins.

    Attributes:
        contexts: Number of contexts.
        rate: Probability with which a unit joins one of them.
        sigma: Standard deviation of the noise on each label's sum.
    """

    contexts: int
    rate: float
    sigma: float

    def __post_init__(self) -> None:
        _validate.count("contexts", self.contexts)
        _validate.rate("rate", self.rate)
        _validate.positive("sigma", self.sigma)

    @property
    def mixture(self) -> tuple[list[float], list[float]]:
        """Means of the dominating mixture and their probabilities."""
        return _joined(self.contexts, self.rate)


def mixture_deltas(
    sensitivities: Sequence[float], chances: Sequence[float], sigma: float, epsilons: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Exact deltas between N(0, sigma^2) and a mixture of N(s_k, sigma^2), s_k at least 0.

    Their likelihood ratio rises from left to right, so the best event of either direction is a
    half-line. Its end is found by Newton steps; delta is largest at the true one, so what is off
    there hardly moves it.

    Args:
        sensitivities: s_k.
        chances: Their probabilities.
        sigma: Standard deviation.
        epsilons: 0 or more.

    Returns:
        The mixture against the other, and the other way round.
    """
    import numpy as np
    from scipy.special import ndtr

    every = zip(sensitivities, chances, strict=True)
    parts = [(mean / sigma, weight) for mean, weight in every if weight > 0]
    reach = 40.0 + max(mean for mean, _ in parts)
    grid = np.linspace(-reach, reach, _GRID)
    values, _ = _log_ratio(grid, parts)

    def ends(levels: np.ndarray) -> np.ndarray:
        at = np.interp(levels, values, grid)
        for _ in range(_NEWTON_STEPS):
            value, slope = _log_ratio(at, parts)
            step = np.clip((levels - value) / np.maximum(slope, 1e-300), -1.0, 1.0)
            at = np.clip(at + step, -reach, reach)
        return np.asarray(at)

    def zeros() -> np.ndarray:
        return np.zeros(len(epsilons))

    # Differences of tails, part by part: their sums would lose the digits of a small delta.
    grown = np.expm1(epsilons)
    at = ends(epsilons)
    gain = sum((weight * (ndtr(mean - at) - ndtr(-at)) for mean, weight in parts), zeros())
    coming = np.maximum(0.0, gain - grown * ndtr(-at))
    at = ends(-epsilons)
    loss = sum((weight * (ndtr(at) - ndtr(at - mean)) for mean, weight in parts), zeros())
    below = sum((weight * ndtr(at - mean) for mean, weight in parts), zeros())
    return coming, np.maximum(0.0, loss - grown * below)


def mixture_delta(
    sensitivities: Sequence[float], chances: Sequence[float], sigma: float, epsilon: float
) -> float:
    """The larger delta of the two directions, see `mixture_deltas`."""
    import numpy as np

    both = mixture_deltas(sensitivities, chances, sigma, np.array([epsilon]))
    return max(float(deltas[0]) for deltas in both)


def mixture_epsilon(
    sensitivities: Sequence[float], chances: Sequence[float], sigma: float, delta: float
) -> float:
    """Smallest epsilon at ``delta`` for the pair of `mixture_deltas`."""

    def short(epsilon: float) -> float:
        return delta - mixture_delta(sensitivities, chances, sigma, epsilon)

    if short(0.0) >= 0:
        return 0.0
    high = 1.0
    while short(high) < 0:
        high *= 2
    return _search.zero(short, 0.0, high) * (1 + 1e-10)


def _log_ratio(
    at: np.ndarray, parts: Sequence[tuple[float, float]]
) -> tuple[np.ndarray, np.ndarray]:
    """Log of the likelihood ratio at some points, and its derivative."""
    import numpy as np

    means, weights = np.array(parts).T[:, :, None]
    exponents = at * means + (np.log(weights) - means * means / 2)
    top = exponents.max(axis=0)
    shares = np.exp(exponents - top)
    total = shares.sum(axis=0)
    return top + np.log(total), (means * shares).sum(axis=0) / total


@lru_cache(maxsize=64)
def _joined(contexts: int, rate: float) -> tuple[list[float], list[float]]:
    """L2 sensitivities and their probabilities; the tail counts as the worst case."""
    from scipy.stats import binom

    chances = [float(binom.pmf(k, contexts, rate)) for k in range(contexts + 1)]
    kept = [k for k in range(contexts) if chances[k] > _NEGLIGIBLE]
    rest = max(0.0, 1 - math.fsum(chances[k] for k in kept))
    return [SQRT_2 * k for k in [*kept, contexts]], [*(chances[k] for k in kept), rest]
