"""Exact epsilon of two output distributions, as far as they have been enumerated."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

import torch

Tokens = tuple[int, ...]
Steps = Callable[[Tokens], tuple[torch.Tensor, torch.Tensor]]
"""From released tokens to both log-distributions of the next one, float64 [vocabulary] each."""


def exact_epsilon(log_p: torch.Tensor, log_q: torch.Tensor, delta: float) -> float:
    """Smallest epsilon for which two distributions are (epsilon, delta)-close both ways.

    Args:
        log_p: Log-probabilities of the outcomes, float64 [outcomes].
        log_q: The same outcomes in the neighbour's distribution.
        delta: 0 or more.

    Returns:
        Epsilon; infinity where an outcome of more than ``delta`` is impossible in the other.
    """
    return max(_one_way(log_p, log_q, delta), _one_way(log_q, log_p, delta))


def _one_way(log_p: torch.Tensor, log_q: torch.Tensor, delta: float) -> float:
    """Smallest epsilon with ``sum max(p - e^epsilon q, 0) <= delta``."""
    likelier = log_p > log_q
    if not bool(likelier.any()):
        return 0.0
    log_p, log_q = log_p[likelier], log_q[likelier]
    loss, order = (log_p - log_q).sort(descending=True)
    if delta == 0:
        return float(loss[0])
    # The sum is largest with the outcomes of largest loss in the event, however many: each number
    # of them gives an epsilon that it needs.
    p, q = log_p[order].exp().cumsum(0), log_q[order].exp().cumsum(0)
    needed = torch.log((p - delta) / q)[p > delta]
    return max(0.0, float(needed.max())) if len(needed) else 0.0


def enumerate_outputs(
    steps: Steps, stop_tokens: frozenset[int], *, depth: int, expansions: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both distributions over outputs, the likeliest ones spelled out the furthest.

    An output that leaves the enumerated tree counts by the tokens it had until then. That is
    post-processing, so the epsilon of what is returned never exceeds that of whole outputs.

    Args:
        steps: Both next-token distributions after released tokens.
        stop_tokens: Tokens that end an output.
        depth: Most tokens of an output.
        expansions: How many prefixes are followed.

    Returns:
        Log-probabilities of the same outcomes under either neighbour, float64 [outcomes] each.
    """
    # Entries: minus the larger log-probability, then the prefix and its two log-probabilities.
    waiting: list[tuple[float, Tokens, float, float]] = [(0.0, (), 0.0, 0.0)]
    leaves: list[tuple[torch.Tensor, torch.Tensor]] = []
    for left in range(expansions, 0, -1):
        if not waiting:
            break
        _, prefix, before_p, before_q = heapq.heappop(waiting)
        log_p, log_q = (
            before + s for before, s in zip((before_p, before_q), steps(prefix), strict=True)
        )
        likeliest = torch.maximum(log_p, log_q)
        grown = []
        if len(prefix) + 1 < depth:
            best = likeliest.topk(min(left, len(likeliest))).indices.tolist()
            grown = [t for t in best if t not in stop_tokens and likeliest[t] > -math.inf]
        for token in grown:
            entry = (-float(likeliest[token]), (*prefix, token))
            heapq.heappush(waiting, (*entry, float(log_p[token]), float(log_q[token])))
        kept = torch.ones_like(log_p, dtype=torch.bool)
        kept[grown] = False
        leaves.append((log_p[kept], log_q[kept]))
    leaves += [(torch.tensor([p]).double(), torch.tensor([q]).double()) for _, _, p, q in waiting]
    return torch.cat([p for p, _ in leaves]), torch.cat([q for _, q in leaves])
