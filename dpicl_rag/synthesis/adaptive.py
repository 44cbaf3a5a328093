"""AdaDPSyn in a sound form: a noisy mean of the experts' probabilities, projected and taken again.

Gao et al., ICLR 2025, "Data-adaptive Differentially Private Prompt Synthesis for In-Context
Learning". A token takes a radius (`good_radius`), a first mean, and up to ``rounds`` refined means:
points are cut to a smaller ball around the mean before, where a noisy count says that enough of
them lie in it. What is added up are differences from the centre, so the charge also holds where
a unit comes or goes, and the public number of experts stands in place of the one there are.

**Charge.** Radius, means and counts are released, for the analysis; every token pays for all
rounds, also where it stops early. As one Gaussian release, in squared sensitivities over noise:
``6 / sigma_radius^2 + (rounds + 1) / sigma_mean^2 + rounds / sigma_count^2`` (6 values of the
radius search at its usual precision; none where the radius is a public number).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.base import no_ranges
from dpicl_rag.mechanisms.good_radius import LARGEST, good_radius
from dpicl_rag.mechanisms.points import GRID, points, public_point
from dpicl_rag.mechanisms.privacy_filters import PrivacyFilter
from dpicl_rag.mechanisms.projected_mean import clipped_sum, distribution_on, noise, within
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.mechanisms.utilities import likeliest
from dpicl_rag.synthesis.adaptive_constants import AdaptiveConstants, Noises

_USUAL = AdaptiveConstants()


@dataclass(frozen=True, slots=True)
class Adaptive:
    """The largest candidate of the last noisy mean.

    Attributes:
        candidates: K, how many of the public row's likeliest tokens can be drawn.
        experts: M, how many experts are expected. Public: never the number that there are.
        noises: Of the releases.
        moved: How many times its length a difference moves: 1 where experts come and go, 2 where
            they change.
        rho: Rho of zCDP of one draw, without the sampling of experts.
        delta: See ``Mechanism``.
        constants: What steers the radius; their noise is in ``noises``.
        target: A public radius in place of one that is searched for; None searches.
    """

    candidates: int
    experts: int
    noises: Noises
    moved: int
    rho: float
    delta: float
    constants: AdaptiveConstants = _USUAL
    target: float | None = None

    def draw(self, step: Step, spend: PrivacyFilter, randomness: Randomness) -> int:
        """See ``Mechanism``.

        Raises:
            ConfigurationError: The filter charges each unit for its own range.
        """
        spend.weigh(no_ranges)
        at = likeliest(step.public, self.candidates)
        own, centre = points(step, at), public_point(step, at)
        spend.pay()
        return int(at[self.last_mean(own, centre, randomness).argmax()])

    def distribution(self, step: Step) -> torch.Tensor:
        """Not there: the mean is drawn as a vector.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError("the adaptive method has no closed form of what it draws")

    def last_mean(
        self, own: torch.Tensor, centre: torch.Tensor, randomness: Randomness
    ) -> torch.Tensor:
        """The last noisy mean, float64 [K].

        Args:
            own: Points of the experts, int64 [n, K].
            centre: The public row's, int64 [K].
            randomness: Where the coins come from.
        """
        *_, (_, mean) = self.balls(own, centre, self.radius(own, randomness), randomness)
        return mean

    @property
    def captured(self) -> int:
        """How many experts the target radius is to hold: a public number."""
        return max(1, round(self.constants.captured * self.experts))

    def radius(self, own: torch.Tensor, randomness: Randomness) -> float:
        """The target radius: searched for with noise, or the public one."""
        if self.target is not None:
            return self.target
        noises = self.noises
        return good_radius(own, self.captured, noises.radius, randomness, noises.halved)

    def balls(
        self, own: torch.Tensor, centre: torch.Tensor, target: float, randomness: Randomness
    ) -> Iterator[tuple[float, torch.Tensor]]:
        """The noisy means, each with the radius of its ball: every ball is smaller.

        Args:
            own: Points of the experts, int64 [n, K].
            centre: The public row's, int64 [K].
            target: The radius that balls come down to.
            randomness: Where the coins come from.
        """
        radius = LARGEST
        mean = self.mean(own, centre, radius, randomness)
        yield radius, mean
        for _ in range(self.noises.rounds):
            centre = distribution_on(mean)
            smaller = self.smaller(target, radius, len(centre))
            if radius < smaller or randomness.uniform() >= self.chance(own, centre, smaller):
                break
            radius = smaller
            mean = self.mean(own, centre, radius, randomness)
            yield radius, mean

    def mean(
        self, own: torch.Tensor, centre: torch.Tensor, radius: float, randomness: Randomness
    ) -> torch.Tensor:
        """Centre plus the noisy sum of differences over the public number of experts."""
        drawn = noise(len(centre), self.sigma(radius), randomness)
        moved = clipped_sum(own, centre, radius).double() / GRID + drawn.to(own.device)
        return centre.double() / GRID + moved / self.experts

    def sigma(self, radius: float) -> float:
        """Standard deviation of the noise on a sum of differences of length ``radius``."""
        return self.moved * radius * self.noises.mean

    def smaller(self, target: float, radius: float, candidates: int) -> float:
        """The next radius: the target, and some of what noise adds to a mean."""
        spread = self.sigma(radius) * math.sqrt(candidates) / self.experts
        return target + self.constants.slack * spread

    def chance(self, own: torch.Tensor, centre: torch.Tensor, radius: float) -> float:
        """Chance that the noisy count of points in a ball reaches its share: one coin draws it."""
        from scipy.special import ndtr

        inside = int(within(own, centre, radius).sum())
        return float(ndtr((inside - self.constants.enough * self.experts) / self.noises.count))
