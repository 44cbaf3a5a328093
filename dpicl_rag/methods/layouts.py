"""Layouts: the rows that a method needs of the language model, as public descriptions.

A context holds units (examples). A layout says how its units become prompts; whoever runs the
model turns each into a tensor of label log-probabilities. Layouts are value objects: equal ones
are read once.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpicl_rag import _validate


@dataclass(frozen=True, slots=True)
class ZeroShot:
    """The query without any example: one public row."""


@dataclass(frozen=True, slots=True)
class OneEach:
    """One row for every unit, its example alone in the prompt.

    Attributes:
        rate: Each unit joins by its own coin with this public probability, tossed afresh for
            every query; only units that joined have a row. 1 keeps them all.
    """

    rate: float = 1.0

    def __post_init__(self) -> None:
        _validate.rate("rate", self.rate)


@dataclass(frozen=True, slots=True)
class Groups:
    """A public number of groups, one row each, all examples of a group in its prompt.

    Every unit joins one group, chosen uniformly by its own coin, once for the whole context. An
    empty group keeps its row: it is the query without examples. The number of units is private
    under add-or-remove adjacency, so a cut into groups of equal size would not do: an arrival
    could change two of them, or all of them where the cut is by rank.

    Attributes:
        count: Number of groups.
        rate: Each unit joins by a coin of its own with this public probability, and then chooses
            its group by another. Below 1 both are tossed afresh for every query.
    """

    count: int
    rate: float = 1.0

    def __post_init__(self) -> None:
        _validate.count("the number of groups", self.count)
        _validate.rate("rate", self.rate)


@dataclass(frozen=True, slots=True)
class OnePrompt:
    """All examples in one prompt, in the context's order: one row."""


@dataclass(frozen=True, slots=True)
class Subsampled:
    """Many contexts, each a Poisson subsample with all its examples in one prompt.

    Every unit joins every context by its own coin, tossed afresh for every query. The order
    within a prompt must be that of the units in the whole context, or drawn at random: it must
    not change for the others when a unit leaves. An empty context keeps its row.

    Attributes:
        contexts: Number of contexts, one row each.
        rate: Probability of joining one of them.
    """

    contexts: int
    rate: float

    def __post_init__(self) -> None:
        _validate.count("the number of contexts", self.contexts)
        _validate.rate("rate", self.rate)


@dataclass(frozen=True, slots=True)
class ContentFree:
    """The rows of another layout with a content-free query (such as "N/A") in the query's place.

    A row of it is a function of the same units as the row it stands for, and of public things: it
    may enter that expert's utility and costs nothing by itself.

    Attributes:
        of: ``ZeroShot``, ``OneEach`` or ``Groups``; the same coins are used.
    """

    of: ZeroShot | OneEach | Groups


Layout = ZeroShot | OneEach | Groups | OnePrompt | Subsampled | ContentFree
"""Any of the above; hashable."""
