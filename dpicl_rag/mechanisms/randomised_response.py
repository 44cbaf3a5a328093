"""Randomised response: a value that its owner changes by chance before it is sent.

Warner 1965; Kairouz, Bonawitz, Ramage 2016, "Discrete Distribution Estimation under Local Privacy",
for more than two values. The true value is sent with probability ``e^epsilon / (e^epsilon + m -
1)``, and each of the ``m - 1`` others with ``1 / (e^epsilon + m - 1)``. So the chances of any
report under any two values differ by a factor of ``e^epsilon`` at most. Coins are exact, with whole
numbers and fractions alone, as in `laplace`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpicl_rag import _validate
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.laplace import bernoulli_exp
from dpicl_rag.mechanisms.randomness import Randomness


@dataclass(frozen=True, slots=True)
class RandomisedResponse:
    """Generalised randomised response; of two values, Warner's.

    Attributes:
        size: m, how many values there are; 2 or more.
        epsilon: Of one report, above 0. An exact fraction, so that shares add up to their whole.

    Raises:
        ConfigurationError: An attribute is outside its range.
    """

    size: int
    epsilon: Fraction

    def __post_init__(self) -> None:
        if self.size < 2:
            raise ConfigurationError("randomised response needs at least two values")
        _validate.positive("epsilon", float(self.epsilon))

    @property
    def kept(self) -> float:
        """Probability of the true value."""
        return 1 / (1 + (self.size - 1) * math.exp(-self.epsilon))

    @property
    def other(self) -> float:
        """Probability of each other value."""
        return math.exp(-self.epsilon) / (1 + (self.size - 1) * math.exp(-self.epsilon))

    def draw(self, value: int, randomness: Randomness) -> int:
        """The report.

        A value drawn evenly is taken if it is the true one, and otherwise with probability
        ``e^-epsilon``; else the next one is drawn.

        Args:
            value: From 0 to ``size - 1``. Private.
            randomness: Of the owner.
        """
        while True:
            drawn = randomness.below(self.size)
            if drawn == value or bernoulli_exp(self.epsilon, randomness):
                return drawn

    def estimate(self, counts: Sequence[float]) -> list[float]:
        """Number of owners with each value, from the number of reports of it. Unbiased.

        Args:
            counts: Reports of each value, [size].

        Returns:
            Estimates, [size]; some may be below 0. They add up to the number of reports.
        """
        total = math.fsum(counts)
        # kept - other, without the loss of digits at a small epsilon.
        gap = -math.expm1(-float(self.epsilon)) * self.kept
        return [(count - total * self.other) / gap for count in counts]
