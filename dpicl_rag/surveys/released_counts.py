"""Noisy counts as they were released, before anybody reads them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.surveys.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Counted:
    """Noisy counts as they were released, and what they cost. Public.

    Attributes:
        noisy: One for each label.
        noise: On each.
        rate: Public probability with which a unit was asked.
        epsilon: All counts together are (epsilon, delta)-DP for every privacy unit.
        delta: See ``epsilon``.
        rho: zCDP rho that they cost any unit at most.
        complete: Whether every unit could pay, by public numbers; one that could not was left out.
    """

    noisy: Sequence[int]
    noise: DiscreteGaussian
    rate: float
    epsilon: float
    delta: float
    rho: float
    complete: bool = True

    @property
    def estimates(self) -> list[Estimate]:
        """One for each label."""
        return [Estimate.of(one, self.noise, self.rate) for one in self.noisy]

    @property
    def total(self) -> Estimate:
        """Of their sum, whose noise is that of all of them."""
        noise = DiscreteGaussian(math.sqrt(len(self.noisy)) * self.noise.sigma)
        return Estimate.of(sum(self.noisy), noise, self.rate)

    @property
    def cost(self) -> tuple[float, float, float, bool]:
        """Epsilon, delta and rho, and whether every unit could pay."""
        return self.epsilon, self.delta, self.rho, self.complete
