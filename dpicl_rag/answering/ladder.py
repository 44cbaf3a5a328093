"""The ladder: counts of whole answers, the cheap ones first.

How many units agree is not known beforehand. So the first count has much noise, and costs little;
each later one has half as much, and the last takes all that is left. Every step has noise of its
own, and is paid for.
"""

from __future__ import annotations

from statistics import NormalDist

from dpicl_rag.accounting.shares import SHARES
from dpicl_rag.accounting.stability import Adjacency, Stability
from dpicl_rag.mechanisms.agreement import Agreement

Ladder = tuple[Agreement, ...]

_MOSTLY = 0.9


def ladder_within(
    rho: float, delta: float, first: float, stability: Stability, adjacency: Adjacency
) -> Ladder:
    """Steps whose prices add up to no more than a rho and a delta.

    Args:
        rho: zCDP rho of all steps.
        delta: Of all thresholds.
        first: About how many units must agree at the first step. Public.
        stability: From the corpus to the experts.
        adjacency: Of corpora.
    """
    # A billionth is kept back for the rounding of these sums.
    steps, left, delta_left = [], rho * (1 - 1e-9), delta * (1 - 1e-9)
    scale = stability.votes_l2(adjacency)
    tail = -NormalDist().inv_cdf(SHARES.early_threshold * delta)
    sigma = max(1.0, scale * (first - 1) / tail)
    while (price := (scale / sigma) ** 2 / 2) <= SHARES.early_step * left:
        step = Agreement.within(price, SHARES.early_threshold * delta_left, stability, adjacency)
        steps.append(step)
        left, delta_left, sigma = left - step.rho, delta_left - step.delta, sigma / 2
    return (*steps, Agreement.within(left, delta_left, stability, adjacency))


def units_that_agree(ladder: Ladder) -> int:
    """How many units must say the same, so that a ladder releases it 9 times in 10. Public.

    Args:
        ladder: At least one step.
    """
    found = 1
    while _released(ladder, found) < _MOSTLY:
        found += 1
    return found


def _released(ladder: Ladder, units: int) -> float:
    missed = 1.0
    for step in ladder:
        missed *= 1 - step.noise.tail(step.threshold - units)
    return 1 - missed
