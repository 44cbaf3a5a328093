"""Bars of a search: what units must reach to be found, and what noise in the choice of it costs.

How many units are near a question differs from question to question by a factor of thirty, so no
fixed threshold suits them all. A noisy bar chooses one from a public list, by counts with Gaussian
noise. Given the noisy counts it is public, and each unit passes it by its own score:
``Stability(1, 0)``, as for a threshold fixed beforehand.

The counts have a price. A unit's score lies in one bin between neighbouring thresholds, so it
moves every count that its bin is part of by 1: each such count costs this unit 1 / (2 sigma^2) of
zCDP, and other counts cost it nothing (Feldman, Zrnic 2021: the charge depends on the unit itself
and on earlier noisy counts). A unit that cannot pay must be left out of the counts beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dpicl_rag import _validate
from dpicl_rag.accounting import Adjacency, Stability
from dpicl_rag.configuration import UNITS
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval.base import EVERY, CoinRate, NoisyCount

THRESHOLD = 0.5
"""Least cosine where none is named: chosen without a corpus, for sentence embeddings."""

COARSE = tuple(hundredths / 100 for hundredths in range(82, 39, -6))
"""0.82, 0.76, ..., 0.40: chosen for cosines of sentence embeddings, on the data of benchmarks."""

DEEP = tuple(hundredths / 100 for hundredths in range(82, 9, -6))
"""The same down to 0.10, for models that say so themselves where a unit does not tell.

