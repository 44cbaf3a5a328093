"""Permute-and-flip: visit candidates in random order, stop at the first coin that shows heads.

McKenna, Sheldon 2020, "Permute-and-Flip: A New Mechanism for Differentially Private Selection",
Algorithm 1. With scores s, a candidate's coin shows heads with probability
``exp(s(y) - max s)``; the best one's always does. It is report noisy max with exponential noise of
scale 1 (Ding et al. 2021, "The Permute-and-Flip Mechanism is Identical to Report-Noisy-Max with
Exponential Noise").

**Charge.** With scores ``lambda * sum_i f_i`` and utilities of range R, one expert added or
removed makes it exactly (lambda * R)-DP, the same as the exponential mechanism:

1. The mechanism depends on differences of scores only, so ``max_y f(y)`` may be taken off a
   newcomer's utility. All scores then fall, each by at most lambda * R.
2. In the form with exponential noise, fix the noise of all candidates but y. Then y is chosen when
   its own noise passes a threshold. The other scores and that of y fall by 0 to lambda * R each,
   so the threshold moves by at most lambda * R either way, and the tail of exponential noise
   changes by a factor of at most exp(lambda * R) when its threshold moves so far.

One expert changed is one removed and one added: (2 * lambda * R)-DP. It is not (lambda * R)-bounded
range: with two candidates at a tie a fall by lambda * R takes the log ratios to ``-lambda * R`` and
to nearly ``+log 2``. So its zCDP charge is that of any pure mechanism, not the eighth of a square.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from dpicl_rag.mechanisms.base import ChargedAlike
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.mechanisms.utilities import Utility


@dataclass(frozen=True, slots=True)
class PermuteAndFlip(ChargedAlike):
    """Permute-and-flip on ``lambda * sum_i f_i(y)``; draws from its exact distribution.

    Attributes:
        utility: What an expert says about each candidate; its base measure is added to the scores.
        strength: lambda.
        rho: Rho of zCDP of one draw: that of any pure mechanism.
        delta: See ``Mechanism``.
    """

    utility: Utility
    strength: float
    rho: float
    delta: float = 0.0

    def distribution(self, step: Step) -> torch.Tensor:
        """Exact output distribution, float64 [candidates]."""
        base = self.utility.base(step.public)
        return distribution(base + step.weighted_sum(self.utility, self.strength))


def distribution(scores: torch.Tensor) -> torch.Tensor:
    """Exact output distribution.

    A uniform order is one of independent uniform arrival times, so with heads probability p and
    t for the time at which y arrives (McKenna, Sheldon 2020, section 3.3, in another form)

        P(y) = p_y * integral over t from 0 to 1 of  prod over z != y of (1 - t p_z),

    a polynomial in t, which Gauss-Legendre quadrature of enough nodes integrates exactly. All
    terms are positive, so small probabilities keep their digits.

    Args:
        scores: float64 [candidates], -inf for what must never come out.

    Returns:
        Probabilities, float64 [candidates].
    """
    heads = torch.exp(scores - scores.max()).numpy(force=True)
    nodes, weights = np.polynomial.legendre.leggauss(len(heads) // 2 + 1)
    tails = 1 - (nodes[:, None] + 1) / 2 * heads
    # Products without one factor, from both sides: dividing by it could be by zero.
    ones = np.ones((len(nodes), 1))
    before = np.cumprod(np.hstack([ones, tails[:, :-1]]), axis=1)
    after = np.cumprod(np.hstack([ones, tails[:, :0:-1]]), axis=1)[:, ::-1]
    probabilities = heads * ((weights / 2) @ (before * after))
    return torch.from_numpy(probabilities / probabilities.sum()).to(scores.device)
