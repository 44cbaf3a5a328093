"""The largest strength lambda that a budget pays for."""

from __future__ import annotations

import math

from dpicl_rag.accounting import _check, bounded_range
from dpicl_rag.accounting.conversion import largest_within, renyi_to_epsilon

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

    About one part in a hundred above ``strength_for`` at the same target. Only for a budget of
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

    def spend(per_token: float) -> float:
        return renyi_to_epsilon(lambda alpha: tokens * bounded_range.renyi(per_token, alpha), delta)

    # One draw of an epsilon-BR mechanism is already epsilon-DP, and no token can cost less than
    # its share of a plain sum.
    low, high = epsilon / tokens, max(epsilon, 1.0)
    while spend(high) <= epsilon:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if spend(middle) <= epsilon else (low, middle)
    return largest_within(lambda strength: spend(strength * reach) <= epsilon, low / reach)


def _reach(utility_range: float, factor: int) -> float:
    return _check.positive("utility_range", utility_range) * _check.count("factor", factor)
