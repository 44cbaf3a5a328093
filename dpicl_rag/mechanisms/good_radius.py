"""A radius within which most points lie: GoodRadius, as AdaDPSyn uses it.

Nissim, Stemmer, Vadhan 2016 ("Locating a Small Cluster Privately"), section 3; Gao et al., ICLR
2025 (AdaDPSyn), Algorithm 3.

**Sensitivity.** ``L(r)`` is the mean of the t largest counts "points within r of this point", each
capped at t, where a point that is not there counts 0. A point that comes brings one count, at most
t, and adds 1 to the others at most; so it moves the mean by less than 2. A point that changes
moves it by 2 at most (their Lemma 4.5).

Only comparisons of ``L(r)`` plus Gaussian noise with t are used, and the chance of each is known.
So one coin stands for the noise, exactly.
"""

from __future__ import annotations

import math

import torch

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.points import GRID
from dpicl_rag.mechanisms.randomness import Randomness

SENSITIVITY = 2.0
"""Of L, for a point that comes, goes or changes."""

LARGEST = math.sqrt(2) / 2
"""Radius of a ball that holds all probability vectors, nearly; the search begins with it."""

PRECISION = 0.1
"""The search ends where its interval is no longer than this (their tolerance)."""

LEAST = 0.001
"""Least precision, and least radius: shorter ones lie near the grid that noise is drawn on."""

ROUNDS = 3
"""Halvings at that precision, two noisy values each: from 0.71 to steps of 0.09."""


def halvings(precision: float) -> int:
    """Halvings that make an interval of ``LARGEST`` no longer than ``precision``; 1 at least.

    Raises:
        ConfigurationError: The precision is below ``LEAST`` or not finite.
    """
    if not LEAST <= precision < math.inf:
        raise ConfigurationError(f"precision must be a finite number of {LEAST:g} or more")
    return max(1, math.ceil(math.log2(LARGEST / precision)))


def crowding(distances: torch.Tensor, radius: float, most: int) -> float:
    """``L(r)``: from 0 to ``most``.

    Args:
        distances: Squared distances of all pairs in squared units, int64 [n, n].
        radius: r.
        most: t, a public number.
    """
    counts = (distances <= math.floor((radius * GRID) ** 2)).sum(dim=1).clamp(max=most)
    return float(counts.sort(descending=True).values[:most].sum()) / most


def pairwise(points: torch.Tensor) -> torch.Tensor:
    """Squared distances of all pairs in squared units, int64 [n, n], exact."""
    return (points[:, None] - points[None]).square().sum(dim=-1)


def down_chance(distances: torch.Tensor, radius: float, most: int, sigma: float) -> float:
    """Chance that ``L(r)`` or ``L(r / 2)`` reaches t with noise of ``sigma`` on each."""
    from scipy.special import ndtr

    short = [most - crowding(distances, r, most) for r in (radius, radius / 2)]
    return 1 - float(ndtr(short[0] / sigma) * ndtr(short[1] / sigma))


def good_radius(
    points: torch.Tensor,
    most: int,
    multiplier: float,
    randomness: Randomness,
    halved: int = ROUNDS,
) -> float:
    """A radius, private at ``2 * halved`` Gaussian releases of a noise multiplier.

    Args:
        points: Int64 [n, K].
        most: t: how many points the ball is to hold. Public.
        multiplier: Noise of a value of L over its sensitivity.
        randomness: Where the coins come from.
        halved: How often the interval is halved. Public.

    Returns:
        The middle of the interval that is left, one of ``2 ** halved`` numbers.
    """
    distances = pairwise(points)
    low, high = 0.0, LARGEST
    for _ in range(halved):
        middle = (low + high) / 2
        chance = down_chance(distances, middle, most, SENSITIVITY * multiplier)
        if randomness.uniform() < chance:
            high = middle
        else:
            low = middle
    return (low + high) / 2


def radius_chances(
    points: torch.Tensor, most: int, multiplier: float, halved: int = ROUNDS
) -> list[tuple[float, float]]:
    """What `good_radius` may return, each radius with its exact chance. Private.

    For tests and for experiments on public data; the arguments are those of `good_radius`.
    """
    distances = pairwise(points)
    found = [(0.0, LARGEST, 1.0)]
    for _ in range(halved):
        grown = []
        for low, high, chance in found:
            middle = (low + high) / 2
            down = down_chance(distances, middle, most, SENSITIVITY * multiplier)
            grown += [(low, middle, chance * down), (middle, high, chance * (1 - down))]
        found = grown
    return [((low + high) / 2, chance) for low, high, chance in found]