Mails of people who word one thing each in their own way, or in another language, are far apart; two
texts about nothing in common are at about 0, without what tells their language. Lower thresholds
cost a unit nothing more."""

FINE = tuple(hundredths / 100 for hundredths in range(93, 29, -1))
"""0.93, 0.92, ..., 0.30: 64 of them, so that 6 counts find one."""

_TOLD = 1.5
"""Sigmas of a count that tells of units; with less it is taken for noise. On 28 questions to two
mailboxes fewer or more let in too few units, or too many."""

Scores = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, repr=False)
class ChosenThreshold:
    """A threshold that counts have chosen.

    Attributes:
        place: Index of the threshold.
        count: Noisy number of units that pass, if one was drawn.
        looks: For each bin, how many counts it was part of.
        last: Of the units in the bin of the threshold, how many pass, each by a coin of its own.
    """

    place: int
    count: NoisyCount | None
    looks: Sequence[int]
    last: CoinRate = EVERY


UNCOUNTED = ChosenThreshold(0, None, (0,))
"""The threshold of an exact bar, whose units are not counted."""


class UnitBar:
    """A bar that exact scores decide, and the base of noisy ones. All of it is public.

    Attributes:
        stability: Units that the arrival of one adds and changes among those that pass.
        noisy: Whether noisy counts choose what passes.
        units: How many pass, at most or about; None where only the documents tell.
        thresholds: Scores, falling. Units are counted in the bins between them, and one that
            reaches the last may pass.
    """

    stability: ClassVar[Stability] = Stability(added=1, changed=0)
    noisy: ClassVar[bool] = False
    units: int | None
    thresholds: Sequence[float]

    def candidates(self, scores: Scores) -> Places:
        """Indices of the units that may pass, in their order, by the scores of all."""
        return np.flatnonzero(scores >= self.thresholds[-1])

    def looks(self, adjacency: Adjacency) -> int:
        """The most counts that one unit moves."""
        return 1

    def choose(
        self, counts: Sequence[int], noise: DiscreteGaussian, randomness: Randomness
    ) -> ChosenThreshold:
        """Choose the threshold, by noisy counts of the units in each bin.

        Args:
            counts: True numbers of units. Private.
            noise: On each count.
            randomness: Where the noise comes from.
        """
        count = NoisyCount(counts[0] + noise.draw(randomness), noise.sigma)
        return ChosenThreshold(0, count, (1,))


@dataclass(frozen=True)
class Everything(UnitBar):
    """No bar: all units pass."""

    units = None
    thresholds = (-math.inf,)


@dataclass(frozen=True)
class Threshold(UnitBar):
    """A public cosine with the question that a unit's best passage must reach.

    A unit is kept or dropped by its own passages alone, so its arrival adds one unit and changes
    none: ``Stability(1, 0)``, the condition of individual accounting.

    Args:
        threshold: Least cosine, from -1 to 1. Choose it without looking at the corpus.

    Raises:
        ConfigurationError: It is out of range.
    """

    units = None

    threshold: float = THRESHOLD

    def __post_init__(self) -> None:
        object.__setattr__(self, "thresholds", (_validate.cosine("threshold", self.threshold),))


@dataclass(frozen=True)
class TopK(UnitBar):
    """The units whose best passages are closest to the question; ties fall by `unit_key`.

    A newcomer displaces at most one unit: ``Stability(0, 1)``, twice the charge of a threshold,
    and individual accounting does not apply.

    Raises:
        ConfigurationError: It is out of range.
    """

    stability = Stability(added=0, changed=1)
    thresholds = (-math.inf,)

    units: int

    def __post_init__(self) -> None:
        _validate.count("units", self.units)

    def candidates(self, scores: Scores) -> Places:
        """Indices of the best, in the order in which they stand."""
        # Units stand in the order of `unit_key`, which a stable sort keeps for ties.
        best = np.argsort(-scores, kind="stable")[: self.units]
        return np.sort(best)


@dataclass(frozen=True)
class NoisyBar(UnitBar):
    """The base of bars that noisy counts choose from a list of thresholds.

    Args:
        units: Number of units to aim for. Public.
        thresholds: Cosines to choose from, falling. Choose them without looking at the corpus. At
            the last one the search ends, however few units were found.

    Raises:
        ConfigurationError: A parameter is out of range.
    """

    noisy = True

    units: int
    thresholds: Sequence[float] = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "thresholds", check_thresholds(self.thresholds))
        _validate.count("units", self.units)


@dataclass(frozen=True)
class NoisyThreshold(NoisyBar):
    """A threshold that lets about ``units`` units pass, found from the top down.

    Counts the units between neighbouring thresholds, from the top down, with Gaussian noise on
    each count, until the counts add up to ``units`` or the lowest threshold is met. A unit is in
    one bin, so it pays for one count at most, 1 / (2 sigma^2) of zCDP; and the bins that were
    counted are those at or above the chosen threshold, so **exactly the units that reach it have
    paid**. Units further away pay nothing.

    The last bin holds more than are wanted. Each of its units passes by a coin of its own, at a
    rate from the noisy counts: nearer units are all read, and none is lost to one that is further
    away. Where a threshold between the two was chosen in place of coins, units of equal scores, as
    of one mail to many, would pass all or not at all.

    Finer thresholds cost no more, but the noise of all counts adds up: the total at the n-th
    threshold has standard deviation ``sigma * sqrt(n)``. So a count that noise alone may have made
    is taken for none where counts are added up to ``units``: most bins above the nearest units are
    empty, and their noise ended a search early, or late.
    """

    units: int = UNITS
    thresholds: Sequence[float] = field(default=COARSE, repr=False)

    def looks(self, adjacency: Adjacency) -> int:
        """One; a replaced unit leaves one bin and enters another, so two counts move."""
        return 2 if adjacency is Adjacency.REPLACE_ONE else 1

    def choose(
        self, counts: Sequence[int], noise: DiscreteGaussian, randomness: Randomness
    ) -> ChosenThreshold:
        """The first threshold at which the counts add up, and how much of its bin passes."""
        before, last, place = 0.0, 0.0, -1  # as far as counts tell
        nearer, found = 0.0, 0.0  # noise and all
        while place + 1 < len(counts) and before + last < self.units:
            place += 1
            nearer, found = nearer + found, counts[place] + noise.draw(randomness)
            before, last = before + last, found if found >= _TOLD * noise.sigma else 0.0
        coins = CoinRate.of(last, self.units - before)
        passed = NoisyCount(found, noise.sigma).thinned(coins.rate)
        count = NoisyCount(nearer, noise.sigma * math.sqrt(place)).plus(passed)
        looks = [int(bin_ <= place) for bin_ in range(len(counts))]
        return ChosenThreshold(place, count, looks, coins)


@dataclass(frozen=True)
class NoisyTopK(NoisyBar):
    """A threshold close to the score of the k-th unit, found by halving.

    Searches a fine list of thresholds: each step counts the units at or above the middle one, with
    Gaussian noise. A unit pays 1 / (2 sigma^2) of zCDP for each count that it is part of, at most
    ``ceil(log2(len(thresholds)))`` of them. Units below the chosen threshold may have paid too, for
    counts at lower ones. A power of two of thresholds wastes no count.

    Unlike an exact top-k, no unit displaces another: ``Stability(1, 0)``. Against `NoisyThreshold`,
    each decision has the noise of one count, so the number found is closer to ``units``; take that
    one where a rough number is enough, as its units pay once.
    """

    thresholds: Sequence[float] = field(default=FINE, repr=False)

    def looks(self, adjacency: Adjacency) -> int:
        """One for each halving. A replaced unit, too, moves each count by 1 at most."""
        return (len(self.thresholds) - 1).bit_length()

    def choose(
        self, counts: Sequence[int], noise: DiscreteGaussian, randomness: Randomness
    ) -> ChosenThreshold:
        """The highest threshold that enough units reach."""
        reaching = list(accumulate(counts))
        looks = [0] * len(counts)
        low, high = 0, len(counts) - 1
        count: NoisyCount | None = None  # of the lowest threshold nobody asked
        while low < high:
            middle = (low + high) // 2
            noisy = reaching[middle] + noise.draw(randomness)
            for bin_ in range(middle + 1):
                looks[bin_] += 1
            if noisy >= self.units:
                high, count = middle, NoisyCount(noisy, noise.sigma)
            else:
                low = middle + 1
        return ChosenThreshold(high, count, looks)


def bins_of(scores: Scores, thresholds: Sequence[float]) -> Places:
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
