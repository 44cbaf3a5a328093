"""Noisy sums of the experts' probabilities: few-shot generation, our difference method, AdaDPSyn.

The candidates are the likeliest tokens of the public row, and each expert's probabilities are
scaled to sum 1 on them. Few-shot generation is of Tang et al., ICLR 2024, "Privacy-Preserving
In-Context Learning with Differentially Private Few-Shot Generation".

**Charge** of the sums, as vectors: an expert that comes or goes moves them by 1 in L2, one that
changes by sqrt(2). The argmax costs at most what the Gaussian mechanism costs on all of them.

There the public row names the candidates and adds nothing to the sums, as published: without an
expert, all candidates are alike. `Difference` and `Adaptive` go on by the public row there.

`Adaptive` is a sound form of AdaDPSyn (Gao et al., ICLR 2025, "Data-adaptive Differentially Private
Prompt Synthesis for In-Context Learning"): a noisy mean, projected and taken again. A token takes a
radius (`good_radius`), a first mean, and up to ``rounds`` refined means: points are cut to a
smaller ball around the mean before, where a noisy count says that enough of them lie in it. What
is added up are differences from the centre, so the charge also holds where a unit comes or goes,
and the public number of experts stands in place of the one there are.

**Charge** of `Adaptive`. Radius, means and counts are released, for the analysis; every token pays
for all rounds, also where it stops early. As one Gaussian release, in squared sensitivities over
noise: ``6 / sigma_radius^2 + (rounds + 1) / sigma_mean^2 + rounds / sigma_count^2`` (6 values of
the radius search at its usual precision; none where the radius is a public number).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from dpicl_rag import _validate
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.points import (
    GRID,
    LARGEST,
    PRECISION,
    clipped_sum,
    distribution_on,
    good_radius,
    halvings,
    noise,
    points,
    public_point,
    spread,
    within,
)
from dpicl_rag.mechanisms.privacy_filters import PrivacyFilter
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.selection import (
    ChargedAlike,
    argmax_distribution,
    flip_distribution,
    no_ranges,
)
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.mechanisms.utilities import likeliest


@dataclass(frozen=True, slots=True)
class FewShot(ChargedAlike):
    """The candidate of the largest sum of probabilities, with Gaussian noise on every sum.

    Attributes:
        candidates: K, how many of the public row's likeliest tokens can be drawn.
        sigma: Standard deviation of the noise on a sum.
        rho: Rho of zCDP of one draw, without the sampling of experts.
        delta: See ``Mechanism``.
    """

    candidates: int
    sigma: float
    rho: float
    delta: float

    def distribution(self, step: Step) -> torch.Tensor:
        """Exact output distribution, float64 [vocabulary]."""
        at = likeliest(step.public, self.candidates)
        sums = points(step, at).sum(dim=0).double() / GRID
        return spread(argmax_distribution(sums, self.sigma), at, len(step.public))


@dataclass(frozen=True, slots=True)
class FewShotPermuteAndFlip(ChargedAlike):
    """The paper's pure variant: every expert's probabilities scaled to maximum 1, permute-and-flip.

    It is the argmax after exponential noise. With utilities of range 1 an expert that comes or
    goes costs pure ``strength``, one that changes twice that; see `PermuteAndFlip`.

    Attributes:
        candidates: K.
        strength: lambda; the paper's noise has scale ``1 / lambda`` on the sum.
        rho: Rho of zCDP of one draw, without the sampling of experts.
        delta: See ``Mechanism``.
    """

    candidates: int
    strength: float
    rho: float
    delta: float

    def distribution(self, step: Step) -> torch.Tensor:
        """Exact output distribution, float64 [vocabulary]."""
        at = likeliest(step.public, self.candidates)
        own = points(step, at).double()
        scaled = (own / own.amax(dim=1, keepdim=True) * GRID).floor().long()
        scores = self.strength * (scaled.sum(dim=0).double() / GRID)
        return spread(flip_distribution(scores), at, len(step.public))


@dataclass(frozen=True, slots=True)
class Difference(ChargedAlike):
    """The candidate of the largest ``M p_0 + sum_i clip(p_i - p_0, R)``, with Gaussian noise.

    Our simplest Gaussian method. AdaDPSyn looks for the radius of the experts' probabilities and
    for their centre, with noise. But there is a public centre, the public row, and a fixed radius
    does as well where few experts make the search noisy. So differences from the public row are cut
    to a public length R.

    **Charge**: an expert that comes or goes moves the sum by R in L2, one that changes by 2R.

    Attributes:
        candidates: K, how many of the public row's likeliest tokens can be drawn.
        experts: M, how many experts are expected. Public: never the number that there are.
        radius: R.
        sigma: Standard deviation of the noise on a sum.
        rho: Rho of zCDP of one draw, without the sampling of experts.
        delta: See ``Mechanism``.
    """

    candidates: int
    experts: int
    radius: float
    sigma: float
    rho: float
    delta: float

    def distribution(self, step: Step) -> torch.Tensor:
        """Exact output distribution, float64 [vocabulary]."""
        at = likeliest(step.public, self.candidates)
        centre = public_point(step, at)
        moved = clipped_sum(points(step, at), centre, self.radius)
        sums = (self.experts * centre + moved).double() / GRID
        return spread(argmax_distribution(sums, self.sigma), at, len(step.public))


_SHARES = {"radius": 0.04, "mean": 0.9, "count": 0.06}
"""Of a token's charge, near what the paper's settings come to."""


@dataclass(frozen=True, slots=True)
class Noises:
    """Noise over sensitivity of a token's releases.

    Attributes:
        radius: Of each value that the radius takes; infinite where none is searched for.
        mean: Of each mean.
        count: Of each count.
        rounds: Most refined means.
        halved: Halvings of the radius search; two values each.
    """

    radius: float
    mean: float
    count: float
    rounds: int = 1
    halved: int = 3

    @property
    def multiplier(self) -> float:
        """The noise over sensitivity of one Gaussian release that costs as much as all of them."""
        values = 2 * self.halved / self.radius**2
        squares = values + (self.rounds + 1) / self.mean**2 + self.rounds / self.count**2
        return 1 / math.sqrt(squares)


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
        """True where all stages have their noise.

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


