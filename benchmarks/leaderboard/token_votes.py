"""Votes on tokens: the limited domain mechanism and the sparse vector technique.

Both are drawn from their exact distribution; no noise in floating point is there to look into.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from dpicl_rag.accounting import bounded_range_to_rho, largest_strength
from dpicl_rag.accounting.pure_dp import zcdp
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.mechanisms.utilities import Vote

_REACH = 60.0  # exponents of noise beyond which nothing is left: 1e-26


def votes(step: Step) -> torch.Tensor:
    """How many experts find each token the likeliest: float64 [candidates]. Private."""
    return step.weighted_sum(Vote(), 1.0).round()


@dataclass(frozen=True, slots=True)
class LimitedDomain:
    """One of the tokens that have votes, or none of them.

    Durfee, Rogers 2019, "Practical Differentially Private Top-k Selection with Pay-what-you-get
    Composition", Algorithm 1 for one token: Gumbel noise on votes, "none" at a threshold of
    ``1 + log(1 / delta) / epsilon``. An expert moves one count by 1. If its token has votes without
    it, the draw is ``reach``-bounded-range. If not, that token comes out with delta at most, and
    all else as if the expert were not there.

    Attributes:
        reach: Epsilon of the draw.
        delta: Of the draw.
    """

    reach: float
    delta: float

    @property
    def rho(self) -> float:
        """Rho of zCDP, beside delta."""
        return bounded_range_to_rho(self.reach)

    @staticmethod
    def within(rho: float, delta: float) -> LimitedDomain:
        """What a price pays for."""
        return LimitedDomain(math.sqrt(8 * rho), delta)

    def scores(self, counts: torch.Tensor) -> torch.Tensor:
        """Unnormalised log-probabilities of all tokens, and of none: float64 [candidates + 1]."""
        voted = (self.reach * counts).masked_fill(counts <= 0, -torch.inf)
        return torch.cat([voted, voted.new_tensor([self.reach - math.log(self.delta)])])

    def draw(self, counts: torch.Tensor, randomness: Randomness) -> int | None:
        """Draw a token, or None."""
        token = randomness.draw(self.scores(counts))
        return None if token == len(counts) else token


class AboveThreshold:
    """Which of some counts is the first at a threshold, for the price of one test.

    Dwork, Roth 2014, Algorithm 1, with Laplace noise on whole numbers, half of epsilon on the
    threshold and half on each count. Counts that one unit moves by 0 or by 1, all in one direction,
    need no more noise than that (Lyu, Su, Li 2017, "Understanding the Sparse Vector Technique",
    Theorem 5). The noise on the threshold is kept as its distribution, given what was answered.

    Args:
        epsilon: Of all answers up to the first above.
        threshold: Public.
    """

    def __init__(self, epsilon: float, threshold: int) -> None:
        self._scale = epsilon / 2
        reach = math.ceil(_REACH / self._scale)
        places = torch.arange(-reach, reach + 1, dtype=torch.float64)
        self._thresholds = threshold + places
        self._belief = torch.softmax(-self._scale * places.abs(), dim=0)

    def above(self, count: float, randomness: Randomness) -> bool:
        """One answer; after True it may not be asked again."""
        needed = self._thresholds - count  # of the noise on the count
        decay = math.exp(-self._scale)
        tail = torch.exp(-self._scale * needed.abs()) / (1 + decay)
        above = torch.where(needed > 0, tail, 1 - decay * tail)
        chance = float((self._belief * above).sum())
        odds = torch.tensor([1 - chance, chance], dtype=torch.float64).clamp(min=0.0)
        found = bool(randomness.draw(odds.log()))
        left = self._belief * (above if found else 1 - above)
        self._belief = left / left.sum()
        return found

    @staticmethod
    def affordable(rho: float) -> float:
        """The epsilon that a price pays for."""
        return largest_strength(zcdp, rho)
