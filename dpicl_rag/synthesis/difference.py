"""Differences from the public row, cut to a public length: our simplest Gaussian method.

AdaDPSyn looks for the radius of the experts' probabilities and for their centre, with noise. But
there is a public centre, the public row, and a fixed radius does as well where few experts make the
search noisy. So ``p_i - p_0`` is cut to length R, and the argmax of ``M p_0 + sum_i clip(p_i - p_0,
R)`` with noise is drawn.

**Charge**: an expert that comes or goes moves the sum by R in L2, one that changes by 2R.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dpicl_rag.mechanisms import noisy_argmax
from dpicl_rag.mechanisms.base import ChargedAlike
from dpicl_rag.mechanisms.points import GRID, points, public_point, spread
from dpicl_rag.mechanisms.projected_mean import clipped_sum
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.mechanisms.utilities import likeliest


@dataclass(frozen=True, slots=True)
class Difference(ChargedAlike):
    """The candidate of the largest ``M p_0 + sum_i clip(p_i - p_0, R)``, with Gaussian noise.

    Attributes:
        candidates: K, how many of the public row's likeliest tokens can be drawn.
        experts: M, how many experts are expected. Public: never the number that there are.
        radius: R.
        sigma: Standard deviation of the noise on a sum.
        rho: Rho of zCDP of one draw, without the sampling of experts.
        delta: See ``Mechanism``.
    """

    candidates: int
    experts: int
    radius: float
    sigma: float
    rho: float
    delta: float

    def distribution(self, step: Step) -> torch.Tensor:
        """Exact output distribution, float64 [vocabulary]."""
        at = likeliest(step.public, self.candidates)
        centre = public_point(step, at)
        moved = clipped_sum(points(step, at), centre, self.radius)
        sums = (self.experts * centre + moved).double() / GRID
        return spread(noisy_argmax.distribution(sums, self.sigma), at, len(step.public))
