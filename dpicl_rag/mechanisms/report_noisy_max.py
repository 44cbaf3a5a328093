"""Report noisy max with Gaussian noise: the index of the largest noisy sum.

Only the index is released, so it costs no more than the Gaussian mechanism on all the sums, and in
general less: with two labels the noise of both works against one difference.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dpicl_rag.mechanisms import noisy_argmax
from dpicl_rag.mechanisms.base import ChargedAlike
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.mechanisms.utilities import Utility


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
        return noisy_argmax.distribution(step.weighted_sum(self.utility, 1.0), self.sigma)
