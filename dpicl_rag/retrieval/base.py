"""The contract of retrievers, the order of the units that they give, and their noisy counts."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from dpicl_rag._unobserved import Private
from dpicl_rag.accounting import Adjacency, Stability
from dpicl_rag.documents import Document, group_by_unit
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.randomness import Randomness

_SURE = 1.0  # standard deviations


@dataclass(frozen=True, slots=True)
class NoisyCount:
    """A released count. Whatever follows from it is post-processing, and free.

    Attributes:
        value: The count with its noise; below zero where few units were found.
        sigma: Standard deviation of the noise, and of the coins that thinned what was counted.
    """

    value: float
    sigma: float

    @property
    def low(self) -> float:
        """A number that the true one is seldom below, at least 0."""
        return max(0.0, self.value - _SURE * self.sigma)

    @property
    def high(self) -> float:
        """A number that the true one is hardly above."""
        return self.value + 2 * _SURE * self.sigma

    def thinned(self, rate: float) -> NoisyCount:
        """The number of units left where each stayed by a coin of its own, at a public rate."""
        coins = max(0.0, self.value) * rate * (1 - rate)
        return NoisyCount(self.value * rate, math.sqrt((self.sigma * rate) ** 2 + coins))

    def plus(self, other: NoisyCount) -> NoisyCount:
        """The sum of two counts with noise of their own."""
        return NoisyCount(self.value + other.value, math.hypot(self.sigma, other.sigma))


@dataclass(frozen=True, slots=True)
class CoinRate:
    """A public rate ``kept / all`` of coins, each a unit's own."""

    kept: int
    all: int

    @staticmethod
    def of(found: float, most: float) -> CoinRate:
        """Of what was found, how much is kept: about ``most`` units.

        Args:
            found: Its number, as it was released.
            most: Of what is kept; above 0.
        """
        kept = math.ceil(most)
        return EVERY if found <= kept else CoinRate(kept, int(found))

    @property
    def rate(self) -> float:
        """From 0 to 1."""
        return self.kept / self.all

    def keeps(self, randomness: Randomness) -> bool:
        """Toss one unit's coin; none is needed where all stay."""
        return self.kept == self.all or randomness.below(self.all) < self.kept


EVERY = CoinRate(1, 1)
"""All are kept, and no coin is tossed."""


@dataclass(frozen=True, slots=True, repr=False)
class Retrieved:
    """The outcome of a search. All of it is private, but for ``count`` and ``rate``.

    Attributes:
        units: Passages of each unit that was found, the best one first. Units stand in an order
            that says nothing about their rank, and nothing about other units.
        unit_rho: zCDP rho that the search cost each unit of `Candidates.units`, in that order. A
            unit may have paid without being retrieved.
        count: Noisy number of ``units`` that the search has paid for, and so released, if any.
        rate: Public probability with which coins kept a unit that the search found.
    """

    units: Mapping[str, Sequence[Document]]
    unit_rho: list[float]
    count: NoisyCount | None = None
    rate: float = 1.0

    @property
    def documents(self) -> list[Document]:
        """All passages, those of a unit together."""
        return [passage for passages in self.units.values() for passage in passages]


class Candidates(Private):
    """One question's candidates, of which none is chosen yet. Private.

    Args:
        units: Every unit that may be counted or retrieved.
        draw: Chooses among them, given for each unit whether it is counted, and the coins.
    """

    def __init__(
        self, units: list[str], draw: Callable[[Sequence[bool], Randomness], Retrieved]
    ) -> None:
        self.units = units
        self._draw = draw
        self._drawn = False

    def choose(
        self, admitted: Sequence[bool] | None = None, randomness: Randomness | None = None
    ) -> Retrieved:
        """Draw the noise of the search, once, and fetch what it found.

        Args:
            admitted: For each of ``units`` whether it is counted: whether it can pay
                ``rho(ADD_OR_REMOVE_ONE)``. A unit's entry must depend on its own spend and on
                public numbers only. None admits all, which needs a charge to every unit.
                A unit that is not counted pays nothing and may be retrieved all the same, by
                its own score.
            randomness: Source of noise and coins; the operating system's generator if None.

        Raises:
            ConfigurationError: ``admitted`` does not fit ``units``, or the noise was drawn
                before.
        """
        if self._drawn:
            raise ConfigurationError("the counts of a search are drawn once; search again")
        if admitted is None:
            admitted = [True] * len(self.units)
        elif len(admitted) != len(self.units):
            # The sizes stay out of the message: they are private.
            raise ConfigurationError("admitted must have one entry for each unit")
        self._drawn = True
        found = self._draw(admitted, randomness or Randomness())
        if not set(self.units).issuperset(found.units):
            raise ConfigurationError("a search may find no unit but its candidates")
        return found


@runtime_checkable
class Retriever(Protocol):
    """Picks the passages that experts read for a question.

    The question is public, and so is everything that a retriever is made with. Which units come
    back is private.
    """

    @property
    def corpus_name(self) -> str | None:
        """Name of the corpus, under which a ledger books the answers; None for a list. Public."""
        ...

    @property
    def stability(self) -> Stability:
        """The retrieved units that the arrival of one adds and changes, once ``rho`` is paid."""
        ...

    def rho(self, adjacency: Adjacency) -> float:
        """Rho of zCDP that one search costs any unit at most; 0 for exact ones. Public."""
        ...

    def search(self, question: str) -> Candidates:
        """Score the units for a question; nothing is chosen yet."""
        ...


class ExactRetriever(ABC):
    """A retriever without noise: its results cost nothing beside its stability.

    Derive from it to bring a search of your own. Declare a `Stability` that an arriving unit
    keeps to whatever the corpus holds; an approximate index has none.
    """

    @property
    def corpus_name(self) -> str | None:
        """None: override it where there is a corpus with budgets of its own."""
        return None

    @property
    @abstractmethod
    def stability(self) -> Stability:
        """The retrieved units that the arrival of one unit adds and changes."""

    @abstractmethod
    def retrieve(self, question: str) -> list[Document]:
        """Return passages, a unit's best one first. Private."""

    def rho(self, adjacency: Adjacency) -> float:
        """Nothing: no noisy count is drawn."""
        return 0.0

    def search(self, question: str) -> Candidates:
        """Retrieve the passages; every unit among them is a candidate, and all are chosen."""
        found = group_by_unit(self.retrieve(question))
        return Candidates(list(found), lambda *_: Retrieved(found, [0.0] * len(found)))


def unit_key(unit: str) -> bytes:
    """Sort key of a unit: a hash, so that the order of two units depends on nothing else."""
    return hashlib.sha256(unit.encode("utf-8", "surrogatepass")).digest()
