"""The released number of units that a search found, and the share of them that coins keep."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpicl_rag.mechanisms.randomness import Randomness

_SURE = 1.0  # standard deviations


@dataclass(frozen=True, slots=True)
class NoisyCount:
    """A released count. Whatever follows from it is post-processing, and free.

    Attributes:
        value: The count with its noise; below zero where few units were found.
        sigma: Standard deviation of the noise, and of the coins that thinned what was counted.
    """

    value: float
    sigma: float

    @property
    def low(self) -> float:
        """A number that the true one is seldom below, at least 0."""
        return max(0.0, self.value - _SURE * self.sigma)

    @property
    def high(self) -> float:
        """A number that the true one is hardly above."""
        return self.value + 2 * _SURE * self.sigma

    def thinned(self, rate: float) -> NoisyCount:
        """The number of units left where each stayed by a coin of its own, at a public rate."""
        coins = max(0.0, self.value) * rate * (1 - rate)
        return NoisyCount(self.value * rate, math.sqrt((self.sigma * rate) ** 2 + coins))


@dataclass(frozen=True, slots=True)
class CoinRate:
    """A public rate ``kept / all`` of coins, each a unit's own."""

    kept: int
    all: int

    @staticmethod
    def of(count: NoisyCount | None, most: int | None) -> CoinRate:
        """Of what was found, how much is kept: about ``most`` units.

        Args:
            count: What was found, as it was released.
            most: All are kept if None.
        """
        found = 0 if count is None else int(count.value)
        return CoinRate(1, 1) if most is None or found <= most else CoinRate(most, found)

    @property
    def rate(self) -> float:
        """From 0 to 1."""
        return self.kept / self.all

    def keeps(self, randomness: Randomness) -> bool:
        """Toss one unit's coin; none is needed where all stay."""
        return self.kept == self.all or randomness.below(self.all) < self.kept
