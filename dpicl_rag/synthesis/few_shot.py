"""Few-shot generation: the argmax of summed probabilities with noise on each.

Tang et al., ICLR 2024, "Privacy-Preserving In-Context Learning with Differentially Private Few-Shot
Generation". The candidates are the likeliest tokens of the public row, and each expert's
probabilities are scaled to sum 1 on them.

**Charge** of the sums, as vectors: an expert that comes or goes moves them by 1 in L2, one that
changes by sqrt(2). The argmax costs at most what the Gaussian mechanism costs on all of them.

The public row names the candidates and adds nothing to the sums, as published: where there is no
expert, all candidates are alike. `Difference` and `Adaptive` go on by the public row there.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dpicl_rag.mechanisms import noisy_argmax, permute_and_flip
from dpicl_rag.mechanisms.base import ChargedAlike
from dpicl_rag.mechanisms.points import GRID, points, spread
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
        return spread(noisy_argmax.distribution(sums, self.sigma), at, len(step.public))


@dataclass(frozen=True, slots=True)
class FewShotPermuteAndFlip(ChargedAlike):
    """The paper's pure variant: every expert's probabilities scaled to maximum 1, permute-and-flip.

    It is the argmax after exponential noise. With utilities of range 1 an expert that comes or
    goes costs pure ``strength``, one that changes twice that; see ``mechanisms.permute_and_flip``.

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
        return spread(permute_and_flip.distribution(scores), at, len(step.public))
