"""A secret sample of a pool, drawn anew for every token."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dpicl_rag.language_models.base import GrowingRows, Input
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.step import Step
from dpicl_rag.synthesis.pools import Pool

Members = list[tuple[str, ...]]
"""Texts of each expert. Private."""

Sampler = Callable[[Pool, Randomness], Members]
"""Tosses fresh coins and gives what each expert reads."""


class FreshSampleRows:
    """Rows whose every step is read from a sample of its own.

    The model keeps keys and values of documents it has read, so only the text that was drawn is
    read anew; see `PrefixCache`.

    Args:
        sample: Draws what the experts read; called once for every step.
        read: Reads a prompt's rows.
    """

    def __init__(
        self, sample: Callable[[], list[Input]], read: Callable[[list[Input]], GrowingRows]
    ) -> None:
        self._sample = sample
        self._read = read
        self._tokens: list[int] = []

    def __repr__(self) -> str:
        return "FreshSampleRows()"

    def extend(self, token_ids: Sequence[int]) -> Step:
        """See ``GrowingRows.extend``."""
        self._tokens += token_ids
        return self._read(self._sample()).extend(self._tokens)


def poisson(rate: float, groups: int | None) -> Sampler:
    """Each unit joins by its own coin; then each has an expert, or joins a group by another coin.

    Stability: ``DIRECT``, or ``RANDOM_GROUPS``.

    Args:
        rate: Probability of joining. Public.
        groups: How many groups; None makes one expert for each unit.
    """

    def draw(pool: Pool, randomness: Randomness) -> Members:
        joined = [texts for texts in pool.values() if randomness.uniform() < rate]
        return joined if groups is None else _grouped(joined, groups, randomness)

    return draw


def fixed_size(size: int, rate: float, groups: int | None) -> Sampler:
    """A sample of public size from the pool's places, for replaced units.

    A pool of fewer than ``size / rate`` units has empty places beside them, where nobody speaks:
    so a sample never takes more than its public share of them, and the pool's size, which a unit
    of another label changes, is no matter. Taking a unit away empties its place; where there are
    more units than places, the one that takes the last place stands for it. Either way the
    sample changes in one place, with probability ``rate`` at most.

    Args:
        size: Places in a sample. Public.
        rate: Largest share of a pool that is sampled. Public.
        groups: How many groups of equal size; None makes one expert for each place.
    """

    def draw(pool: Pool, randomness: Randomness) -> Members:
        places: list[tuple[str, ...]] = list(pool.values())
        places += [()] * (math.ceil(size / rate) - len(places))
        for at in range(size):  # the first steps of a Fisher-Yates shuffle
            other = at + randomness.below(len(places) - at)
            places[at], places[other] = places[other], places[at]
        taken = places[:size]
        if groups is None:
            return [texts for texts in taken if texts]
        return [
            tuple(text for texts in taken[group::groups] for text in texts)
            for group in range(groups)
        ]

    return draw


def _grouped(joined: Members, groups: int, randomness: Randomness) -> Members:
    members: list[list[str]] = [[] for _ in range(groups)]
    for texts in joined:
        members[randomness.below(groups)] += texts
    return [tuple(texts) for texts in members]
