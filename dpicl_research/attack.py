"""Membership inference: how well scores separate examples of a context from others.

The statistics only; `dpicl_research.membership` computes the scores. Figures are for the
owner of the examples: they come from exact distributions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpicl_rag import _validate
from dpicl_rag.errors import ConfigurationError

_RESAMPLES = 2000
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Attack:
    """Figures of an attack.

    Attributes:
        auroc: Probability that a member scores higher than a non-member; 0.5 is guessing.
        low: Lower end of the confidence interval.
        high: Upper end.
        confidence: Of the interval.
    """

    auroc: float
    low: float
    high: float
    confidence: float


def auroc(members: Sequence[float], others: Sequence[float]) -> float:
    """Area under the ROC curve: P(member's score is higher), ties counted half.

    Raises:
        ConfigurationError: A side has no scores, or one is not a number.
    """
    scores = np.array([*members, *others], dtype=float)
    if not len(members) or not len(others) or np.isnan(scores).any():
        raise ConfigurationError("an attack needs scores of members and of others")
    return float(_wins([members], [others])[0, 0] / (len(members) * len(others)))


def attack(
    members: Sequence[Sequence[float]],
    others: Sequence[Sequence[float]],
    *,
    confidence: float = _CONFIDENCE,
) -> Attack:
    """AUROC over all seeds, with a percentile bootstrap interval.

    Whole seeds are resampled: examples of one seed share a context, and DeLong's interval would
    take them for independent.

    Args:
        members: Scores of the members, by seed.
        others: Scores of the others, by seed.
        confidence: Of the interval.

    Raises:
        ConfigurationError: A seed lacks scores of either kind, or an argument is outside its
            range.
    """
    sizes = _sizes(members, others)
    _validate.probability("confidence", confidence)
    found = auroc([s for seed in members for s in seed], [s for seed in others for s in seed])
    wins = _wins(members, others)
    # How often each seed is drawn, in every resample.
    seeds = len(members)
    times = np.random.default_rng(0).multinomial(seeds, np.full(seeds, 1 / seeds), _RESAMPLES)
    pairs = (times @ sizes[:, 0]) * (times @ sizes[:, 1])
    areas = np.einsum("ri,ij,rj->r", times, wins, times, optimize=True) / pairs
    return _with_interval(found, areas, confidence)


def coin_attack(members: Sequence[Sequence[float]], others: Sequence[Sequence[float]]) -> Attack:
    """``attack`` where a score is 1 with the given probability and else 0, in expectation.

    The AUROC is then ``1/2 + (mean of members - mean of others) / 2``, without drawing. Arguments
    and errors as in ``attack``; what is given are probabilities.
    """
    sizes = _sizes(members, others)
    inside = np.array([np.mean(seed) for seed in members])
    outside = np.array([np.mean(seed) for seed in others])
    random = np.random.default_rng(0)
    chosen = random.integers(len(inside), size=(_RESAMPLES, len(inside)))
    gaps = _weighted(inside, sizes[:, 0], chosen) - _weighted(outside, sizes[:, 1], chosen)
    everyone = np.arange(len(inside))[None]
    gap = _weighted(inside, sizes[:, 0], everyone) - _weighted(outside, sizes[:, 1], everyone)
    return _with_interval(float((1 + gap[0]) / 2), (1 + gaps) / 2, _CONFIDENCE)


def _with_interval(found: float, resampled: NDArray[np.float64], confidence: float) -> Attack:
    tail = (1 - confidence) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail])
    return Attack(found, float(low), float(high), confidence)


def largest_auroc(epsilon: float, delta: float) -> float:
    """The AUROC that no attack on one (epsilon, delta)-DP output can exceed.

    The area under ``TPR <= e^epsilon FPR + delta`` and its mirror image (Kairouz, Oh, Viswanath
    2015): ``e^epsilon / (1 + e^epsilon)`` at delta 0.
    """
    if epsilon > 700:
        return 1.0
    corner = (1 - delta) / (1 + math.exp(epsilon))
    return corner * (1 + delta - corner) / 2 + (1 - corner - delta) * (2 - corner) / 2 + delta


def _sizes(
    members: Sequence[Sequence[float]], others: Sequence[Sequence[float]]
) -> NDArray[np.int64]:
    """Numbers of members and of others of each seed [seeds, 2]."""
    if len(members) != len(others) or not all(map(len, [*members, *others])):
        raise ConfigurationError("every seed needs scores of members and of others")
    return np.array([[len(a), len(b)] for a, b in zip(members, others, strict=True)])


def _wins(
    members: Sequence[Sequence[float]], others: Sequence[Sequence[float]]
) -> NDArray[np.float64]:
    """Pairs of a member of seed i and another of seed j that the member wins, ties half [i, j]."""
    inside = np.concatenate([np.asarray(seed, dtype=float) for seed in members])
    starts = np.cumsum([0, *map(len, members)])[:-1]
    columns = []
    for seed in others:
        ordered = np.sort(np.asarray(seed, dtype=float))
        below = np.searchsorted(ordered, inside, side="left")
        level = np.searchsorted(ordered, inside, side="right") - below
        columns.append(np.add.reduceat(below + level / 2, starts))
    return np.stack(columns, axis=1)


def _weighted(
    means: NDArray[np.float64], sizes: NDArray[np.int64], chosen: NDArray[np.int64]
) -> NDArray[np.float64]:
    pooled: NDArray[np.float64] = (means * sizes)[chosen].sum(axis=1) / sizes[chosen].sum(axis=1)
    return pooled
