"""Report noisy max with Gaussian noise: which sum is largest once noise is on each.

Only the index is released, so it costs no more than the Gaussian mechanism on all the sums, and in
general less: with two labels the noise of both works against one difference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from dpicl_rag.mechanisms.base import ChargedAlike
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.mechanisms.utilities import Utility

_REACH = 10.0
"""Standard deviations of the noise beyond which nothing is left: the tail is 1e-23."""


@dataclass(frozen=True, slots=True)
class ReportNoisyMax(ChargedAlike):
    """The candidate of the largest ``sum_i f_i(y)`` after Gaussian noise on every sum.

    Attributes:
        utility: What an expert says about each candidate. Its base measure is not used.
        sigma: Standard deviation of the noise.
        rho: Rho of zCDP of one draw.
        delta: See ``Mechanism``.
    """

    utility: Utility
    sigma: float
    rho: float
    delta: float

    def distribution(self, step: Step) -> torch.Tensor:
        """Exact output distribution, float64 [candidates]."""
        return distribution(step.weighted_sum(self.utility, 1.0), self.sigma)


def distribution(sums: torch.Tensor, sigma: float) -> torch.Tensor:
    """Exact distribution of the largest of independent Gaussians.

    ``P(j) = integral of phi((t - s_j) / sigma) * prod_{i != j} Phi((t - s_i) / sigma) dt / sigma``
    by the trapezoidal rule, whose error for such a function falls like
    ``exp(-2 pi^2 / (h^2 (labels + 1)))`` in the step h: far below the rounding of float64 here.

    Args:
        sums: Means, float64 [labels].
        sigma: Standard deviation of the noise on each, above 0.

    Returns:
        Probabilities, float64 [labels]; absolute error near 1e-15.
    """
    from scipy.special import log_ndtr

    means = sums.double().numpy(force=True) / sigma
    means = means - means.max()
    step = min(0.05, 0.5 / np.sqrt(len(means) + 1))
    at = np.arange(-_REACH, _REACH + step, step)[:, None] - means
    log_below = log_ndtr(at)
    log_density = -0.5 * at * at - 0.5 * np.log(2 * np.pi)
    # Of all labels, less the one whose density stands in its place.
    others = log_below.sum(axis=1, keepdims=True) - log_below
    probabilities = step * np.exp(log_density + others).sum(axis=0)
    return torch.from_numpy(probabilities / probabilities.sum()).to(sums.device)
