"""How far one unit moves a sum over experts, from stability and adjacency."""

from __future__ import annotations

import math

from dpicl_rag.accounting.stability import Adjacency, Stability

SQRT_2 = math.sqrt(2.0)
"""L2 distance of two votes, and the largest distance of two probability vectors."""


def moved(stability: Stability, adjacency: Adjacency) -> tuple[int, int]:
    """Experts that one unit adds (or takes away), and experts that it changes arbitrarily.

    A replaced unit is a removal and an arrival: what the one takes away and what the other adds
    are pairs of changed experts. ``added + 2 * changed`` of the result is ``Stability.factor``.
    """
    if adjacency is Adjacency.REPLACE_ONE:
        return 0, stability.added + 2 * stability.changed
    return stability.added, stability.changed


def votes_l2(stability: Stability, adjacency: Adjacency) -> float:
    """L2 sensitivity of the sum of the experts' votes, or of their probability vectors.

    A vector added has length 1 at most, one changed for another moves by sqrt(2) at most.
    """
    added, changed = moved(stability, adjacency)
    return added + SQRT_2 * changed
