"""The vectors of all units of a corpus, for sums over units.

A sum over votes needs each vote to be a function of its own unit, bit for bit. So vectors are
rounded to multiples of 2^-11 here: products of two are multiples of 2^-22, all partial sums are
below 2 (Cauchy-Schwarz), and float32 holds every multiple of 2^-22 below 2. So a product in float32
is exact, in any order of summation and whatever other rows are beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dpicl_rag.mechanisms.randomness import Randomness

Block = tuple[npt.NDArray[np.float32], npt.NDArray[np.intp]]
"""Rounded vectors of some units ``[rows, d]``, those of a unit together, and each unit's first."""

Blocks = Callable[[], Iterator[Block]]
"""Goes through all units, some at a time, once more each time it is called."""

LOWEST = -2.0
"""Below every cosine of rounded vectors."""

_GRID = np.float32(2**11)
_ROWS = 8192  # of a block, about: the passages of a unit stay together


class VectorTable(Protocol):
    """Vectors by their rows: an array, or what reads them from a file."""

    def __getitem__(self, rows: npt.NDArray[np.intp], /) -> npt.NDArray[np.float32]:
        """A copy of some rows, float32 ``[rows, d]``."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class UnitVectors:
    """Passages by their vectors and the numbers of their units. Private.

    Attributes:
        vectors: Of length 1 or zero.
        unit: Number of each passage's unit, ``[n]``; below 0 where a passage is nobody's.
        names: Of the units, by their numbers; None where nobody asks who pays.
    """

    vectors: VectorTable
    unit: npt.NDArray[np.integer]
    names: Mapping[int, str] | None = None

    def blocks(self) -> Iterator[Block]:
        """Some units at a time, in an order that says nothing about what they hold."""
        order = np.argsort(self.unit, kind="stable")
        order = order[np.searchsorted(self.unit[order], 0) :]
        if not len(order):
            return
        units = self.unit[order]
        firsts = np.flatnonzero(np.diff(units, prepend=units[0] - 1))
        ends = np.append(firsts[1:], len(order))
        begun = 0
        while begun < len(firsts):
            last = int(np.searchsorted(ends, firsts[begun] + _ROWS, side="right"))
            last = max(last, begun + 1)
            start, end = int(firsts[begun]), int(ends[last - 1])
            yield rounded(self.vectors[order[start:end]]), firsts[begun:last] - start
            begun = last

    def sampled(self, rate: float, randomness: Randomness) -> UnitVectors:
        """The units that secret coins keep, one of its own for each; the others are nobody's.

        Args:
            rate: Public probability with which a unit is kept.
            randomness: Where the coins come from.
        """
        if rate == 1:
            return self
        return self.of([one for one in self._numbers() if randomness.uniform() < rate])

    def of(self, numbers: Collection[int]) -> UnitVectors:
        """Some of the units; the others are nobody's."""
        kept = np.isin(self.unit, np.array([*numbers], dtype=np.int64))
        return replace(self, unit=np.where(kept, self.unit, -1))

    def named(self) -> dict[int, str]:
        """Names of the units that have a passage, by their numbers, and of no others."""
        assert self.names is not None
        return {one: self.names[one] for one in self._numbers() if one in self.names}

    def _numbers(self) -> list[int]:
        found: list[int] = np.unique(self.unit[self.unit >= 0]).tolist()
        return found


def nearest_passages(
    blocks: Blocks, question: npt.NDArray[np.float32], least: float = LOWEST
) -> Iterator[Block]:
    """Of each unit its passage nearest to a question, if that is near enough.

    Passages that are as near as each other stay together. A choice by their rows would depend on
    rows that other units have left free.

    Args:
        blocks: All passages.
        question: Its embedding, rounded ``[d]``.
        least: Cosine from which a unit is there at all.
    """
    for vectors, firsts in blocks():
        scores = np.zeros(len(vectors), dtype=np.float32)
        if vectors.shape[1] == len(question):  # else of another embedder: near to nothing
            scores = vectors @ question
        best = np.maximum.reduceat(scores, firsts)
        unit = np.repeat(np.arange(len(firsts)), np.diff(firsts, append=len(vectors)))
        nearest = np.flatnonzero((scores == best[unit]) & (scores >= least))
        _, first = np.unique(unit[nearest], return_index=True)
        yield vectors[nearest], first


@runtime_checkable
class UnitVectorSource(Protocol):
    """A source of vectors that hands over those of all units."""

    def unit_vectors(self) -> UnitVectors:
        """Of all passages, as they are now. Private."""
        ...


def rounded(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Components rounded to multiples of 2^-11; float32 of the same shape.

    Args:
        vectors: Of length 1 or zero.
    """
    found: npt.NDArray[np.float32] = np.rint(vectors * _GRID) / _GRID
    return found
