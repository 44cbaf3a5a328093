"""The share of the units found that coins keep, at a public rate."""

from __future__ import annotations

from dataclasses import dataclass

from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval.count import NoisyCount


@dataclass(frozen=True, slots=True)
class Share:
    """A public rate ``kept / all`` of coins, each a unit's own."""

    kept: int
    all: int

    @staticmethod
    def of(count: NoisyCount | None, most: int | None) -> Share:
        """Of what was found, how much is kept: about ``most`` units.

        Args:
            count: What was found, as it was released.
            most: All are kept if None.
        """
        found = 0 if count is None else int(count.value)
        return Share(1, 1) if most is None or found <= most else Share(most, found)

    @property
    def rate(self) -> float:
        """From 0 to 1."""
        return self.kept / self.all

    def keeps(self, randomness: Randomness) -> bool:
        """Toss one unit's coin; none is needed where all stay."""
        return self.kept == self.all or randomness.below(self.all) < self.kept
