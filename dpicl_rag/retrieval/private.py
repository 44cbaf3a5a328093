"""A threshold chosen for each question by noisy counts, and what the counts cost.

How many units are near a question differs from question to question by a factor of thirty, so no
fixed threshold suits them all. Here the threshold is chosen from a public list by counts with
Gaussian noise. Given the noisy counts it is public, and each unit passes it by its own score:
``Stability(1, 0)``, as for a threshold fixed beforehand.

The counts have a price. A unit's score lies in one bin between neighbouring thresholds, so it
moves every count that its bin is part of by 1: each such count costs this unit 1 / (2 sigma^2) of
zCDP, and other counts cost it nothing (Feldman, Zrnic 2021: the charge depends on the unit itself
and on earlier noisy counts). A unit that cannot pay must be left out of the counts beforehand.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Self

import numpy as np
import numpy.typing as npt

from dpicl_rag import _validate
from dpicl_rag.accounting import Adjacency, Stability
from dpicl_rag.accounting.shares import SHARES
from dpicl_rag.documents import group_by_unit
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.gaussian import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval.base import Retrieved, Search
from dpicl_rag.retrieval.count import NoisyCount, noise_of
from dpicl_rag.retrieval.scanner import Scanner
from dpicl_rag.retrieval.share import Share


@dataclass(frozen=True, slots=True, repr=False)
class Choice:
    """A threshold chosen by noisy counts.

    Attributes:
        place: Index of the threshold.
        count: Noisy number of units that reach it, if one was drawn.
        looks: For each bin, how many counts it was part of.
    """

    place: int
    count: NoisyCount | None
    looks: Sequence[int]


@dataclass(eq=False, repr=False)
class CountingRetriever(Scanner, ABC):
    """The base of the private retrievers; see `PrivateThresholdRetriever` for the arguments."""

    stability = Stability(added=1, changed=0)

    _: KW_ONLY
    thresholds: Sequence[float]
    sigma: float | None = None
    thin_to: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.thin_to is not None:
            _validate.count("thin_to", self.thin_to)
        self.thresholds = check_thresholds(self.thresholds)
        if self.sigma is not None:
            _validate.positive("sigma", self.sigma)

    @cached_property
    def noise(self) -> DiscreteGaussian:
        """On each count.

        Raises:
            ConfigurationError: ``sigma`` is not set.
        """
        return noise_of(self.sigma)

    @property
    def count_rho(self) -> float:
        """Rho of zCDP that one count costs a unit that it counts. Public."""
        return self.noise.rho

    @abstractmethod
    def looks(self, adjacency: Adjacency) -> int:
        """The most counts that one unit moves. Public."""

    def rho(self, adjacency: Adjacency) -> float:
        """Rho of zCDP that one search costs any unit at most. Public."""
        return self.count_rho * self.looks(adjacency)

    def within(self, rho: float, adjacency: Adjacency) -> Self:
        """See `Priced.within`."""
        if self.sigma is not None:
            return self
        most = SHARES.counting(rho) / self.looks(adjacency)
        return replace(self, sigma=math.sqrt(1 / (2 * most)))

    def search(self, question: str) -> Search:
        """Score the units; each that reaches the lowest threshold is a candidate by that alone."""
        near = self.scan(question, least=self.thresholds[-1])
        rows = np.flatnonzero(near.scores >= self.thresholds[-1])
        bins = bins_of(near.scores[rows], self.thresholds)

        def draw(admitted: Sequence[bool], randomness: Randomness) -> Retrieved:
            counted = np.asarray(admitted, dtype=bool)
            counts = np.bincount(bins[counted], minlength=len(self.thresholds))
            choice = self._choose(counts.tolist(), randomness)
            share = Share.of(choice.count, self.thin_to)
            passing = rows[bins <= choice.place].tolist()
            kept = [row for row in passing if share.keeps(randomness)]
            looks = np.asarray(choice.looks)[bins] * counted
            return Retrieved(
                group_by_unit(self.passages(near, kept)),
                [look * self.count_rho for look in looks.tolist()],
                choice.count and choice.count.thinned(share.rate),
                share.rate,
            )

        return Search([near.units[row] for row in rows.tolist()], draw)

    @abstractmethod
    def _choose(self, counts: Sequence[int], randomness: Randomness) -> Choice:
        """Choose a threshold from the number of units per bin, by noisy counts."""


def bins_of(scores: npt.NDArray[np.float64], thresholds: Sequence[float]) -> npt.NDArray[np.intp]:
    """Bin of each score: the index of the highest threshold that it reaches.

    Args:
        scores: float64 ``[n]``.
        thresholds: Falling.

    Returns:
        ``[n]``; ``len(thresholds)`` for a score that reaches none.
    """
    return np.searchsorted(-np.asarray(thresholds), -scores, side="left")


def check_thresholds(thresholds: Sequence[float]) -> tuple[float, ...]:
    """The thresholds as a tuple.

    Raises:
        ConfigurationError: There is none, they do not fall, or one is outside -1 to 1.
    """
    checked = tuple(float(threshold) for threshold in thresholds)
    falling = all(high > low for high, low in pairwise(checked))
    if not checked or not falling or not all(-1 <= threshold <= 1 for threshold in checked):
        raise ConfigurationError("thresholds must fall, from at most 1 to at least -1")
    return checked
