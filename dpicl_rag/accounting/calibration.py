"""The largest strength, or the least noise, that a budget pays for; and what many queries cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from dpicl_rag import _validate
from dpicl_rag.accounting import _search, bounded_range, pure_dp
from dpicl_rag.accounting.accountants import (
    PrivacyLossAccountant,
    PureAccountant,
    RenyiAccountant,
)
from dpicl_rag.accounting.budget import Budget
from dpicl_rag.accounting.conversion import (
    bounded_range_to_rho,
    renyi_to_epsilon,
    rho_to_epsilon,
)
from dpicl_rag.accounting.events import (
    BoundedRange,
    Event,
    Gaussian,
    PoissonSubsampled,
    PureDP,
)
from dpicl_rag.accounting.gaussian import gaussian_epsilon
from dpicl_rag.accounting.mixture_of_gaussians import SubsampledSum, mixture_epsilon
from dpicl_rag.accounting.stability import SQRT_2, Adjacency
from dpicl_rag.errors import ConfigurationError

_INTERVAL = 1e-3
"""Privacy losses of subsampled noise are rounded up to multiples of it."""

_DOWN = 1 - 1e-12
"""Rounds to the safe side: a parameter found by a search, and a token's charge, so that up to
4,000 of them, added in float64, stay within the budget."""


def strength_for(rho: float, tokens: int, utility_range: float, factor: int) -> float:
    """Largest lambda for which ``tokens`` draws spend ``rho`` of zCDP.

    A draw is (lambda * R * factor)-bounded-range and costs ``(lambda * R * factor)^2 / 8``.

    Args:
        rho: zCDP budget of the answer, above 0.
        tokens: Number of draws the budget must pay for.
        utility_range: R, the bound on ``max_y f_i(y) - min_y f_i(y)``.
        factor: Multiplier of the pipeline's stability, see ``Stability.factor``.

    Returns:
        lambda, rounded down by about one part in 10^12.

    Raises:
        ConfigurationError: An argument is outside its range.
    """
    rho = _validate.positive("rho", rho)
    reach = _reach(utility_range, factor)
    share = rho / _validate.count("tokens", tokens)
    return math.sqrt(8 * share) * _DOWN / reach


def exact_strength_for(
    epsilon: float, delta: float, tokens: int, utility_range: float, factor: int
) -> float:
    """Largest lambda for which ``tokens`` draws are (epsilon, delta)-DP by the exact Renyi curve.

    At epsilon 8, 6 % above ``strength_for`` for 16 tokens and 1 % for 64. Only for a budget of
    one answer: in a sum of zCDP charges these draws cost slightly more than the target's rho.

    Args:
        epsilon: Above 0.
        delta: Strictly between 0 and 1.
        tokens: Number of draws.
        utility_range: R, the bound on ``max_y f_i(y) - min_y f_i(y)``.
        factor: Multiplier of the pipeline's stability, see ``Stability.factor``.

    Raises:
        ConfigurationError: An argument is outside its range.
    """
    tokens = _validate.count("tokens", tokens)
    reach = _reach(utility_range, factor)
    return _by_renyi(bounded_range.renyi, epsilon, delta, tokens, reach)


def largest_strength(spend: Callable[[float], float], epsilon: float) -> float:
    """Largest parameter that a target pays for, for any mechanism and accountant.

    For a noise multiplier search over its inverse, so that the cost increases::

        def spend(strength):
            event = PoissonSubsampled(0.1, Gaussian(1 / strength))
            return PrivacyLossAccountant(adjacency).compose(event, 1000).epsilon(1e-5)

    Args:
        spend: Increasing, continuous cost of the parameter, 0 or more; must pass ``epsilon``.
        epsilon: Target, above 0.

    Returns:
        The largest parameter found with ``spend(parameter) <= epsilon`` as computed.

    Raises:
        ConfigurationError: ``epsilon`` is not a finite number above 0.
    """
    return _search.largest_affordable(spend, _validate.positive("epsilon", epsilon))


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


@lru_cache(maxsize=256)
def bounded_range_strength(budget: Budget, utility_range: float) -> float:
    """Largest lambda of the exponential mechanism: by pure composition or by Renyi curves.

    One query is purely epsilon-DP.

    Args:
        budget: Of all queries.
        utility_range: R.

    Raises:
        ConfigurationError: The search leaves nothing of the budget, or R is not above 0.
    """
    return _strength(budget, utility_range, bounded_range_to_rho, bounded_range.renyi)


@lru_cache(maxsize=256)
def pure_strength(budget: Budget, utility_range: float) -> float:
    """Largest lambda of a mechanism that is (lambda * R * factor)-DP and nothing better.

    Arguments and errors as in `bounded_range_strength`.
    """
    return _strength(budget, utility_range, pure_dp.zcdp, pure_dp.renyi)


@lru_cache(maxsize=256)
def gaussian_multiplier(budget: Budget, rate: float = 1.0) -> float:
    """Smallest noise multiplier of Gaussian noise, with Poisson subsampling at ``rate``.

    Without subsampling by the exact formula of one Gaussian mechanism, which any number of them
    compose to; with it by privacy loss distributions, under add-or-remove adjacency.

    Raises:
        ConfigurationError: The search leaves nothing of the budget, or there is one beside
            subsampling.
    """
    epsilon, delta, queries = budget.epsilon, budget.delta, budget.queries
    if rate < 1:
        _refuse_search(budget)

        def spend(multiplier: float) -> float:
            return epsilon_for(PoissonSubsampled(rate, Gaussian(multiplier)), budget)

        if queries == 1:
            return 1 / (largest_strength(lambda inverse: spend(1 / inverse), epsilon) * _DOWN)
        return least_noise(spend, epsilon, gaussian_multiplier(replace(budget, queries=1), rate))
    if budget.search_rho > 0:
        # As in Budget.pure_epsilon, two sound ways to add the search up: both as zCDP, or each
        # as an epsilon at half of delta.
        by_rho = 1 / (math.sqrt(2 * budget.rho) * _DOWN)
        left = epsilon - rho_to_epsilon(budget.search_rho, delta / 2)
        return by_rho if left <= 0 else min(by_rho, gaussian_multiplier(Budget(left, delta / 2)))
    mu = _search.largest_affordable(lambda mu: gaussian_epsilon(mu, delta), epsilon)
    return math.sqrt(queries) / (mu * _DOWN)


@lru_cache(maxsize=64)
def subsampled_sigma(budget: Budget, contexts: int, rate: float) -> float:
    """Smallest standard deviation of a noisy sum over subsampled contexts.

    Raises:
        ConfigurationError: The budget is for replacements, or has a search.
    """
    _refuse_search(budget)

    def spend(sigma: float) -> float:
        return epsilon_for(SubsampledSum(contexts, rate, sigma), budget)

    if budget.queries == 1:
        most = contexts * SQRT_2
        return most / largest_strength(lambda strength: spend(most / strength), budget.epsilon)
    one = subsampled_sigma(replace(budget, queries=1), contexts, rate)
    return least_noise(spend, budget.epsilon, one)


def epsilon_for(event: Event, budget: Budget) -> float:
    """Epsilon at the budget's delta of an event that is paid for in each of its queries.

    Gaussian noise by its exact formula; Poisson subsampling by privacy loss distributions
    (``dp_accounting``); the exponential mechanism and pure DP by sums of epsilon or exact Renyi
    curves, whichever is less. A search comes on top.

    Raises:
        ConfigurationError: The event cannot be composed under the budget's adjacency.
    """
    adjacency, queries, delta = budget.adjacency, budget.queries, budget.delta
    match event:
        case SubsampledSum():
            if adjacency is Adjacency.REPLACE_ONE:
                raise ConfigurationError(
                    "Poisson subsampling amplifies under add-or-remove adjacency only"
                )
            return event.epsilon(queries, delta)
        case Gaussian(multiplier):
            return gaussian_epsilon(math.sqrt(queries) / multiplier, delta)
        case PureDP() | BoundedRange():
            pure = PureAccountant(adjacency).compose(event, queries).epsilon(delta)
            return min(pure, RenyiAccountant(adjacency).compose(event, queries).epsilon(delta))
    # Refuses what it cannot compose, also where the formula below is exact.
    accountant = PrivacyLossAccountant(adjacency, _INTERVAL).compose(event, queries)
    match event:
        case PoissonSubsampled(rate, Gaussian(multiplier)) if queries == 1:
            return mixture_epsilon([0.0, 1.0], [1 - rate, rate], multiplier, delta)
        case _:
            return accountant.epsilon(delta)


def _strength(
    budget: Budget,
    utility_range: float,
    rho_of: Callable[[float], float],
    renyi: Callable[[float, float], float],
) -> float:
    """Largest lambda of purely private draws of one kind, given its zCDP and its Renyi curve."""
    reach = _reach(utility_range, budget.factor)
    share = budget.pure_epsilon(rho_of) / budget.queries
    pure = _search.largest_within(lambda strength: strength * reach <= share, share / reach)
    if budget.queries == 1:
        return pure
    return max(pure, _by_renyi(renyi, budget.epsilon, budget.delta, budget.queries, reach))


def _by_renyi(
    renyi: Callable[[float, float], float], epsilon: float, delta: float, draws: int, reach: float
) -> float:
    def spend(strength: float) -> float:
        return renyi_to_epsilon(lambda alpha: draws * renyi(strength * reach, alpha), delta)

    return largest_strength(spend, epsilon)


def _refuse_search(budget: Budget) -> None:
    if budget.search_rho > 0:
        raise ConfigurationError(
            "a search is priced beside draws without subsampling only; use rate 1"
        )


def _reach(utility_range: float, factor: int) -> float:
    return _validate.positive("utility_range", utility_range) * _validate.count("factor", factor)
