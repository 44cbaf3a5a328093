"""Estimates: a noisy count, and the interval in which the true one lies, 95 times in 100."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian

_OUTSIDE = 0.05
_INTERVAL = 1.96  # sigmas: of normal noise 95 in 100 are nearer


def within(noise: DiscreteGaussian) -> int:
    """A count with such noise is no further from the true one than this, 95 times in 100."""
    return noise.least(_OUTSIDE / 2) - 1


@dataclass(frozen=True, slots=True)
class Estimate:
    """About how many units, by a noisy count. Public.

    Attributes:
        units: The estimate, at least 0.
        low: The true number is at least this and at most ``high``, 95 times in 100. Noise is all
            that this covers, and the sample where there is one: not what a model misreads.
        high: See ``low``.
    """

    units: int
    low: int
    high: int

    @staticmethod
    def of(noisy: int, noise: DiscreteGaussian, rate: float = 1.0) -> Estimate:
        """The estimate that a noisy count gives.

        Args:
            noisy: As it was released.
            noise: On it.
            rate: Public probability with which a unit was asked, by a coin of its own.
        """
        if rate == 1:
            reach = float(within(noise))
        else:
            # Coins of the units that say so, of which there may be more than were counted.
            asked = max(0.0, noisy + _INTERVAL * noise.sigma)
            reach = _INTERVAL * math.sqrt(noise.sigma**2 + asked * (1 - rate))
        low, high = math.floor((noisy - reach) / rate), math.ceil((noisy + reach) / rate)
        return Estimate(max(0, round(noisy / rate)), max(0, low), max(0, high))

    def __str__(self) -> str:
        return f"about {self.units:,} ({self.low:,} to {self.high:,})"


@dataclass(frozen=True, slots=True)
class Share:
    """A part of all units that were counted, 0 to 1. Public.

    Attributes:
        part: The estimate.
        low: The true part is at least this and at most ``high``, 90 times in 100 and more: one
            interval for the count and one for the total.
        high: See ``low``.
    """

    part: float
    low: float
    high: float

    @staticmethod
    def of(count: Estimate, total: Estimate) -> Share:
        """The share of a count in a total."""
        if not total.units:
            return Share(0.0, 0.0, 1.0)
        low = count.low / max(1, total.high)
        high = count.high / max(1, total.low)
        return Share(min(1.0, count.units / total.units), min(1.0, low), min(1.0, high))

    def __str__(self) -> str:
        return f"{self.part:.0%} ({self.low:.0%} to {self.high:.0%})"
