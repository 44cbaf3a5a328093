"""Exact numerical conversions between zCDP, Renyi curves, Gaussian noise and (epsilon, delta).

All but those of Gaussian noise use one bound, Canonne, Kamath, Steinke 2020 ("The Discrete Gaussian
for Differential Privacy", Proposition 12): a mechanism whose Renyi divergence of order a is at most
R(a) is (epsilon, delta)-DP for every a > 1 with

    delta = exp((a - 1) * (R(a) - epsilon)) / (a - 1) * (1 - 1/a)**a,

and zCDP is R(a) = a * rho. Every order is sound by itself, so a search that stops early is still
an upper bound. Below, ``x`` stands for ``a - 1``: near order 1 that keeps the digits.

Where all of rho is of Gaussian noise, it is the rho of one Gaussian mechanism with
mu^2 = 2 rho (docs/privacy.md, "Budgets for Gaussian noise"), whose delta is known exactly: 13 to
18 percent more rho has the same epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from dpicl_rag import _validate
from dpicl_rag.accounting import _search

if TYPE_CHECKING:
    import numpy as np


DELTA = 1e-5
"""Delta of answers, and at which epsilon is told, where no other is named."""

NANO = 10**9
"""Nano-rho in a rho: budgets and charges of a ledger are whole nano-rho."""

_GRAIN = 1e-9
"""More, as a part of rho, than the grid costs on which Gaussian noise is drawn."""


def rho_to_delta(rho: float, epsilon: float) -> float:
    """Smallest delta for which rho-zCDP implies (epsilon, delta)-DP by the bound above.

    The logarithm of the bound is convex in the order, so the best order is the only zero of its
    derivative, ``(2x + 1) rho - epsilon - log(1 + 1/x)``.

    Args:
        rho: zCDP parameter, 0 or more.
        epsilon: 0 or more.

    Raises:
        ConfigurationError: An argument is negative or not a number.
    """
    rho = _validate.non_negative("rho", rho)
    epsilon = _validate.non_negative("epsilon", epsilon)
    if rho == 0 or math.isinf(epsilon):
        return 0.0
    if math.isinf(rho):
        return 1.0

    def slope(log_x: float) -> float:
        x = math.exp(log_x)
        return (2 * x + 1) * rho - epsilon - math.log1p(1 / x)

    log_x = _search.zero(slope, -690.0, 690.0)
    return _delta_at(math.exp(log_x), rho * (1 + math.exp(log_x)), epsilon)


def rho_to_epsilon(rho: float, delta: float, *, gaussian: bool = False) -> float:
    """Smallest epsilon for which rho-zCDP implies (epsilon, delta)-DP by the bound above.

    The best order is the only zero of an increasing function, ``rho x^2 + log(1 + x) -
    log(1/delta)``.

    Args:
        rho: zCDP parameter, 0 or more.
        delta: Strictly between 0 and 1.
        gaussian: All of it is of Gaussian noise: exactly then, and less.

    Raises:
        ConfigurationError: An argument is outside its range.
    """
    rho = _validate.non_negative("rho", rho)
    log_inverse = -math.log(_validate.probability("delta", delta))
    if rho == 0:
        return 0.0
    if math.isinf(rho):
        return math.inf
    if gaussian:
        return gaussian_epsilon(math.sqrt(2 * rho * (1 + _GRAIN)), delta)

    def slope(log_x: float) -> float:
        x = math.exp(log_x)
        return rho * x * x + math.log1p(x) - log_inverse

    # Both terms are positive, so neither alone may exceed the right-hand side.
    high = min(0.5 * math.log(log_inverse / rho), _log_expm1(log_inverse))
    x = math.exp(_search.zero(slope, high - 400.0, high))
    return _epsilon_at(x, rho * (1 + x), log_inverse)


@lru_cache(maxsize=256)  # a search of some milliseconds, asked again for every question
def epsilon_to_rho(epsilon: float, delta: float, *, gaussian: bool = False) -> float:
    """Largest rho such that rho-zCDP implies (epsilon, delta)-DP by the bound above.

    The result is rounded down: ``rho_to_epsilon(result, delta) <= epsilon`` holds as computed.
    From one nano-rho on it is a whole number of them. A ledger rounds charges up and budgets down;
    so both stay what they are, and a budget of epsilon pays for an answer of epsilon.

    Args:
        epsilon: Finite, above 0.
        delta: Strictly between 0 and 1.
        gaussian: See `rho_to_epsilon`.

    Raises:
        ConfigurationError: An argument is outside its range.
    """
    epsilon = _validate.positive("epsilon", epsilon)
    delta = _validate.probability("delta", delta)
    rho = _search.largest_affordable(
        lambda rho: rho_to_epsilon(rho, delta, gaussian=gaussian), epsilon
    )
    whole = math.floor(Fraction(rho) * NANO)
    # Less than one is kept for callers without a ledger, which cannot pay so little.
    return whole / NANO if whole else rho


def renyi_to_epsilon(curve: Callable[[float], float], delta: float) -> float:
    """Smallest epsilon at ``delta`` of a mechanism with the given Renyi curve.

    Args:
        curve: Order (above 1) to Renyi divergence in nats; may return infinity.
        delta: Strictly between 0 and 1.

    Raises:
        ConfigurationError: ``delta`` is outside its range.
    """
    log_inverse = -math.log(_validate.probability("delta", delta))
    return _search.least_over_orders(
        lambda order: _epsilon_at(order - 1, curve(order), log_inverse)
    )


def renyi_to_delta(curve: Callable[[float], float], epsilon: float) -> float:
    """Smallest delta at ``epsilon`` of a mechanism with the given Renyi curve.

    Args:
        curve: Order (above 1) to Renyi divergence in nats; may return infinity.
        epsilon: 0 or more.

    Raises:
        ConfigurationError: ``epsilon`` is negative or not a number.
    """
    epsilon = _validate.non_negative("epsilon", epsilon)
    if math.isinf(epsilon):
        return 0.0
    return _search.least_over_orders(lambda order: _delta_at(order - 1, curve(order), epsilon))


def bounded_range_to_rho(epsilon: float) -> float:
    """Rho of zCDP of an epsilon-bounded-range draw: ``epsilon^2 / 8``.

    Source: Cesar, Rogers 2021 ("Bounding, Concentrating, and Truncating").

    Raises:
        ConfigurationError: ``epsilon`` is negative or not a number.
    """
    epsilon = _validate.non_negative("epsilon", epsilon)
    return epsilon * epsilon / 8


def _epsilon_at(x: float, divergence: float, log_inverse: float) -> float:
    """The bound solved for epsilon at order ``1 + x``; ``log_inverse`` is log(1/delta)."""
    if divergence == 0:
        return 0.0
    if math.isinf(divergence):
        return math.inf
    return max(0.0, divergence + (log_inverse - math.log1p(x)) / x - math.log1p(1 / x))


def _delta_at(x: float, divergence: float, epsilon: float) -> float:
    """The bound at order ``1 + x``, at most 1; a divergence of 0 means equal distributions."""
    if divergence == 0:
        return 0.0
    if math.isinf(divergence):
        return 1.0
    log_delta = x * (divergence - epsilon - math.log1p(1 / x)) - math.log1p(x)
    return math.exp(min(0.0, log_delta))


def _log_expm1(value: float) -> float:
    """log(exp(value) - 1) without overflow."""
    return value + math.log(-math.expm1(-value))


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Exact delta of a Gaussian mechanism of sensitivity over noise ``mu``.

    Balle, Wang 2018, "Improving the Gaussian Mechanism for Differential Privacy", Theorem 8.
    """
    return float(gaussian_deltas(mu, epsilon))


def gaussian_deltas(mu: float, epsilons: np.ndarray | float) -> np.ndarray:
    """`gaussian_delta` at many epsilons, float64 of their shape."""
    import numpy as np
    from scipy.special import log_ndtr

    if mu == 0:
        return np.zeros(np.shape(epsilons))
    high = log_ndtr(mu / 2 - epsilons / mu)
    low = epsilons + log_ndtr(-mu / 2 - epsilons / mu)
    return np.asarray(-np.exp(high) * np.expm1(np.minimum(0.0, low - high)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Exact epsilon at ``delta`` of a Gaussian mechanism; inverse of `gaussian_delta`.

    Raises:
        ConfigurationError: ``delta`` is outside its range.
    """
    _validate.probability("delta", delta)
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    high = 1.0
    while gaussian_delta(mu, high) > delta:
        high *= 2
    found = _search.zero(lambda epsilon: delta - gaussian_delta(mu, epsilon), 0.0, high)
    return found * (1 + 1e-12)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest sensitivity over noise of an (epsilon, delta)-DP Gaussian mechanism."""
    return _search.largest_affordable(lambda mu: gaussian_epsilon(mu, delta), epsilon)
