"""Experts as points: probabilities of a few public candidates, in whole numbers.

A point is an expert's row restricted to the candidates and scaled to sum 1, cut to multiples of
``1 / GRID``. Everything that noise is put on is computed from these whole numbers, so counts,
distances and sums have the same bits whatever else is in a batch, and no bound on a length is
passed by rounding: cutting goes towards zero.

*Sums* are of differences from a public centre, each cut to a length (`clipped_sum`), so one that
comes or goes moves the sum by R at most, and one that changes by 2R. Points that were projected
onto a ball and then added up would move it by ``|centre| + R`` (AdaDPSyn's form, which holds for a
fixed number of points only).

*A radius within which most points lie* is GoodRadius, as AdaDPSyn uses it: Nissim, Stemmer, Vadhan
2016 ("Locating a Small Cluster Privately"), section 3; Gao et al., ICLR 2025 (AdaDPSyn),
Algorithm 3. ``L(r)`` is the mean of the t largest counts "points within r of this point", each
capped at t, where a point that is not there counts 0. A point that comes brings one count, at most
t, and adds 1 to the others at most; so it moves the mean by less than 2. A point that changes
moves it by 2 at most (their Lemma 4.5). Only comparisons of ``L(r)`` plus Gaussian noise with t are
used, and the chance of each is known. So one coin stands for the noise, exactly.
"""

from __future__ import annotations

import math

import torch

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.step import Step

GRID = 1 << 24
"""Units in a probability of 1. Squared distances of points stay exact in 64 bits."""


def points(step: Step, candidates: torch.Tensor) -> torch.Tensor:
    """The experts' points.

    An expert to whom none of the candidates is possible, or whose row is no distribution, has no
    point. That follows from its own row alone. A candidate that a row does not have counts 0.

    Args:
        step: What the engine computed.
        candidates: Public, see `likeliest`.

    Returns:
        Int64 [experts, K], each row of sum ``GRID`` at most and not negative.
    """
    own = [step.log_probs(candidate) for candidate in candidates.tolist()]
    return _on_grid(torch.stack(own, dim=1))


def public_point(step: Step, candidates: torch.Tensor) -> torch.Tensor:
    """The public row as a point, int64 [K]."""
    return _on_grid(step.public[candidates].double()[None])[0]


def spread(probabilities: torch.Tensor, candidates: torch.Tensor, size: int) -> torch.Tensor:
    """Probabilities of the candidates, and 0 for all others, float64 [size]."""
    found = probabilities.new_zeros(size)
    found[candidates] = probabilities
    return found


def _on_grid(log_probs: torch.Tensor) -> torch.Tensor:
    """Rows of log-probabilities as points; without those that are no distribution."""
    possible = log_probs[log_probs.amax(dim=1).isfinite()]
    # Row by row: the bits of a row do not follow from the rows beside it.
    return (torch.softmax(possible, dim=-1) * GRID).floor().long()


_FINER = 1 << 16
"""Multiples on which noise lies, in one of the points: see `noise`."""


def within(points: torch.Tensor, centre: torch.Tensor, radius: float) -> torch.Tensor:
    """Points that lie in a ball, bool [points]."""
    return (points - centre).square().sum(dim=-1) <= math.floor((radius * GRID) ** 2)


def clipped_sum(points: torch.Tensor, centre: torch.Tensor, radius: float) -> torch.Tensor:
    """``sum_i clip(p_i - centre, R)`` in units of ``1 / GRID``: int64 [K].

    Args:
        points: Int64 [n, K], see `points.points`.
        centre: Public, int64 [K].
        radius: R, above 0.
    """
    differences = points - centre
    squares = differences.square().sum(dim=-1, keepdim=True).double()
    # Square roots, divisions and products of float64 are rounded alike at every place of a batch.
    scale = (radius * GRID / squares.clamp(min=1.0).sqrt()).clamp(max=1.0)
    # Cut towards zero, no difference gets longer.
    cut: torch.Tensor = (differences.double() * scale).trunc()
    return cut.long().sum(dim=0)


def noise(size: int, sigma: float, randomness: Randomness) -> torch.Tensor:
    """Gaussian noise as float64 [size], of standard deviation ``sigma`` in probability.

    It is discrete Gaussian on multiples of ``u = 2^-40``, on which the points lie too, drawn in
    whole numbers. A continuous Gaussian that was rounded to these multiples, which is
    post-processing and has the charge of the continuous one, gives every multiple the same
    probability up to a factor of ``1 +- 10 u^2 / sigma^2`` within ten standard deviations: for
    sigma above 0.001 less than 1e-17, far below the rounding of float64.
    """
    grain = DiscreteGaussian(sigma * GRID * _FINER)
    drawn = [grain.draw(randomness) for _ in range(size)]
    return torch.tensor(drawn, dtype=torch.float64) / (GRID * _FINER)


def distribution_on(mean: torch.Tensor) -> torch.Tensor:
    """A noisy mean as the centre of the next one: no negative parts, sum 1; int64 [K].

    Where nothing is left of it, every candidate has the same share.

    Args:
        mean: Float64 [K]; released, or public.
    """
    kept = mean.clamp(min=0.0)
    total = float(kept.sum())
    if total <= 0:
        kept, total = torch.ones_like(kept), float(len(kept))
    return (kept / total * GRID).floor().long()


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