_USUAL = AdaptiveConstants()


@dataclass(frozen=True, slots=True)
class Adaptive:
    """The largest candidate of the last noisy mean.

    Attributes:
        candidates: K, how many of the public row's likeliest tokens can be drawn.
        experts: M, how many experts are expected. Public: never the number that there are.
        noises: Of the releases.
        moved: How many times its length a difference moves: 1 where experts come and go, 2 where
            they change.
        rho: Rho of zCDP of one draw, without the sampling of experts.
        delta: See ``Mechanism``.
        constants: What steers the radius; their noise is in ``noises``.
        target: A public radius in place of one that is searched for; None searches.
    """

    candidates: int
    experts: int
    noises: Noises
    moved: int
    rho: float
    delta: float
    constants: AdaptiveConstants = _USUAL
    target: float | None = None

    def draw(self, step: Step, spend: PrivacyFilter, randomness: Randomness) -> int:
        """A draw of the largest candidate.

        Raises:
            ConfigurationError: The filter charges each unit for its own range.
        """
        spend.weigh(no_ranges)
        at = likeliest(step.public, self.candidates)
        own, centre = points(step, at), public_point(step, at)
        spend.pay()
        return int(at[self.last_mean(own, centre, randomness).argmax()])

    def distribution(self, step: Step) -> torch.Tensor:
        """No distribution: the mean is drawn as a vector.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError("the adaptive method has no closed form of what it draws")

    def last_mean(
        self, own: torch.Tensor, centre: torch.Tensor, randomness: Randomness
    ) -> torch.Tensor:
        """The last noisy mean, float64 [K].

        Args:
            own: Points of the experts, int64 [n, K].
            centre: The public row's, int64 [K].
            randomness: Where the coins come from.
        """
        *_, (_, mean) = self.balls(own, centre, self.radius(own, randomness), randomness)
        return mean

    @property
    def captured(self) -> int:
        """Experts that the target radius is to hold: a public number."""
        return max(1, round(self.constants.captured * self.experts))

    def radius(self, own: torch.Tensor, randomness: Randomness) -> float:
        """The target radius: searched for with noise, or the public one."""
        if self.target is not None:
            return self.target
        noises = self.noises
        return good_radius(own, self.captured, noises.radius, randomness, noises.halved)

    def balls(
        self, own: torch.Tensor, centre: torch.Tensor, target: float, randomness: Randomness
    ) -> Iterator[tuple[float, torch.Tensor]]:
        """The noisy means, each with the radius of its ball: every ball is smaller.

        Args:
            own: Points of the experts, int64 [n, K].
            centre: The public row's, int64 [K].
            target: The radius that balls come down to.
            randomness: Where the coins come from.
        """
        radius = LARGEST
        mean = self.mean(own, centre, radius, randomness)
        yield radius, mean
        for _ in range(self.noises.rounds):
            centre = distribution_on(mean)
            smaller = self.smaller(target, radius, len(centre))
            if radius < smaller or randomness.uniform() >= self.chance(own, centre, smaller):
                break
            radius = smaller
            mean = self.mean(own, centre, radius, randomness)
            yield radius, mean

    def mean(
        self, own: torch.Tensor, centre: torch.Tensor, radius: float, randomness: Randomness
    ) -> torch.Tensor:
        """Centre plus the noisy sum of differences over the public number of experts."""
        drawn = noise(len(centre), self.sigma(radius), randomness)
        moved = clipped_sum(own, centre, radius).double() / GRID + drawn.to(own.device)
        return centre.double() / GRID + moved / self.experts

    def sigma(self, radius: float) -> float:
        """Standard deviation of the noise on a sum of differences of length ``radius``."""
        return self.moved * radius * self.noises.mean

    def smaller(self, target: float, radius: float, candidates: int) -> float:
        """The next radius: the target, and some of what noise adds to a mean."""
        spread = self.sigma(radius) * math.sqrt(candidates) / self.experts
        return target + self.constants.slack * spread

    def chance(self, own: torch.Tensor, centre: torch.Tensor, radius: float) -> float:
        """Chance that the noisy count of points in a ball reaches its share: one coin draws it."""
        from scipy.special import ndtr

        inside = int(within(own, centre, radius).sum())
        return float(ndtr((inside - self.constants.enough * self.experts) / self.noises.count))
