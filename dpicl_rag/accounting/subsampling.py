"""Charges on samples: events, and their profiles, the delta of one release at every epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from dpicl_rag import _validate
from dpicl_rag.accounting import _search, pure_dp
from dpicl_rag.accounting.composition import Profile
from dpicl_rag.accounting.conversion import gaussian_deltas
from dpicl_rag.accounting.events import Event, PoissonSubsampled, PureDP
from dpicl_rag.accounting.renyi_curves import gaussian_rho
from dpicl_rag.accounting.stability import SQRT_2
from dpicl_rag.errors import ConfigurationError

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


@dataclass(frozen=True, slots=True)
class FixedSizeSubsampled(Event):
    """``event`` on a sample of public size, drawn without replacement; it is not released.

    For replaced units only: where a unit comes, the sample's fraction of the pool changes.

    Let P, Q be the outputs on samples with a unit and with its replacement, and q the fraction.
    The outputs on neighbouring pools are ``(1 - q) S + q P`` and ``(1 - q) S + q Q``, and S is
    itself a replacement away from P and from Q. By advanced joint convexity (Balle, Barthe,
    Gaboardi 2018, "Privacy Amplification by Subsampling", Theorems 2 and 9) both directions have

        delta(epsilon) <= q * H_a(P, Q),  a = 1 + (e^epsilon - 1) / q,  for epsilon >= 0,

    H the hockey-stick divergence of the unsampled pair, and it is met where S = Q. The pair of the
    worst case taken both ways has ``1 - e^epsilon + e^epsilon delta(-epsilon)`` below 0.

    Attributes:
        fraction: Size of the sample over that of the pool, above 0 and at most 1. Public; at least
            the true one.
        event: Gaussian noise, whose multiplier is for a replaced unit.
    """

    fraction: float
    event: Event

    def __post_init__(self) -> None:
        _validate.rate("fraction", self.fraction)
        if not isinstance(self.event, Event) or not gaussian_rho(self.event):
            raise ConfigurationError("samples of a fixed size are priced for Gaussian noise only")

    def deltas(self, epsilons: np.ndarray) -> np.ndarray:
        """The privacy profile, float64, at any epsilons."""
        import numpy as np

        sizes = np.abs(epsilons)
        # log(1 + (e^x - 1) / q), where e^x may overflow.
        log_a = np.where(
            sizes < 500, np.log1p(np.expm1(np.minimum(sizes, 500)) / self.fraction), 0.0
        )
        log_a = np.where(sizes < 500, log_a, sizes - math.log(self.fraction))
        above = self.fraction * gaussian_deltas(self._mu, log_a)
        below = -np.expm1(-sizes) + np.exp(-sizes) * above
        return np.where(epsilons >= 0, above, below)

    @property
    def _mu(self) -> float:
        """Sensitivity over noise of the unsampled pair."""
        return math.sqrt(2 * (gaussian_rho(self.event) or 0.0))


def profile_of(event: Event) -> Profile | None:
    """The profile of an event; None where none is known, and for an event that costs nothing."""
    match event:
        case PureDP(epsilon):
            return _pure(epsilon)
        case FixedSizeSubsampled():
            return lambda epsilons: (event.deltas(epsilons), event.deltas(epsilons))
        case SubsampledSum():
            return partial(mixture_deltas, *event.mixture, event.sigma)
        case PoissonSubsampled(rate, PureDP(epsilon)):
            return sampled(rate, partial(_pure_deltas, epsilon)) if rate else None
    rate, inner = (
        (event.rate, event.event) if isinstance(event, PoissonSubsampled) else (1.0, event)
    )
    rho = gaussian_rho(inner)
    return sampled_gaussian(rate, math.sqrt(2 * rho)) if rho and rate else None


def sampled_gaussian(rate: float, mu: float) -> Profile:
    """Gaussian noise of sensitivity over noise ``mu``, where a unit joins with chance ``rate``."""
    return sampled(rate, partial(gaussian_deltas, mu))


def sampled(rate: float, deltas: Callable[[np.ndarray], np.ndarray]) -> Profile:
    """A mechanism with these deltas in both directions, where a unit joins with chance ``rate``.

    With the unit P = (1 - q) Q + q N, without it Q. Let H_a be the hockey-stick divergence. P
    against Q has q H_a(N, Q) for a = 1 + (e^epsilon - 1) / q. The other way, Q - e^epsilon P is
    c Q - e^epsilon q N with c = q - (1 - q) (e^epsilon - 1): its delta is c H_a(Q, N) for
    a = e^epsilon q / c, and 0 from c = 0 on.

    Both grow with the deltas, so a pair that dominates N and Q gives one that dominates P and Q
    (Zhu, Dong, Wang 2022, "Optimal Accounting of Differential Privacy via Characteristic
    Function", Theorem 11).
    """

    def profile(epsilons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        import numpy as np

        grown = np.expm1(epsilons)
        coming = rate * deltas(np.log1p(grown / rate))
        rest = rate - (1 - rate) * grown
        some = rest > 0
        size = np.log(np.exp(epsilons[some]) * rate / rest[some])
        going = np.zeros(len(epsilons))
        going[some] = rest[some] * deltas(np.maximum(0.0, size))
        return coming, going

    return profile


def _pure(total: float) -> Profile:
    def profile(epsilons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = _pure_deltas(total, epsilons)
        return found, found

    return profile


def _pure_deltas(total: float, epsilons: np.ndarray) -> np.ndarray:
    import numpy as np

    return np.array([pure_dp.delta(total, float(epsilon)) for epsilon in epsilons])
