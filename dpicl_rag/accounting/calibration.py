"""The largest strength, or the least noise, for a budget; and the cost of many queries."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from dpicl_rag import _validate
from dpicl_rag.accounting import _search, pure_dp, renyi_curves
from dpicl_rag.accounting.accountants import (
    PrivacyLossAccountant,
    PureAccountant,
    RenyiAccountant,
)
from dpicl_rag.accounting.budget import Budget
from dpicl_rag.accounting.conversion import bounded_range_to_rho, gaussian_epsilon, renyi_to_epsilon
from dpicl_rag.accounting.events import (
    BoundedRange,
    Event,
    Gaussian,
    PoissonSubsampled,
    PureDP,
)
from dpicl_rag.accounting.stability import SQRT_2
from dpicl_rag.accounting.subsampling import (
    FixedSizeSubsampled,
    SubsampledSum,
    mixture_epsilon,
)
from dpicl_rag.errors import ConfigurationError

_LITTLE_NOISE = 0.1
"""Noise multiplier with which the search for the least begins; less is never used."""

_DOWN = 1 - 1e-12
"""Rounds to the safe side: a parameter found by a search, and a token's charge, so that up to
4,000 of them, added in float64, stay within the budget."""


def strength_for(budget: Budget, draws: int, utility_range: float) -> float:
    """Largest lambda for which ``draws`` draws together spend the zCDP rho of a budget.

    A draw is (lambda * R * factor)-bounded-range and costs ``(lambda * R * factor)^2 / 8``.

    Args:
        budget: Of one answer.
        draws: How many of them ``budget.rho`` must pay for.
        utility_range: R, the bound on ``max_y f_i(y) - min_y f_i(y)``.

    Returns:
        lambda, rounded down by about one part in 10^12.

    Raises:
        ConfigurationError: The search leaves nothing of the budget, or a number is outside its
            range.
    """
    share = budget.rho / _validate.count("draws", draws)
    return math.sqrt(8 * share) * _DOWN / _reach(budget, utility_range)


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
def bounded_range_strength(budget: Budget, utility_range: float, rate: float = 1.0) -> float:
    """Largest lambda of the exponential mechanism: by pure composition or by Renyi curves.

    One query is purely epsilon-DP. For 16 queries at epsilon 8 it is 6 % above ``strength_for``,
    for 64 it is 1 %; in a sum of zCDP charges they cost slightly more than ``budget.rho``.

    On Poisson samples one query is amplified as any pure mechanism, and meets that. For many no
    exact charge is known: mechanisms of one bounded range have no worst pair among them.

    Args:
        budget: Of all queries.
        utility_range: R.
        rate: Of the Poisson sample that a query reads.

    Raises:
        ConfigurationError: The search leaves nothing of the budget, or R is not above 0; on
            samples, there is a search or more than one query.
    """
    if rate == 1:
        return _strength(
            budget, utility_range, bounded_range_to_rho, renyi_curves.bounded_range_renyi
        )
    if budget.queries > 1:
        raise ConfigurationError(
            "no exact charge is known for many draws of the exponential mechanism on Poisson "
            "samples; use one query, rate 1, votes-gaussian or permute-and-flip"
        )
    return _sampled_strength(budget, utility_range, rate)


@lru_cache(maxsize=256)
def pure_strength(budget: Budget, utility_range: float, rate: float = 1.0) -> float:
    """Largest lambda of a mechanism that is (lambda * R * factor)-DP and nothing better.

    Arguments and errors as in `bounded_range_strength`, but that many queries on Poisson samples
    have an exact charge: the privacy loss distribution of sampled randomised response. Delta alone
    must not pay for the samples then.
    """
    if rate == 1:
        return _strength(budget, utility_range, pure_dp.zcdp, pure_dp.renyi)
    one = _sampled_strength(replace(budget, queries=1), utility_range, rate)
    if budget.queries == 1:
        return one
    _require_noise(budget, rate)
    reach = _reach(budget, utility_range)

    def spend(noise: float) -> float:
        return epsilon_for(PoissonSubsampled(rate, PureDP(reach / noise)), budget)

    return 1 / least_noise(spend, budget.epsilon, 1 / one)


@lru_cache(maxsize=256)
def gaussian_multiplier(budget: Budget, rate: float = 1.0) -> float:
    """Smallest noise multiplier of Gaussian noise, with Poisson subsampling at ``rate``.

    Without subsampling by the exact formula of one Gaussian mechanism, which any number of them
    compose to; with it by privacy loss distributions, under add-or-remove adjacency.

    Raises:
        ConfigurationError: The search leaves nothing of the budget, or there is one beside
            subsampling; or delta alone would pay for the samples.
    """
    if rate == 1:
        return math.sqrt(budget.queries) / (budget.gaussian_mu() * _DOWN)
    _refuse_search(budget)
    _require_noise(budget, rate)

    def spend(multiplier: float) -> float:
        return epsilon_for(PoissonSubsampled(rate, Gaussian(multiplier)), budget)

    if budget.queries == 1:
        return 1 / (largest_strength(lambda inverse: spend(1 / inverse), budget.epsilon) * _DOWN)
    one = replace(budget, queries=1)
    least = gaussian_multiplier(one, rate) if rate > budget.delta else _LITTLE_NOISE
    return least_noise(spend, budget.epsilon, least)


@lru_cache(maxsize=256)
def fixed_size_multiplier(budget: Budget, fraction: float) -> float:
    """Smallest noise multiplier of Gaussian noise on samples of a fixed size, for replaced units.

    Raises:
        ConfigurationError: The budget is for units that come and go, or has a search; or delta
            alone would pay for the samples.
    """
    _refuse_search(budget)
    _require_noise(budget, fraction)

    def spend(multiplier: float) -> float:
        return epsilon_for(FixedSizeSubsampled(fraction, Gaussian(multiplier)), budget)

    return least_noise(spend, budget.epsilon, _LITTLE_NOISE)


@lru_cache(maxsize=64)
def subsampled_sigma(budget: Budget, contexts: int, rate: float) -> float:
    """Smallest standard deviation of a noisy sum over subsampled contexts.

    Raises:
        ConfigurationError: The budget is for replacements, or has a search; or delta alone would
            pay for the samples.
    """
    _refuse_search(budget)
    _require_noise(budget, rate, contexts)

    def spend(sigma: float) -> float:
        return epsilon_for(SubsampledSum(contexts, rate, sigma), budget)

    if budget.queries == 1:
        most = contexts * SQRT_2
        return most / largest_strength(lambda strength: spend(most / strength), budget.epsilon)
    one = replace(budget, queries=1)
    least = subsampled_sigma(one, contexts, rate) if rate > budget.delta else _LITTLE_NOISE
    return least_noise(spend, budget.epsilon, least)


def epsilon_for(event: Event, budget: Budget) -> float:
    """Epsilon at the budget's delta of an event that is paid for in each of its queries.

    Gaussian noise by its exact formula, and so one query on subsamples; many by privacy loss
    distributions; the exponential mechanism and pure DP by sums of epsilon or
    exact Renyi curves, whichever is less. On subsamples pure DP composes by privacy loss
    distributions, the exponential mechanism by sums of epsilon. The search is not in it.

    Raises:
        ConfigurationError: The event cannot be composed under the budget's adjacency.
    """
    adjacency, queries, delta = budget.adjacency, budget.queries, budget.delta
    match event:
        case Gaussian(multiplier):
            return gaussian_epsilon(math.sqrt(queries) / multiplier, delta)
        case PureDP() | BoundedRange():
            pure = PureAccountant(adjacency).compose(event, queries).epsilon(delta)
            return min(pure, RenyiAccountant(adjacency).compose(event, queries).epsilon(delta))
        case PoissonSubsampled(_, PureDP()) if queries == 1:
            return PureAccountant(adjacency).compose(event).epsilon(delta)
        case PoissonSubsampled(_, BoundedRange()):
            return PureAccountant(adjacency).compose(event, queries).epsilon(delta)
    # Refuses what it cannot compose, also where the formula below is exact.
    accountant = PrivacyLossAccountant(adjacency).compose(event, queries)
    match event:
        case PoissonSubsampled(rate, Gaussian(multiplier)) if queries == 1:
            return mixture_epsilon([0.0, 1.0], [1 - rate, rate], multiplier, delta)
        case SubsampledSum() if queries == 1:
            return mixture_epsilon(*event.mixture, event.sigma, delta)
        case _:
            return accountant.epsilon(delta)


def _strength(
    budget: Budget,
    utility_range: float,
    rho_of: Callable[[float], float],
    renyi: Callable[[float, float], float],
) -> float:
    """Largest lambda of purely private draws of one kind, given its zCDP and its Renyi curve."""
    reach = _reach(budget, utility_range)
    share = budget.pure_epsilon(rho_of) / budget.queries
    pure = _search.largest_within(lambda strength: strength * reach <= share, share / reach)
    if budget.queries == 1:
        return pure

    def spend(strength: float) -> float:
        def curve(alpha: float) -> float:
            return budget.queries * renyi(strength * reach, alpha)

        return renyi_to_epsilon(curve, budget.delta)

    return max(pure, largest_strength(spend, budget.epsilon))


def _sampled_strength(budget: Budget, utility_range: float, rate: float) -> float:
    """Largest lambda of one purely private draw on a Poisson sample."""
    _refuse_search(budget)
    _validate.rate("rate", rate)
    reach = _reach(budget, utility_range)

    def spend(strength: float) -> float:
        return pure_dp.amplified_epsilon(strength * reach, rate)

    return largest_strength(spend, budget.epsilon) * _DOWN


def _refuse_search(budget: Budget) -> None:
    if budget.search_rho > 0:
        raise ConfigurationError(
            "a search is priced beside draws without subsampling only; use rate 1"
        )


def _require_noise(budget: Budget, rate: float, contexts: int = 1) -> None:
    """Raise where a unit is so seldom sampled that delta covers it without any noise."""
    rate = _validate.rate("rate", rate)
    draws = budget.queries * contexts
    ever = 1.0 if rate == 1 else -math.expm1(draws * math.log1p(-rate))
    if ever <= budget.delta:
        raise ConfigurationError(
            f"delta {budget.delta:g} is not below the chance {ever:.3g} that a unit is ever "
            "sampled, so no noise would be needed; choose a smaller delta"
        )


def _reach(budget: Budget, utility_range: float) -> float:
    factor = _validate.count("factor", budget.factor)
    return _validate.positive("utility_range", utility_range) * factor
