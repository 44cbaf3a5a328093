"""The interface of methods: layouts of the rows they need, their charge, a calibrated mechanism.

A method turns label log-probabilities into a distribution over labels. Privacy is about the units
of the context (``ADD_OR_REMOVE_ONE`` or ``REPLACE_ONE``); the query, the labels and every parameter
are public. Whoever selects the context states its ``Stability`` in the budget; the method adds
that of its own layout and derives its noise from both.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch

from dpicl_rag import _validate
from dpicl_rag.accounting import (
    DIRECT,
    RANDOM_GROUPS,
    Adjacency,
    BoundedRange,
    Budget,
    Event,
    PoissonSubsampled,
)
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.selection import ExponentialMechanism, Mechanism
from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.mechanisms.utilities import Utility


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


Views = Mapping[Layout, torch.Tensor]
"""Label log-probabilities, float64 [rows, labels], each row normalised over the labels.

A method is given the rows of its own ``layouts`` and of no others."""

Noise = Literal["exact", "published"]
"""Whether the noise is for the true charge, or a paper's own."""

Parameters = Mapping[str, float | int | str]
"""Public parameters by name."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The strength of a method, and the cost of one query.

    Attributes:
        mechanism: Draws one label.
        parameter: lambda of the exponential mechanism and of permute-and-flip, or the standard
            deviation of Gaussian noise on a sum over rows; 0 for methods without privacy.
        event: The exact charge of one query under the budget's adjacency; None without privacy.
        budget: What was asked for.
        noise: ``exact``, or ``published`` where a paper's own formula set the parameter; the
            event is then what the method really costs.
    """

    mechanism: Mechanism
    parameter: float
    event: Event | None
    budget: Budget
    noise: Noise = "exact"

    @property
    def rho(self) -> float | None:
        """Rho (zCDP) of one query, or None where the charge has no simple one."""
        simple = math.isfinite(self.mechanism.rho) and not isinstance(self.event, PoissonSubsampled)
        return self.mechanism.rho if simple else None


class Method(ABC):
    """A classification method. All are frozen dataclasses: equal parameters, equal objects.

    Attributes:
        name: Its name in the registry.
        private: Whether it is private at all.
    """

    name: str
    private: bool

    @property
    @abstractmethod
    def parameters(self) -> Parameters:
        """Its public parameters, for records."""

    @property
    @abstractmethod
    def rows(self) -> type[Layout]:
        """The kind of layout whose rows are the experts."""

    @abstractmethod
    def layouts(self, experts: int) -> tuple[Layout, ...]:
        """The rows it needs of a context for about ``experts`` units, a public number."""

    @property
    def takes_priors(self) -> bool:
        """True where each expert is read with a content-free query too."""
        return False

    @abstractmethod
    def calibrate(self, budget: Budget) -> Calibrated:
        """The least noise for a budget, whose stability reaches to the units of the context.

        Raises:
            ConfigurationError: The method has no sound charge for this adjacency or stability, or
                the search leaves nothing of the budget.
        """

    def published(self, budget: Budget) -> Calibrated | None:
        """The noise that the paper's own formula gives, or None where it is the same.

        Not for use: the event says what it really costs.
        """
        return None

    def step(self, views: Views) -> DenseStep:
        """The rows of an evaluation, as what the mechanism draws from."""
        rows = the_view(views, self.rows)
        return DenseStep(rows.new_zeros(rows.shape[-1]), rows)

    def distribution(self, views: Views, calibrated: Calibrated) -> torch.Tensor:
        """Exact output distribution given the rows, float64 [labels].

        Where rows were chosen by coins it is the distribution given those coins.
        """
        return calibrated.mechanism.distribution(self.step(views))


