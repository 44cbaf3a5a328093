"""One-dimensional searches, each with the shape of function it needs."""

from __future__ import annotations

import math
from collections.abc import Callable

_LOG_ORDERS = range(-16, 42, 2)
"""Coarse grid of log(order - 1). Between its ends lie the best orders for rho from 1e-30 to
1e13."""


def zero(function: Callable[[float], float], low: float, high: float) -> float:
    """Zero of an increasing function, or the end of the interval that is nearest to it."""
    from scipy.optimize import brentq

    if function(low) >= 0:
        return low
    if function(high) <= 0:
        return high
    return float(brentq(function, low, high, xtol=1e-14, rtol=1e-14, maxiter=1000))


def least_over_orders(bound: Callable[[float], float]) -> float:
    """Least ``bound(order)`` over Renyi orders above 1.

    For a true Renyi curve R, (a - 1) R(a) is convex, so the orders at which a conversion is below
    any level form an interval: the best order lies beside the best point of a coarse grid. For an
    upper bound of a curve the result may be larger than the least, which is still sound.
    """
    from scipy.optimize import minimize_scalar

    def at(log_x: float) -> float:
        return bound(1 + math.exp(log_x))

    coarse, best = min((at(log_x), log_x) for log_x in _LOG_ORDERS)
    if coarse == 0 or math.isinf(coarse):
        return coarse
    found = minimize_scalar(
        at, bounds=(best - 2, best + 2), method="bounded", options={"xatol": 1e-9}
    )
    return min(coarse, float(found.fun))


def largest_within(fits: Callable[[float], bool], guess: float) -> float:
    """Step ``guess`` down, by rounding errors first, until ``fits`` holds as computed."""
    step = 2.0**-52
    value = guess
    while not fits(value):
        value = guess * (1 - step)
        step *= 2
    return value


def largest_affordable(spend: Callable[[float], float], budget: float) -> float:
    """Largest value with ``spend(value) <= budget`` as computed, for an increasing ``spend``."""
    low = high = 1.0
    while spend(high) <= budget:
        low, high = high, 2 * high
    while spend(low) > budget:
        low, high = low / 2, low
    # The ceiling keeps infinities out of the interpolation.
    log_value = zero(
        lambda log_value: min(spend(math.exp(log_value)), 3 * budget) - budget,
        math.log(low),
        math.log(high),
    )
    return largest_within(lambda value: spend(value) <= budget, math.exp(log_value))
