"""Sums of differences from a public centre, each cut to a length; with noise, a private mean.

Added up are the *differences* ``clip(p_i - centre, R)``, so one that comes or goes moves the sum by
R at most, and one that changes by 2R. Points that were projected onto a ball and then added up
would move it by ``|centre| + R`` (AdaDPSyn's form, which holds for a fixed number of points only).
"""

from __future__ import annotations

import math

import torch

from dpicl_rag.mechanisms.gaussian import DiscreteGaussian
from dpicl_rag.mechanisms.points import GRID
from dpicl_rag.mechanisms.randomness import Randomness

_FINER = 1 << 16
"""Multiples on which noise lies, in one of the points: see `noise`."""


def squared_distances(points: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
    """Squared distance of each point from a centre, in squared units: int64 [points], exact."""
    return (points - centre).square().sum(dim=-1)


def within(points: torch.Tensor, centre: torch.Tensor, radius: float) -> torch.Tensor:
    """Points that lie in a ball, bool [points]."""
    return squared_distances(points, centre) <= math.floor((radius * GRID) ** 2)


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
