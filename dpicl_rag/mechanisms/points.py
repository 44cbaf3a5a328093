"""Experts as points: probabilities of a few public candidates, in whole numbers.

A point is an expert's row restricted to the candidates and scaled to sum 1, cut to multiples of
``1 / GRID``. Everything that noise is put on is computed from these whole numbers, so counts,
distances and sums have the same bits whatever else is in a batch, and no bound on a length is
passed by rounding: cutting goes towards zero.
"""

from __future__ import annotations

import torch

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
