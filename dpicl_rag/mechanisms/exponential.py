"""The Product-of-Experts exponential mechanism: b(y) * exp(lambda * sum_i w_i f_i(y)).

With utilities of range R, one expert added or removed moves every log probability by amounts that
lie in an interval of length lambda * R: the draw is (lambda * R)-bounded-range (Dong, Durfee,
Rogers 2020). One expert changed: 2 * lambda * R. Zero experts: b(y) itself.
"""

from __future__ import annotations

import torch

from dpicl_rag.mechanisms.randomness import Randomness


def utility_ranges(utilities: torch.Tensor) -> torch.Tensor:
    """Realised range of every expert, float64 [n], from utilities [n, candidates]."""
    if len(utilities) == 0:
        return utilities.new_zeros(0, dtype=torch.float64)
    low, high = torch.aminmax(utilities, dim=-1)
    return high.double() - low.double()


def aggregate(
    base: torch.Tensor, utilities: torch.Tensor, weights: torch.Tensor | float
) -> torch.Tensor:
    """Unnormalised log-probabilities of the mechanism.

    Args:
        base: ``log b(y)``, float64 [candidates]; ``-inf`` outside the candidates.
        utilities: f [n, candidates], any float dtype.
        weights: ``lambda * w_i`` [n], or one number for all.

    Returns:
        Scores, float64 [candidates]; ``base`` itself when there are no experts.
    """
    if len(utilities) == 0:
        return base
    if not isinstance(weights, torch.Tensor):
        weights = base.new_full((len(utilities),), weights)
    # In float64 whatever the model's dtype.
    return base + weights.double() @ utilities.double()


def draw(scores: torch.Tensor, randomness: Randomness) -> int:
    """Draw an index with probability proportional to ``exp(scores)``.

    Inverts the cumulative distribution, in float64, at one number from ``randomness``. The host
    learns the drawn index and nothing else.

    Args:
        scores: Unnormalised log-probabilities, float64 [candidates].
        randomness: Where the uniform number comes from.
    """
    cumulative = torch.cumsum(torch.exp(scores - scores.max()), dim=0)
    target = cumulative[-1:] * randomness.uniform()
    # right=True skips candidates of no mass, whose cumulative value equals their neighbour's.
    index = torch.searchsorted(cumulative, target, right=True)
    # Rounding may put the target on the last step; that candidate has mass, the one after it
    # does not exist.
    last = torch.searchsorted(cumulative, cumulative[-1:])
    return int(torch.minimum(index, last))
