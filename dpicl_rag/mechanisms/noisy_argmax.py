"""The index of the largest of some numbers with Gaussian noise on each, drawn exactly.

Only the index is released, so no noise is ever added: the distribution of the index is computed
and drawn from, with one uniform number. There is no noise vector in floating point for an attacker
to look into (Mironov 2012).

**Error.** Let h be the step of the trapezoidal rule and K the number of values. The integrand is
the density of a Gaussian times K - 1 of its cumulative functions. Off the real axis, at height y,
each of these K factors grows by at most ``exp(y^2 / 2)``, so the rule's error for a probability p
is at most ``2 p exp(K y^2 / 2) / (exp(2 pi y / h) - 1)`` for every y (Trefethen, Weideman 2014,
Theorem 5.1). At ``y = 2 pi / (h K)`` that is about ``2 p exp(-2 pi^2 / (h^2 K))``, below 1e-33 p
for the h taken here. What is cut off at ten standard deviations has probability below
``(K + 1) 1e-23``. So what is left is the rounding of float64, near 1e-13 of each probability.
"""

from __future__ import annotations

import numpy as np
import torch

_REACH = 10.0
"""Standard deviations of the noise beyond which nothing is left: the tail is 1e-23."""


def distribution(sums: torch.Tensor, sigma: float) -> torch.Tensor:
    """Exact distribution of the index of the largest of independent Gaussians.

    ``P(j) = integral of phi((t - s_j) / sigma) * prod_{i != j} Phi((t - s_i) / sigma) dt / sigma``
    by the trapezoidal rule.

    Args:
        sums: Means, float64 [values].
        sigma: Standard deviation of the noise on each, above 0.

    Returns:
        Probabilities, float64 [values].
    """
    from scipy.special import log_ndtr

    means = sums.double().numpy(force=True) / sigma
    means = means - means.max()
    step = min(0.05, 0.5 / np.sqrt(len(means) + 1))
    at = np.arange(-_REACH, _REACH + step, step)[:, None] - means
    log_below = log_ndtr(at)
    log_density = -0.5 * at * at - 0.5 * np.log(2 * np.pi)
    # Of all values, less the one whose density stands in its place.
    others = log_below.sum(axis=1, keepdims=True) - log_below
    probabilities = step * np.exp(log_density + others).sum(axis=0)
    return torch.from_numpy(probabilities / probabilities.sum()).to(sums.device)
