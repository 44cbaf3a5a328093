"""What a search leaves of a budget to a method that states epsilon and delta.

The search is charged as one Gaussian mechanism of the same rho, mu = sqrt(2 rho): its noise is the
discrete Gaussian's. Both compositions are exact for the pair, so nothing of the rivals' budget is
lost to a loose sum.
"""

from __future__ import annotations

import math

from dpicl_rag.accounting.conversion import gaussian_delta, gaussian_epsilon, gaussian_mu

_STEPS = 60  # of a bisection


def beside_gaussian(epsilon: float, delta: float, search_rho: float) -> float:
    """The epsilon, at the same delta, of a Gaussian mechanism beside a search: mus add as squares.

    Args:
        epsilon: Of both together.
        delta: Of both together.
        search_rho: zCDP rho of the search.

    Returns:
        0 where the search takes everything.
    """
    left = gaussian_mu(epsilon, delta) ** 2 - 2 * search_rho
    return gaussian_epsilon(math.sqrt(left), delta) if left > 0 else 0.0


def beside_any(epsilon: float, delta: float, own: float, search_rho: float) -> float:
    """The epsilon of any (epsilon, ``own``)-DP mechanism beside a search.

    The worst such mechanism is randomised response: with ``own`` it tells all, else its loss is
    plus or minus its epsilon (Kairouz, Oh, Viswanath 2015). The loss of the search adds to that.

    Args:
        epsilon: Of both together.
        delta: Of both together.
        own: Part of delta that the mechanism takes.
        search_rho: zCDP rho of the search.

    Returns:
        0 where the search takes everything.
    """
    mu = math.sqrt(2 * search_rho)

    def spent(rival: float) -> float:
        more = 1 / (1 + math.exp(-rival))
        high, low = (gaussian_delta(mu, epsilon - sign * rival) for sign in (1, -1))
        return own + (1 - own) * (more * high + (1 - more) * low)

    if spent(0.0) > delta:
        return 0.0
    low, high = 0.0, epsilon
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) <= delta else (low, middle)
    return low
