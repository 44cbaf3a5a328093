"""Renyi curves of events, that of a bounded-range mechanism exactly.

A mechanism is e-bounded-range (e-BR) when, for any two neighbours, its log ratio over outcomes
lies in an interval of length e (Durfee, Rogers 2019). The worst case has two outcomes, with log
ratios t and t - e for some t in [0, e] (Dong, Durfee, Rogers 2020, "Optimal Differential Privacy
Composition for Exponential Mechanisms", section 3). With

    q = (1 - exp(t - e)) / (exp(t) - exp(t - e))

its divergence of order a is ``log(q exp(a t) + (1 - q) exp(a (t - e))) / (a - 1)``. Collecting
terms, the sum is proportional to

    exp((a - 1) t) * (1 - exp(-a e)) - exp(a t) * (exp(-e) - exp(-a e)),

whose derivative in t has one zero. Put back in, and with s(x) = log(sinh(x/2) / (x/2)),

    R(a) = s(a e) - s((a - 1) e) + (s(a e) - s(e)) / (a - 1).

To leading order s(x) is x^2/24 and R(a) is a e^2/8, the zCDP bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from dpicl_rag import _validate
from dpicl_rag.accounting import pure_dp
from dpicl_rag.accounting.events import (
    BoundedRange,
    Event,
    Gaussian,
    PureDP,
    ZeroConcentrated,
    leaves,
)
from dpicl_rag.errors import ConfigurationError

Curve = Callable[[float], float]
"""Order (above 1) to an upper bound, in nats, on the Renyi divergence in both directions."""


def renyi_curve(event: Event) -> Curve:
    """Renyi curve of ``event``.

    Exact for one pure DP, bounded-range or Gaussian mechanism; otherwise a sum of such curves.

    Raises:
        ConfigurationError: The event has no Renyi curve here, such as a subsampled one.
    """
    parts = [(_leaf_curve(leaf), count) for leaf, count in leaves(event)]
    return lambda alpha: math.fsum(count * curve(alpha) for curve, count in parts)


def gaussian_rho(event: Event) -> float | None:
    """Rho (zCDP) of an event made of Gaussian noise only, or None for any other.

    Adaptively composed Gaussian mechanisms are as private as one with this rho.
    """
    parts = list(leaves(event))
    if not all(isinstance(leaf, Gaussian) for leaf, _ in parts):
        return None
    return math.fsum(
        count / (2 * leaf.noise_multiplier**2)
        for leaf, count in parts
        if isinstance(leaf, Gaussian)
    )


def _leaf_curve(leaf: Event) -> Curve:
    match leaf:
        case PureDP(epsilon):
            return lambda alpha: pure_dp.renyi(epsilon, alpha)
        case BoundedRange(epsilon):
            return lambda alpha: bounded_range_renyi(epsilon, alpha)
        case ZeroConcentrated(rho):
            return lambda alpha: alpha * rho
        case Gaussian(noise_multiplier):
            return lambda alpha: alpha / (2 * noise_multiplier**2)
        case _:
            raise ConfigurationError(f"{type(leaf).__name__} has no Renyi curve")


_SERIES = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
    -3617 / 10670622842880000,
)
"""B_2n / (2n)!: the derivative of s is the sum of these times x^(2n - 1)."""


def bounded_range_renyi(epsilon: float, alpha: float) -> float:
    """Largest Renyi divergence of order ``alpha`` of any ``epsilon``-bounded-range mechanism.

    Relative error stays near 1e-14 from tiny to large epsilon and orders.

    Args:
        epsilon: Length of the interval of log ratios, in nats; 0 or more.
        alpha: Order, 1 or more; 1 is the KL divergence, infinity gives ``epsilon``.

    Returns:
        The divergence in nats, at most ``min(epsilon, alpha * epsilon**2 / 8)``.

    Raises:
        ConfigurationError: An argument is outside its range.
    """
    epsilon = _validate.non_negative("epsilon", epsilon)
    if not alpha >= 1:
        raise ConfigurationError("alpha must be 1 or more")
    if epsilon == 0:
        return 0.0
    above = alpha - 1
    if alpha * epsilon > 1e300:
        return epsilon
    divergence = _rise(above * epsilon, epsilon)
    if above * epsilon <= 1:
        divergence += epsilon * _mean_slope(epsilon, above * epsilon)
    else:
        divergence += _rise(epsilon, above * epsilon) / above
    return min(epsilon, divergence)


def _rise(start: float, width: float) -> float:
    """s(start + width) - s(start), without cancellation."""
    if width <= 1:
        return width * _mean_slope(start, width)
    return width / 2 + _log_ratio(start + width) - _log_ratio(start)


def _mean_slope(start: float, width: float) -> float:
    """Mean of the derivative of s over [start, start + width], for a width of at most 1.

    Gauss-Legendre with 12 nodes is exact to rounding there: the nearest pole is at 2 pi i.
    """
    return math.fsum(weight * _slope(start + width * node) for node, weight in _nodes())


def _slope(x: float) -> float:
    """Derivative of s: coth(x/2)/2 - 1/x."""
    if x >= 0.5:
        return 0.5 / math.tanh(x / 2) - 1 / x
    square = x * x
    value = 0.0
    for coefficient in reversed(_SERIES):
        value = value * square + coefficient
    return value * x


def _log_ratio(x: float) -> float:
    """log((1 - exp(-x)) / x), which is s(x) - x/2."""
    return math.log(-math.expm1(-x) / x) if x > 0 else 0.0


@cache
def _nodes() -> tuple[tuple[float, float], ...]:
    """Gauss-Legendre nodes and weights on [0, 1]."""
    from numpy.polynomial.legendre import leggauss

    nodes, weights = leggauss(12)
    return tuple(
        (float(node + 1) / 2, float(weight) / 2)
        for node, weight in zip(nodes, weights, strict=True)
    )
