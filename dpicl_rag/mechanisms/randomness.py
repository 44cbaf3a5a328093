"""Sources of coins: the operating system's generator, or a seed for tests."""

from __future__ import annotations

import random
import secrets
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


class NotPrivateWarning(UserWarning):
    """A setting that voids the guarantee is in use; meant for tests and experiments."""


class Randomness:
    """Coins from the operating system's cryptographic generator.

    Draws of tokens, noise on counts, and the coins of groups and of samples all go through one
    object. An auditor or a test derives from it.
    """

    @staticmethod
    def of(seed: int | None) -> Randomness:
        """Repeatable coins of a seed, which warns; without one the operating system's."""
        return Randomness() if seed is None else SeededRandomness(seed)

    def uniform(self) -> float:
        """A multiple of 2^-53 in [0, 1)."""
        return secrets.randbits(53) * 2.0**-53

    def below(self, bound: int) -> int:
        """A whole number from 0 to ``bound - 1``, each as likely."""
        return secrets.randbelow(bound)

    def draw(self, scores: torch.Tensor) -> int:
        """Draw an index with probability proportional to ``exp(scores)``.

        Inverts the cumulative distribution, in float64, at one number from ``uniform``. The host
        learns the drawn index and nothing else.

        Args:
            scores: Unnormalised log-probabilities, float64 [candidates].
        """
        import torch

        cumulative = torch.cumsum(torch.exp(scores - scores.max()), dim=0)
        target = cumulative[-1:] * self.uniform()
        # right=True skips candidates of no mass, whose cumulative value equals their neighbour's.
        index = torch.searchsorted(cumulative, target, right=True)
        # Rounding may put the target on the last step; that candidate has mass, the one after it
        # does not exist.
        last = torch.searchsorted(cumulative, cumulative[-1:])
        return int(torch.minimum(index, last))


class SeededRandomness(Randomness):
    """Repeatable coins. Not private: whoever knows the seed can undo the noise."""

    def __init__(self, seed: int) -> None:
        warnings.warn(
            "seeded coins are not private; use a seed in tests and experiments only",
            NotPrivateWarning,
            stacklevel=3,
        )
        self._random = random.Random(seed)  # noqa: S311

    def uniform(self) -> float:
        """A multiple of 2^-53 in [0, 1)."""
        return self._random.random()

    def below(self, bound: int) -> int:
        """A whole number from 0 to ``bound - 1``."""
        return self._random.randrange(bound)
