"""Noisy sums of the experts' probabilities: few-shot generation, and our difference method.

The candidates are the likeliest tokens of the public row, and each expert's probabilities are
scaled to sum 1 on them. Few-shot generation is of Tang et al., ICLR 2024, "Privacy-Preserving
In-Context Learning with Differentially Private Few-Shot Generation".

**Charge** of the sums, as vectors: an expert that comes or goes moves them by 1 in L2, one that
changes by sqrt(2). The argmax costs at most what the Gaussian mechanism costs on all of them.

There the public row names the candidates and adds nothing to the sums, as published: without an
expert, all candidates are alike. `Difference` and `Adaptive` go on by the public row there.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dpicl_rag.mechanisms.points import GRID, clipped_sum, points, public_point, spread
from dpicl_rag.mechanisms.selection import ChargedAlike, argmax_distribution, flip_distribution
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.mechanisms.utilities import likeliest


@dataclass(frozen=True, slots=True)
class FewShot(ChargedAlike):
    """The candidate of the largest sum of probabilities, with Gaussian noise on every sum.

    Attributes:
        candidates: K, how many of the public row's likeliest tokens can be drawn.
        sigma: Standard deviation of the noise on a sum.
        rho: Rho of zCDP of one draw, without the sampling of experts.
        delta: See ``Mechanism``.
    """

    candidates: int
    sigma: float
    rho: float
    delta: float

    def distribution(self, step: Step) -> torch.Tensor:
        """Exact output distribution, float64 [vocabulary]."""
        at = likeliest(step.public, self.candidates)
        sums = points(step, at).sum(dim=0).double() / GRID
        return spread(argmax_distribution(sums, self.sigma), at, len(step.public))


@dataclass(frozen=True, slots=True)
class FewShotPermuteAndFlip(ChargedAlike):
    """The paper's pure variant: every expert's probabilities scaled to maximum 1, permute-and-flip.

    It is the argmax after exponential noise. With utilities of range 1 an expert that comes or
    goes costs pure ``strength``, one that changes twice that; see `PermuteAndFlip`.

    Attributes:
        candidates: K.
        strength: lambda; the paper's noise has scale ``1 / lambda`` on the sum.
        rho: Rho of zCDP of one draw, without the sampling of experts.
        delta: See ``Mechanism``.
    """

    candidates: int
    strength: float
    rho: float
    delta: float

    def distribution(self, step: Step) -> torch.Tensor:
        """Exact output distribution, float64 [vocabulary]."""
        at = likeliest(step.public, self.candidates)
        own = points(step, at).double()
        scaled = (own / own.amax(dim=1, keepdim=True) * GRID).floor().long()
        scores = self.strength * (scaled.sum(dim=0).double() / GRID)
        return spread(flip_distribution(scores), at, len(step.public))


@dataclass(frozen=True, slots=True)
class Difference(ChargedAlike):
    """The candidate of the largest ``M p_0 + sum_i clip(p_i - p_0, R)``, with Gaussian noise.

    Our simplest Gaussian method. AdaDPSyn looks for the radius of the experts' probabilities and
    for their centre, with noise. But there is a public centre, the public row, and a fixed radius
    does as well where few experts make the search noisy. So differences from the public row are cut
    to a public length R.

    **Charge**: an expert that comes or goes moves the sum by R in L2, one that changes by 2R.

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
        return spread(argmax_distribution(sums, self.sigma), at, len(step.public))
