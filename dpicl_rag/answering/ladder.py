"""The ladder: counts of whole answers, the cheap ones first.

How many units agree is not known beforehand. So the first count has much noise, and costs little;
each later one has half as much, and the last takes all that is left. Every step has noise of its
own, and is paid for.
"""

from __future__ import annotations

from dpicl_rag.accounting.shares import SHARES
from dpicl_rag.accounting.stability import Adjacency, Stability
from dpicl_rag.mechanisms.agreement import Agreement

Ladder = tuple[Agreement, ...]


def ladder_within(
    rho: float, delta: float, units: int, stability: Stability, adjacency: Adjacency
) -> Ladder:
    """Steps whose prices add up to no more than a rho and a delta.

    Args:
        rho: zCDP rho of all steps.
        delta: Of all thresholds.
        units: About how many units are asked. Public.
        stability: From the corpus to the experts.
        adjacency: Of corpora.
    """
    early, left = [], SHARES.early_steps * rho
    scale = stability.votes_l2(adjacency)
    sigma = max(1.0, scale * units * SHARES.first_noise)
    while (price := (scale / sigma) ** 2 / 2) <= left:
        early.append(price)
        left -= price
        sigma /= 2
    last_delta = delta * (1 - SHARES.early_threshold) if early else delta
    early_delta = delta * SHARES.early_threshold / len(early) if early else 0.0
    # A billionth is kept back for the rounding of these sums.
    last = (rho - sum(early)) * (1 - 1e-9)
    steps = [Agreement.within(one, early_delta, stability, adjacency) for one in early]
    return (*steps, Agreement.within(last, last_delta, stability, adjacency))
