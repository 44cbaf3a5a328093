"""The constants of AdaDPSyn: noise of its three stages, and what steers its radius."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpicl_rag import _validate
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.good_radius import PRECISION, halvings

_SHARES = {"radius": 0.04, "mean": 0.9, "count": 0.06}
"""Of a token's charge, near what the paper's settings come to."""


def multiplier_of(radius: float, mean: float, count: float, rounds: int, halved: int = 3) -> float:
    """Noise over sensitivity of all releases of a token, as of one Gaussian release.

    Args:
        radius: Of each value that the radius takes; infinite where none is searched for.
        mean: Of each mean.
        count: Of each count.
        rounds: Most refined means.
        halved: Halvings of the radius search; two values each.
    """
    squares = 2 * halved / radius**2 + (rounds + 1) / mean**2 + rounds / count**2
    return 1 / math.sqrt(squares)


@dataclass(frozen=True, slots=True)
class Noises:
    """Noise over sensitivity of a token's releases; see `multiplier_of`."""

    radius: float
    mean: float
    count: float
    rounds: int = 1
    halved: int = 3

    @staticmethod
    def within(multiplier: float, rounds: int = 1) -> Noises:
        """Noise whose releases together cost what one of ``multiplier`` costs."""
        return AdaptiveConstants(rounds=rounds).noises(multiplier)

    @property
    def multiplier(self) -> float:
        """Of all of them together."""
        return multiplier_of(self.radius, self.mean, self.count, self.rounds, self.halved)


@dataclass(frozen=True, slots=True)
class AdaptiveConstants:
    """Constants of Gao et al., ICLR 2025 (AdaDPSyn), Algorithms 1 to 3. All of them are public.

    Noise is given over the sensitivity of what it is put on: the noise of a mean over R is R
    ``mean_noise`` where units come and go, and 2 R ``mean_noise`` where they change. A stage
    without noise of its own gets a share of what the others leave of the budget. Where all have
    theirs, the price of a token follows from them, and nothing is left to be calibrated.

    Attributes:
        radius_noise: sigma_0, of each value of the radius search.
        mean_noise: sigma_1, of each noisy mean.
        count_noise: sigma_2, of each count of points in a smaller ball.
        rounds: T^, most refined means.
        precision: The radius search halves its interval until it is no longer than this.
        slack: lambda, how much of the noise's length is added to the target radius.
        captured: Share of the experts that the target radius is to hold.
        enough: Share of the experts that a smaller ball must hold.

    Raises:
        ConfigurationError: A number is outside its range.
    """

    radius_noise: float | None = None
    mean_noise: float | None = None
    count_noise: float | None = None
    rounds: int = 1
    precision: float = PRECISION
    slack: float = 0.25
    captured: float = 0.8
    enough: float = 0.55

    def __post_init__(self) -> None:
        for name in ("radius_noise", "mean_noise", "count_noise"):
            if (value := getattr(self, name)) is not None:
                _validate.positive(name, value)
        _validate.count("rounds", self.rounds)
        _validate.finite("slack", self.slack)
        _validate.rate("captured", self.captured)
        _validate.rate("enough", self.enough)
        halvings(self.precision)

    def priced(self, *, searched: bool = True) -> bool:
        """Whether all stages have their noise.

        Args:
            searched: Whether there is a radius search.
        """
        return None not in self._given(searched).values()

    def noises(self, multiplier: float = math.inf, *, searched: bool = True) -> Noises:
        """Noise of all stages.

        Args:
            multiplier: Noise over sensitivity of one Gaussian release that costs as much as a
                token may. Not needed where all stages have their noise.
            searched: Whether there is a radius search. A radius that is not searched for costs
                nothing.

        Raises:
            ConfigurationError: The noise that is given leaves nothing for the other stages.
        """
        halved = halvings(self.precision) if searched else 0
        values = {"radius": 2 * halved, "mean": self.rounds + 1, "count": self.rounds}
        given = self._given(searched)
        spent = math.fsum(values[k] / s**2 for k, s in given.items() if s is not None)
        found = {k: s for k, s in given.items() if s is not None}
        free = [k for k in given if k not in found]
        if free:
            left = 1 - multiplier**2 * spent
            if not left > 0:
                raise ConfigurationError(
                    "the noise that is given leaves nothing of the budget for the other stages of "
                    "the adaptive method; give more noise, or a larger epsilon"
                )
            rest, whole = multiplier / math.sqrt(left), math.fsum(_SHARES[k] for k in free)
            found |= {k: rest * math.sqrt(values[k] / (_SHARES[k] / whole)) for k in free}
        return Noises(
            found.get("radius", math.inf), found["mean"], found["count"], self.rounds, halved
        )

    def _given(self, searched: bool) -> dict[str, float | None]:
        radius = {"radius": self.radius_noise} if searched else {}
        return {**radius, "mean": self.mean_noise, "count": self.count_noise}
