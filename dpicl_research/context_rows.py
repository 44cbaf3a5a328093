"""Subsets of a context that the rows of a layout read, with the coins of the evaluation.

The coins are repeatable and shared: the context for 4 experts is the beginning of the one for 8,
and an example's coin is the same in both, so that rows can be shared too. This is for benchmark
data; private answers toss secret coins.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dpicl_rag.methods.base import (
    ContentFree,
    Groups,
    Layout,
    OneEach,
    OnePrompt,
    Subsampled,
    ZeroShot,
)
from dpicl_research.label_scores import Subset


@dataclass(frozen=True, slots=True)
class LeaveOneOut:
    """All examples in one prompt but one, for each of them: what removing an example changes.

    No method asks for it; the approximation error of a product of experts is measured with it.
    """


Rows = Layout | LeaveOneOut
"""Layouts that a run can be asked for."""


def name_of(layout: Rows) -> str:
    """A stable name of a layout, for files."""
    match layout:
        case OneEach(rate) if rate < 1:
            return f"one-each@{rate:g}"
        case Groups(count, rate):
            return f"groups-{count}" + (f"@{rate:g}" if rate < 1 else "")
        case Subsampled(contexts, rate):
            return f"subsampled-{contexts}@{rate:g}"
        case ContentFree(of):
            return f"content-free({name_of(of)})"
    return re.sub("(?<!^)(?=[A-Z])", "-", type(layout).__name__).lower()


@dataclass(frozen=True, slots=True)
class Coins:
    """The coins of one query under one seed.

    Attributes:
        seed: Which context.
        query: Number of the query.
    """

    seed: int
    query: int

    def subsets(self, layout: Rows, experts: int) -> list[Subset]:
        """The rows of a layout over the first ``experts`` examples, in order; some may be equal.

        Groups of all examples keep their coins for all queries of a seed; subsamples, and groups of
        them, toss them for each.
        """
        match layout:
            case ZeroShot():
                return [()]
            case OneEach(rate=rate):
                if rate >= 1:
                    return [(i,) for i in range(experts)]
                return [(i,) for i in range(experts) if self._coins(i, "alone", 1)[0] < rate]
            case OnePrompt():
                return [tuple(range(experts))]
            case LeaveOneOut():
                whole = range(experts)
                return [tuple(i for i in whole if i != out) for out in whole]
            case Groups(count=count, rate=rate) if rate < 1:
                # Two numbers for each example: its coin, and its choice.
                own = _uniform(f"{self.seed}/{self.query}/groups", 2 * experts)
                chosen: list[list[int]] = [[] for _ in range(count)]
                for i, (coin, choice) in enumerate(zip(own[::2], own[1::2], strict=True)):
                    if coin < rate:
                        chosen[int(choice * count)].append(i)
                return [tuple(group) for group in chosen]
            case Groups(count=count):
                of = [int(u * count) for u in _uniform(f"{self.seed}/groups-{count}", experts)]
                return [tuple(i for i in range(experts) if of[i] == g) for g in range(count)]
            case Subsampled(contexts=contexts, rate=rate):
                coins = [self._coins(i, "contexts", contexts) for i in range(experts)]
                return [
                    tuple(i for i, mine in enumerate(coins) if mine[context] < rate)
                    for context in range(contexts)
                ]
            case ContentFree(of=of_layout):
                return self.subsets(of_layout, experts)

    def _coins(self, unit: int, name: str, number: int) -> Sequence[float]:
        """Coins of one example for this query."""
        return _uniform(f"{self.seed}/{self.query}/{name}/{unit}", number)


def distinct(layouts: Iterable[tuple[Rows, int]], coins: Coins) -> tuple[set[Subset], set[Subset]]:
    """Distinct subsets that layouts need, each over a number of experts.

    Returns:
        Those read with the query, and those read with a content-free one.
    """
    with_query: set[Subset] = set()
    without: set[Subset] = set()
    for layout, experts in layouts:
        into = without if isinstance(layout, ContentFree) else with_query
        into.update(coins.subsets(layout, experts))
    return with_query, without


def _uniform(name: str, number: int) -> Sequence[float]:
    """Numbers in [0, 1); fewer of them are the beginning of more."""
    source = random.Random(name)  # noqa: S311
    return [source.random() for _ in range(number)]
