"""The largest strength (lambda, or inverse noise) that a budget pays for."""

from __future__ import annotations

import math
from collections.abc import Callable

from dpicl_rag.accounting import _check, _search, bounded_range
from dpicl_rag.accounting.conversion import renyi_to_epsilon

_SUM_MARGIN = 1e-12
"""Relative. Token charges added in float64 stay within the budget for up to 4,000 tokens."""


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
    rho = _check.positive("rho", rho)
    reach = _reach(utility_range, factor)
    share = rho / _check.count("tokens", tokens)
    return math.sqrt(8 * share) * (1 - _SUM_MARGIN) / reach


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
    epsilon = _check.positive("epsilon", epsilon)
    delta = _check.probability("delta", delta)
    tokens = _check.count("tokens", tokens)
    reach = _reach(utility_range, factor)

    def spend(strength: float) -> float:
        return renyi_to_epsilon(
            lambda alpha: tokens * bounded_range.renyi(strength * reach, alpha), delta
        )

    return largest_strength(spend, epsilon)


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
    return _search.largest_affordable(spend, _check.positive("epsilon", epsilon))


def _reach(utility_range: float, factor: int) -> float:
    return _check.positive("utility_range", utility_range) * _check.count("factor", factor)