@dataclass(frozen=True)
class ExpertMethod(Method):
    """A method with an expert for every unit, or for every random group of units.

    **On a sample** (``rate`` q below 1) the charge is that of the method, amplified. Fix the coins
    and choices of all other units, and the group g that a unit would choose; the unit's own coin
    is left. Without it the output has some distribution Q, with it (1 - q) Q + q M_g, where M_g
    and Q differ by one expert: one more, or in groups one changed, whichever g is. So the pair
    that dominates M_g and Q, sampled at rate q, dominates these (`accounting.subsampling.sampled`).
    The hockey-stick divergence is jointly convex: the mixture over g and over all that was fixed,
    which is the same on both sides, has no more. This needs choices that are a unit's own. In a
    cut by rank an arrival would move the others.

    Attributes:
        group_size: Examples of an expert on average; above 1, units join random groups.
        rate: Public probability with which a unit joins a query, by a coin of its own.
    """

    group_size: int = 1
    rate: float = 1.0

    def __post_init__(self) -> None:
        _validate.count("group_size", self.group_size)
        _validate.rate("rate", self.rate)

    @property
    def parameters(self) -> Parameters:
        """Group size and sampling rate."""
        return {"group_size": self.group_size, "rate": self.rate}

    @property
    def rows(self) -> type[Layout]:
        """One row per unit or per group."""
        return OneEach if self.group_size == 1 else Groups

    def layouts(self, experts: int) -> tuple[Layout, ...]:
        """One row per expert."""
        return (self.expert_rows(experts),)

    def expert_rows(self, experts: int) -> OneEach | Groups:
        """One row per unit, or as many groups as hold ``group_size`` units on average."""
        return one_or_groups(experts, self.group_size, self.rate)

    def to_experts(self, budget: Budget) -> Budget:
        """The budget, whose stability then reaches to the experts.

        Raises:
            ConfigurationError: Units are sampled, which does not amplify for this budget.
        """
        if self.rate < 1:
            require_own_coins(budget)
        return budget.then(DIRECT if self.group_size == 1 else RANDOM_GROUPS)

    def charged(self, event: Event) -> Event:
        """The charge of a query, given that of its experts."""
        return event if self.rate == 1 else PoissonSubsampled(self.rate, event)

    def exponential(
        self, utility: Utility, strength: float, budget: Budget, noise: Noise = "exact"
    ) -> Calibrated:
        """The exponential mechanism at a strength, with its true charge.

        Args:
            utility: Of an expert.
            strength: lambda.
            budget: What was asked for.
            noise: See ``Calibrated``.
        """
        factor = self.to_experts(budget).factor
        mechanism = ExponentialMechanism(utility, strength, factor, budget.search_delta)
        event = self.charged(BoundedRange(strength * utility.range * factor))
        return Calibrated(mechanism, strength, event, budget, noise)


def one_or_groups(experts: int, group_size: int, rate: float = 1.0) -> OneEach | Groups:
    """One row per unit, or as many groups as hold ``group_size`` of them on average.

    Both follow from public numbers: how many units come, or are sampled, is private.
    """
    _validate.count("experts", experts)
    if group_size == 1:
        return OneEach(rate)
    count = experts // group_size if rate == 1 else round(experts * rate / group_size)
    return Groups(max(1, count), rate)


def require_own_coins(budget: Budget) -> None:
    """Raise unless Poisson subsampling amplifies.

    Raises:
        ConfigurationError: A neighbour differs by more than one unit that comes or goes.
    """
    if budget.adjacency is Adjacency.REPLACE_ONE or budget.stability != DIRECT:
        raise ConfigurationError(
            "Poisson subsampling amplifies under add-or-remove adjacency, for units that come and "
            "go by themselves; use rate 1"
        )


def the_view(views: Views, kind: type[Layout]) -> torch.Tensor:
    """The rows of the one layout of a kind, float64 [rows, labels].

    Raises:
        ConfigurationError: There is none, or more than one.
    """
    found = [rows for layout, rows in views.items() if isinstance(layout, kind)]
    if len(found) != 1:
        raise ConfigurationError(
            f"a method needs exactly one {kind.__name__} view; give the rows of its own layouts"
        )
    return found[0].double()
