"""The number of units that a search found, as far as that was released."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.gaussian import DiscreteGaussian

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


def noise_of(sigma: float | None) -> DiscreteGaussian:
    """The noise of a search that counts.

    Raises:
        ConfigurationError: It is not set.
    """
    if sigma is None:
        raise ConfigurationError(
            "the noise of this search follows from the budget of an answer; give it sigma, or "
            "the budget by within()"
        )
    return DiscreteGaussian(sigma)
