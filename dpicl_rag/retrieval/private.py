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

import random
import secrets
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dpicl_rag.accounting.stability import Adjacency, Stability
from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.gaussian import Below, DiscreteGaussian
from dpicl_rag.mechanisms.randomness import NotPrivateWarning
from dpicl_rag.retrieval.corpus import Where
from dpicl_rag.retrieval.exact import VectorSource, _check_count, _passages, _score
from dpicl_rag.retrieval.vectors import Snapshot


@dataclass(frozen=True, slots=True, repr=False)
class Retrieved:
    """What a private search found. All of it is private.

    Attributes:
        documents: Passages, as from `Retriever.retrieve`.
        unit_rho: zCDP rho that the counts cost each unit of `PrivateSearch.units`, in that order.
            A unit may have paid without being retrieved.
    """

    documents: list[Document]
    unit_rho: list[float]


@dataclass(frozen=True, slots=True, repr=False)
class Choice:
    """A threshold chosen by noisy counts.

    Attributes:
        place: Index of the threshold.
        estimate: Noisy number of units that reach it.
        looks: For each bin, how many counts it was part of.
    """

    place: int
    estimate: int
    looks: Sequence[int]


class PrivateSearch:
    """One question's scores, before any count. Private; made by `CountingRetriever.search`."""

    def __init__(
        self,
        retriever: CountingRetriever,
        snapshot: Snapshot,
        scores: npt.NDArray[np.float64],
    ) -> None:
        self._retriever = retriever
        self._snapshot = snapshot
        self._scores = scores
        best = snapshot.unit_scores(scores)
        self._rows = np.flatnonzero(best >= retriever.thresholds[-1])
        self._bins = bins_of(best[self._rows], retriever.thresholds)
        self._chosen = False

    def __repr__(self) -> str:
        return "PrivateSearch(<private>)"

    @property
    def units(self) -> list[str]:
        """Every unit that may be counted or retrieved, in the order of `unit_key`.

        Each is here by its own score alone: it reaches the lowest threshold.
        """
        return [self._snapshot.units[row] for row in self._rows]

    def choose(self, admitted: Sequence[bool] | None = None) -> Retrieved:
        """Draw the noisy counts, once, and fetch the units that reach the chosen threshold.

        Args:
            admitted: For each of ``units`` whether it is counted: whether it can pay
                ``rho(ADD_OR_REMOVE_ONE)``. A unit's entry must depend on its own spend and on
                public numbers only. None admits all, which needs a charge to every unit.
                A unit that is not counted pays nothing and is retrieved all the same if it
                reaches the threshold.

        Raises:
            ConfigurationError: ``admitted`` does not fit ``units``, or the counts were drawn
                before.
        """
        if self._chosen:
            raise ConfigurationError("the counts of a search are drawn once; search again")
        counted = np.ones(len(self._rows), dtype=bool)
        if admitted is not None:
            if len(admitted) != len(self._rows):
                # The sizes stay out of the message: they are private.
                raise ConfigurationError("admitted must have one entry for each unit")
            counted = np.asarray(admitted, dtype=bool).reshape(-1)
        self._chosen = True
        retriever = self._retriever
        counts = np.bincount(self._bins[counted], minlength=len(retriever.thresholds))
        choice = retriever._choose(counts.tolist())
        passing = self._rows[self._bins <= choice.place]
        looks = np.asarray(choice.looks)[self._bins] * counted
        return Retrieved(
            _passages(
                self._snapshot,
                self._scores,
                np.array([row for row in passing if retriever._keeps(choice)], dtype=np.intp),
                retriever.passages_per_unit,
            ),
            [look * retriever.count_rho for look in looks.tolist()],
        )


@runtime_checkable
class PrivateRetriever(Protocol):
    """A retriever that spends privacy to choose what it returns.

    It has no ``retrieve``, so that nobody takes it for a `Retriever` and forgets its charge.
    """

    @property
    def stability(self) -> Stability:
        """As for `Retriever`, once the counts are paid for."""
        ...

    def rho(self, adjacency: Adjacency) -> float:
        """Rho of zCDP that one call costs any unit at most. Public."""
        ...

    def search(self, question: str) -> PrivateSearch:
        """Score the units for a question; nothing is counted yet."""
        ...


class CountingRetriever(ABC):
    """What the private retrievers share; see `PrivateThresholdRetriever` for the arguments."""

    stability = Stability(added=1, changed=0)

    def __init__(
        self,
        corpus: VectorSource,
        thresholds: Sequence[float],
        sigma: float,
        *,
        capacity: int | None,
        where: Where | None,
        passages_per_unit: int | None,
        seed: int | None,
    ) -> None:
        _check_count("capacity", capacity)
        _check_count("passages_per_unit", passages_per_unit)
        self.corpus = corpus
        self.thresholds = check_thresholds(thresholds)
        self.sigma = sigma
        self.capacity = capacity
        self.where = where
        self.passages_per_unit = passages_per_unit
        self._below = _source(seed)
        self._noise = DiscreteGaussian(sigma, self._below)

    @property
    def count_rho(self) -> float:
        """Rho of zCDP that one count costs a unit that it counts. Public."""
        return self._noise.rho

    @abstractmethod
    def rho(self, adjacency: Adjacency) -> float:
        """Rho of zCDP that one call costs any unit at most. Public."""

    def search(self, question: str) -> PrivateSearch:
        """Score the units for a question; nothing is counted yet."""
        return PrivateSearch(self, *_score(self.corpus, question, self.where))

    @abstractmethod
    def _choose(self, counts: Sequence[int]) -> Choice:
        """Choose a threshold from the number of units per bin, by noisy counts."""

    def _keeps(self, choice: Choice) -> bool:
        """Toss one unit's own coin, at the rate ``capacity / estimate``."""
        if self.capacity is None or choice.estimate <= self.capacity:
            return True
        return self._below(choice.estimate) < self.capacity


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


def _source(seed: int | None) -> Below:
    if seed is None:
        return secrets.randbelow
    warnings.warn(
        "seeded noise is not private; use a seed in tests and experiments only",
        NotPrivateWarning,
        stacklevel=4,
    )
    return random.Random(seed).randrange  # noqa: S311
