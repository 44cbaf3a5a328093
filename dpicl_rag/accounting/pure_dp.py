"""Pure differential privacy: exact Renyi curve, zCDP and delta.

The worst case of epsilon-DP is randomised response, with log ratios +-epsilon: a mechanism that is
only known to be epsilon-DP spans twice the range of an epsilon-bounded-range one.
"""

from __future__ import annotations

import math

from dpicl_rag import _validate
from dpicl_rag.errors import ConfigurationError


def renyi(epsilon: float, alpha: float) -> float:
    """Largest Renyi divergence of order ``alpha`` of any ``epsilon``-DP mechanism, in nats.

    Source: Bun, Steinke 2016, Proposition 3.3 (tight: Steinke 2024, "Sharp RDP & zCDP from Pure
    DP", Theorem 4). The quotient of hyperbolic sines there is written as a sum of positive terms.

    Args:
        epsilon: 0 or more.
        alpha: Order, 1 or more; 1 is the KL divergence.

    Raises:
        ConfigurationError: An argument is outside its range.
    """
    epsilon = _validate.non_negative("epsilon", epsilon)
    if not alpha >= 1:
        raise ConfigurationError("alpha must be 1 or more")
    above = alpha - 1
    width = above * epsilon
    half = math.tanh(epsilon / 2)
    if above == 0:
        return epsilon * half
    if width > 300:
        # cosh(width + epsilon/2) / cosh(epsilon/2), where the smaller exponential is gone.
        return epsilon - math.log1p(math.exp(-epsilon)) / above
    excess = 2 * math.sinh(width / 2) ** 2 + math.sinh(width) * half
    return min(epsilon, math.log1p(excess) / above)


def zcdp(epsilon: float) -> float:
    """Smallest rho such that every ``epsilon``-DP mechanism is rho-zCDP.

    ``epsilon * tanh(epsilon / 2)``, at most ``epsilon^2 / 2`` (Steinke 2024, Theorem 5).

    Raises:
        ConfigurationError: ``epsilon`` is negative.
    """
    epsilon = _validate.non_negative("epsilon", epsilon)
    return epsilon * math.tanh(epsilon / 2)


def delta(total: float, epsilon: float) -> float:
    """Smallest delta for which ``total``-DP implies (epsilon, delta)-DP.

    ``(e^total - e^epsilon) / (e^total + 1)``, the value for randomised response (Kairouz, Oh,
    Viswanath 2015, for one mechanism).
    """
    if epsilon >= total:
        return 0.0
    return -math.expm1(epsilon - total) / (1 + math.exp(-total))


def epsilon(total: float, delta: float) -> float:
    """Smallest epsilon for which ``total``-DP implies (epsilon, delta)-DP; inverse of `delta`."""
    share = delta * (1 + math.exp(-total))
    return max(0.0, total + math.log1p(-share)) if share < 1 else 0.0


def amplified_epsilon(epsilon: float, rate: float) -> float:
    """Epsilon of an epsilon-DP mechanism on a secret subsample: log(1 + q (e^epsilon - 1)).

    Source: Balle, Barthe, Gaboardi 2018: Theorem 8 for a Poisson sample under add-or-remove
    adjacency, Theorem 9 for one of a fixed size, q of all, under replace-one adjacency.

    Args:
        epsilon: Without subsampling, 0 or more.
        rate: q, from 0 to 1.
    """
    if epsilon < 700:
        return math.log1p(rate * math.expm1(epsilon))
    if rate == 0:
        return 0.0
    log_share = epsilon + math.log(rate)
    return max(0.0, log_share) + math.log1p(math.exp(-abs(log_share)))


def epsilon_on_sample(epsilon: float, rate: float) -> float:
    """Largest epsilon on a subsample that `amplified_epsilon` brings down to a given one.

    Args:
        epsilon: Of the whole, above 0.
        rate: q, above 0 and at most 1.
    """
    if rate == 1:
        return epsilon
    small = epsilon <= 700  # the exponential of more is no float
    found = math.log1p(math.expm1(epsilon) / rate) if small else epsilon - math.log(rate)
    while amplified_epsilon(found, rate) > epsilon:
        found *= 1 - 1e-15
    return found
