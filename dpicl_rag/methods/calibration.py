"""Noise for a budget of one or many queries, and what many queries cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial

from dpicl_rag.accounting import _check, _search, pure_dp
from dpicl_rag.accounting.accountants import (
    PrivacyLossAccountant,
    PureAccountant,
    RenyiAccountant,
)
from dpicl_rag.accounting.calibration import exact_strength_for, largest_strength
from dpicl_rag.accounting.conversion import renyi_to_epsilon
from dpicl_rag.accounting.events import (
    BoundedRange,
    Event,
    Gaussian,
    PoissonSubsampled,
    PureDP,
)
from dpicl_rag.accounting.stability import Adjacency
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.methods.sensitivity import SQRT_2
from dpicl_rag.methods.subsampled_sum import SubsampledSum, mixture_epsilon

_INTERVAL = 1e-3
"""Privacy losses of subsampled noise are rounded up to multiples of it."""

_MARGIN = 1 - 1e-12
"""Relative; a parameter found by a search is rounded to the safe side by it."""


def epsilon_for(event: Event, adjacency: Adjacency, queries: int, delta: float) -> float:
    """Epsilon at ``delta`` of a charge paid for every one of ``queries`` queries.

    Gaussian noise by its exact formula; Poisson subsampling by privacy loss distributions
    (``dp_accounting``); the exponential mechanism and pure DP by sums of epsilon or exact Renyi
    curves, whichever is less.

    Raises:
        ConfigurationError: An argument is outside its range.
    """
    if isinstance(event, SubsampledSum):
        if adjacency is Adjacency.REPLACE_ONE:
            raise ConfigurationError(
                "Poisson subsampling amplifies under add-or-remove adjacency only"
            )
        return event.epsilon(queries, delta)
    if isinstance(event, Gaussian):
        return gaussian_epsilon(math.sqrt(queries) / event.noise_multiplier, delta)
    if isinstance(event, PureDP | BoundedRange):
        pure = PureAccountant(adjacency).compose(event, queries).epsilon(delta)
        return min(pure, RenyiAccountant(adjacency).compose(event, queries).epsilon(delta))
    accountant = PrivacyLossAccountant(adjacency, _INTERVAL).compose(event, queries)
    match event:
        case PoissonSubsampled(rate, Gaussian(multiplier)) if queries == 1:
            return mixture_epsilon([0.0, 1.0], [1 - rate, rate], multiplier, delta)
        case _:
            return accountant.epsilon(delta)


@lru_cache(maxsize=256)
def bounded_range_strength(
    epsilon: float, delta: float, utility_range: float, factor: int, queries: int
) -> float:
    """Largest lambda of the exponential mechanism: by pure composition or by Renyi curves.

    One query is purely epsilon-DP.

    Args:
        epsilon: Budget of all queries, above 0.
        delta: Strictly between 0 and 1.
        utility_range: R.
        factor: ``Stability.factor``.
        queries: Number of queries.
    """
    pure = _pure_strength(epsilon, delta, utility_range, factor, queries)
    if queries == 1:
        return pure
    return max(pure, exact_strength_for(epsilon, delta, queries, utility_range, factor))


@lru_cache(maxsize=256)
def pure_strength(
    epsilon: float, delta: float, utility_range: float, factor: int, queries: int
) -> float:
    """Largest lambda of a mechanism that is (lambda * R * factor)-DP and nothing better.

    One query is purely epsilon-DP; many are composed purely or by Renyi curves.
    """
    pure = _pure_strength(epsilon, delta, utility_range, factor, queries)
    if queries == 1:
        return pure
    reach = utility_range * factor

    def spend(strength: float) -> float:
        curve = partial(pure_dp.renyi, strength * reach)
        return renyi_to_epsilon(lambda alpha: queries * curve(alpha), delta)

    return max(pure, largest_strength(spend, epsilon))


@lru_cache(maxsize=256)
def gaussian_multiplier(epsilon: float, delta: float, rate: float, queries: int) -> float:
    """Smallest noise multiplier of Gaussian noise, with Poisson subsampling at ``rate``.

    Without subsampling by the exact formula of one Gaussian mechanism, which any number of them
    compose to; with it by privacy loss distributions, under add-or-remove adjacency.
    """
    epsilon = _check.positive("epsilon", epsilon)
    _check.probability("delta", delta)
    _check.count("queries", queries)
    if rate == 1:
        mu = _search.largest_affordable(lambda mu: gaussian_epsilon(mu, delta), epsilon)
        return math.sqrt(queries) / (mu * _MARGIN)

    def spend(multiplier: float) -> float:
        event = PoissonSubsampled(rate, Gaussian(multiplier))
        return epsilon_for(event, Adjacency.ADD_OR_REMOVE_ONE, queries, delta)

    if queries == 1:
        return 1 / (largest_strength(lambda inverse: spend(1 / inverse), epsilon) * _MARGIN)
    return least_noise(spend, epsilon, gaussian_multiplier(epsilon, delta, rate, 1))


@lru_cache(maxsize=64)
def subsampled_sigma(
    contexts: int, rate: float, epsilon: float, delta: float, queries: int
) -> float:
    """Smallest standard deviation of a noisy sum over subsampled contexts."""
    _check.positive("epsilon", epsilon)

    def spend(sigma: float) -> float:
        return SubsampledSum(contexts, rate, sigma).epsilon(queries, delta)

    if queries == 1:
        most = contexts * SQRT_2
        return most / largest_strength(lambda strength: spend(most / strength), epsilon)
    return least_noise(spend, epsilon, subsampled_sigma(contexts, rate, epsilon, delta, 1))


def least_noise(spend: Callable[[float], float], epsilon: float, least: float) -> float:
    """Noise that ``epsilon`` pays for, within a thousandth of the least.

    For costs that take seconds to compute: few of them are.

    Args:
        spend: Decreasing cost of the noise.
        epsilon: Target, above 0.
        least: Noise that is not more than enough.
    """
    low = high = least
    while spend(high) > epsilon:
        low, high = high, 4 * high
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        if spend(middle) > epsilon:
            low = middle
        else:
            high = middle
    return high


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Exact delta of a Gaussian mechanism of sensitivity over noise ``mu``.

    Balle, Wang 2018, "Improving the Gaussian Mechanism for Differential Privacy", Theorem 8.
    """
    from scipy.special import log_ndtr

    if mu == 0:
        return 0.0
    high = float(log_ndtr(mu / 2 - epsilon / mu))
    low = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return -math.exp(high) * math.expm1(min(0.0, low - high))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Exact epsilon at ``delta`` of a Gaussian mechanism; inverse of `gaussian_delta`."""
    _check.probability("delta", delta)
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    high = 1.0
    while gaussian_delta(mu, high) > delta:
        high *= 2
    found = _search.zero(lambda epsilon: delta - gaussian_delta(mu, epsilon), 0.0, high)
    return found * (1 + 1e-12)


def _pure_strength(
    epsilon: float, delta: float, utility_range: float, factor: int, queries: int
) -> float:
    epsilon = _check.positive("epsilon", epsilon)
    _check.probability("delta", delta)
    share = epsilon / _check.count("queries", queries)
    reach = _check.positive("utility_range", utility_range) * _check.count("factor", factor)
    return _search.largest_within(lambda strength: strength * reach <= share, share / reach)
