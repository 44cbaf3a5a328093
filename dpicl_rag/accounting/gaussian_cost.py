"""The exact cost of Gaussian noise.

Balle, Wang 2018, "Improving the Gaussian Mechanism for Differential Privacy", Theorem 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpicl_rag import _validate
from dpicl_rag.accounting import _search

if TYPE_CHECKING:
    import numpy as np


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Exact delta of a Gaussian mechanism of sensitivity over noise ``mu``."""
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
