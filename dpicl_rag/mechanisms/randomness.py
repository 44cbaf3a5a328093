"""Where the draws come from: the operating system's generator, or a seed for tests."""

from __future__ import annotations

import random
import secrets
import warnings


class NotPrivateWarning(UserWarning):
    """A setting that voids the guarantee is in use; meant for tests and experiments."""


class Randomness:
    """Uniform numbers from the operating system's cryptographic generator."""

    def uniform(self) -> float:
        """A multiple of 2^-53 in [0, 1)."""
        return secrets.randbits(53) * 2.0**-53


class SeededRandomness(Randomness):
    """Repeatable numbers. Not private: whoever knows the seed can undo the noise."""

    def __init__(self, seed: int) -> None:
        warnings.warn(
            "seeded draws are not private; use a seed in tests and experiments only",
            NotPrivateWarning,
            stacklevel=3,
        )
        self._random = random.Random(seed)  # noqa: S311

    def uniform(self) -> float:
        """A multiple of 2^-53 in [0, 1)."""
        return self._random.random()
