"""How many private units hold the most frequent key, and not which key that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dpicl_rag.accounting.stability import Adjacency, Stability
from dpicl_rag.mechanisms.gaussian import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import Randomness


@dataclass(frozen=True, slots=True)
class TopCount:
    """The largest of all counts of keys, with noise.

    A key that is added, taken away or changed for another moves the largest count by 1 at most,
    whether it occurs elsewhere or not. So no threshold is needed, and no delta.

    Attributes:
        noise: On the count.
        sensitivity: By how much one unit moves the count at most.
    """

    noise: DiscreteGaussian
    sensitivity: int

    @staticmethod
    def within(rho: float, stability: Stability, adjacency: Adjacency) -> TopCount:
        """The least noise that a price pays for.

        Args:
            rho: zCDP rho, above 0.
            stability: From the corpus to those who hold keys.
            adjacency: Of corpora.

        Raises:
            ConfigurationError: The price is not above 0 and finite.
        """
        sensitivity = sum(stability.moved(adjacency))
        return TopCount(DiscreteGaussian.within(rho, sensitivity), sensitivity)

    @property
    def rho(self) -> float:
        """Rho of zCDP that it costs any unit at most."""
        return self.sensitivity**2 * self.noise.rho

    def draw(self, keys: Sequence[str], randomness: Randomness) -> int:
        """Draw it.

        Args:
            keys: One of each unit that holds one. Private.
            randomness: Where the noise comes from.
        """
        return max(Counter(keys).values(), default=0) + self.noise.draw(randomness)
