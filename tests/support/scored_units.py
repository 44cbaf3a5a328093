"""Units with given scores, and the exact distribution of a random search."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import count
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dpicl_rag.retrieval.base import CoinRate
from dpicl_rag.retrieval.stored_record import StoredRecord
from dpicl_rag.retrieval.vectors import NearUnits, Where
from tests.support.snapshot import Snapshot

Outcome = TypeVar("Outcome", bound=Hashable)
Choose = Callable[[Sequence[tuple[int, float]]], int]


class OneVector:
    """An embedder that has one vector for everything."""

    fingerprint = "one vector"

    def __init__(self, vector: Sequence[float]) -> None:
        self.vector = np.array(vector, dtype=np.float32)

    def embed(self, texts: Sequence[str], *, query: bool = False) -> npt.NDArray[np.float32]:
        return np.tile(self.vector, (len(texts), 1))


class ScoredUnits:
    """A source of vectors in which each unit's passages have given cosines with any question.

    What they say stands behind the unit's name in all of them.
    """

    name = None
    embedder = OneVector([1, 0])

    def __init__(self, units: Mapping[str, Sequence[float]], says: str = "") -> None:
        records = [
            StoredRecord(f"{unit}/{place}", unit, f"{unit}/{place}{says}")
            for unit, scores in units.items()
            for place in range(len(scores))
        ]
        scores = [score for own in units.values() for score in own]
        vectors = [[score, math.sqrt(1 - score * score)] for score in scores]
        self.whole = Snapshot(records, np.array(vectors).reshape(-1, 2))
        self.scans = 0

    def scan(
        self,
        question: npt.ArrayLike,
        *,
        least: float = -math.inf,
        most: int | None = None,
        where: Where | None = None,
    ) -> NearUnits:
        self.scans += 1
        return self.whole.scan(question, least, most)


def enumerated_keeps(self: CoinRate, randomness: Any) -> bool:
    """`CoinRate.keeps` by a choice that an enumeration makes."""
    return self.kept == self.all or randomness.choose([(1, self.rate), (0, 1 - self.rate)]) == 1


class _UnlikelyError(Exception):
    """Leaves a run whose every way on is too unlikely."""


def distribution(run: Callable[[Choose], Outcome], least: float = 0.0) -> dict[Outcome, float]:
    """Exact distribution of what ``run`` returns, by trying every outcome of every choice.

    Args:
        run: Takes its random choices from a function of (value, probability) pairs.
        least: Paths no likelier than this are left out, so the result is a lower bound.
    """
    found: dict[Outcome, float] = defaultdict(float)
    waiting: list[tuple[list[int], float]] = [([], 1.0)]
    while waiting:
        script, probability = waiting.pop()
        places = count()

        def choose(options: Sequence[tuple[int, float]], script=script, places=places) -> int:
            nonlocal probability
            if (place := next(places)) == len(script):
                # A run goes on with one outcome itself; the others wait for runs of their own.
                ways = [(value, probability * chance) for value, chance in options]
                likely = [(value, together) for value, together in ways if together > least]
                if not likely:
                    raise _UnlikelyError
                waiting.extend(([*script, value], together) for value, together in likely[:-1])
                value, probability = likely[-1]
                script.append(value)
            return script[place]

        with suppress(_UnlikelyError):
            outcome = run(choose)
            found[outcome] += probability
    return dict(found)


@lru_cache(maxsize=256)  # exact tests ask the same for every outcome
def gaussian_pmf(sigma: float, reach: int, *, fine: bool = False) -> dict[int, float]:
    """Gaussian noise on -reach..reach: on whole numbers, or rounded to them from a fine grid."""

    def over(least: float) -> float:
        return math.erfc(least / (sigma * math.sqrt(2))) / 2

    weights = {
        x: over(abs(x) - 0.5) - over(abs(x) + 0.5) if fine else math.exp(-x * x / (2 * sigma**2))
        for x in range(-reach, reach + 1)
    }
    total = math.fsum(weights.values())
    return {x: weight / total for x, weight in weights.items()}
