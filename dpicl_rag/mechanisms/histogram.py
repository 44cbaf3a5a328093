"""A noisy histogram: how many experts say each of several public labels.

Discrete Gaussian noise on every bin, also on those that nobody names, so no threshold is needed and
no delta (Canonne, Kamath, Steinke 2020, Theorem 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpicl_rag.accounting.stability import Adjacency, Stability
from dpicl_rag.mechanisms.gaussian import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import Randomness


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of public labels, of which each expert says some.

    Attributes:
        noise: On every count.
        rho: zCDP rho for any unit.
    """

    noise: DiscreteGaussian
    rho: float

    @staticmethod
    def within(
        rho: float, labels: int, most: int, stability: Stability, adjacency: Adjacency
    ) -> Histogram:
        """The least noise that a price pays for.

        An expert that comes moves ``most`` counts by 1. One that changes takes back as many and
        gives as many to others: twice as many move, but no more than there are labels.

        Args:
            rho: zCDP rho, above 0.
            labels: How many labels there are.
            most: How many of them one expert says at most.
            stability: From the corpus to the experts.
            adjacency: Of corpora.

        Raises:
            ConfigurationError: The price is not above 0 and finite.
        """
        added, changed = stability.moved(adjacency)
        most = min(most, labels)
        moved = added * math.sqrt(most) + changed * math.sqrt(min(2 * most, labels))
        return Histogram(DiscreteGaussian.within(rho, moved), rho)

    def draw(self, counts: Sequence[int], randomness: Randomness) -> list[int]:
        """Noise on every count. It was paid for before.

        Args:
            counts: How many experts say each label. Private.
            randomness: Where the noise comes from.
        """
        return [count + self.noise.draw(randomness) for count in counts]
