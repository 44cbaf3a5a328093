"""What every method offers: the rows it needs, its charge, its distribution, a draw.

A method turns label log-probabilities into a distribution over labels. Privacy is about the units
of the context (``ADD_OR_REMOVE_ONE`` or ``REPLACE_ONE``); the query, the labels and every parameter
are public. Whoever selects the context states its ``Stability``; the method adds that of its own
layout and derives its noise from both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from dpicl_rag.accounting.accountants import ZeroConcentratedAccountant
from dpicl_rag.accounting.events import BoundedRange, Event, Gaussian, PureDP
from dpicl_rag.accounting.stability import DIRECT, Adjacency, Stability
from dpicl_rag.mechanisms.exponential import draw as draw_index
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.methods.layouts import Layout

Views = Mapping[Layout, torch.Tensor]
"""Label log-probabilities, float64 [rows, labels], each row normalised over the labels.

A method is given the rows of its own ``layouts`` and of no others."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """How strong a method may be, and what one query then costs.

    Attributes:
        parameter: lambda of the exponential mechanism and of permute-and-flip, or the standard
            deviation of Gaussian noise on a sum over rows; 0 for methods without privacy.
        event: The exact charge of one query under ``adjacency``; None without privacy.
        adjacency: The neighbours that the charge is for.
        epsilon: What was asked for: ``queries`` queries together are (epsilon, delta)-DP.
        delta: See ``epsilon``.
        queries: Number of queries that the noise is for.
        accounting: ``exact``, or ``published`` where a paper's own formula set the parameter; the
            event is then what the method really costs.
    """

    parameter: float
    event: Event | None
    adjacency: Adjacency
    epsilon: float
    delta: float
    queries: int = 1
    accounting: str = "exact"

    @property
    def rho(self) -> float | None:
        """Rho (zCDP) of one query, or None where the charge has no simple one."""
        if isinstance(self.event, BoundedRange | PureDP | Gaussian):
            return ZeroConcentratedAccountant(self.adjacency).compose(self.event).rho
        return None


class Method(Protocol):
    """A classification method. All are frozen dataclasses: equal parameters, equal objects."""

    @property
    def name(self) -> str:
        """Its name in the registry."""
        ...

    @property
    def paper(self) -> str:
        """Where it was published."""
        ...

    @property
    def private(self) -> bool:
        """Whether it is private at all."""
        ...

    @property
    def parameters(self) -> Mapping[str, float | int | str]:
        """Its public parameters, for records."""
        ...

    def layouts(self, experts: int) -> tuple[Layout, ...]:
        """The rows it needs of a context for about ``experts`` units, a public number."""
        ...

    def calibrate(
        self,
        epsilon: float,
        delta: float,
        adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
        *,
        stability: Stability = DIRECT,
        queries: int = 1,
    ) -> Calibrated:
        """The least noise for which ``queries`` queries are (epsilon, delta)-DP.

        Args:
            epsilon: Above 0.
            delta: Strictly between 0 and 1. Purely private methods use it for many queries only.
            adjacency: What makes two corpora neighbours.
            stability: From the corpus to the units of the context.
            queries: How many queries share the budget.

        Raises:
            ConfigurationError: An argument is outside its range, or the method has no sound
                charge for this adjacency or stability.
        """
        ...

    def published(
        self,
        epsilon: float,
        delta: float,
        adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
        *,
        stability: Stability = DIRECT,
        queries: int = 1,
    ) -> Calibrated | None:
        """The noise that the paper's own formula gives, or None where it is the same.

        Not for use: the event says what it really costs.
        """
        ...

    def distribution(self, views: Views, calibrated: Calibrated) -> torch.Tensor:
        """Exact output distribution given the rows, float64 [labels].

        Where rows were chosen by coins it is the distribution given those coins.
        """
        ...

    def draw(self, views: Views, calibrated: Calibrated, randomness: Randomness) -> int:
        """One label's index from that distribution."""
        ...


class Drawing:
    """Draws from the exact distribution; no other accounting was published."""

    def published(
        self,
        epsilon: float,
        delta: float,
        adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
        *,
        stability: Stability = DIRECT,
        queries: int = 1,
    ) -> Calibrated | None:
        """None; see ``Method``."""
        return None

    def distribution(self, views: Views, calibrated: Calibrated) -> torch.Tensor:
        """See ``Method``."""
        raise NotImplementedError

    def draw(self, views: Views, calibrated: Calibrated, randomness: Randomness) -> int:
        """One label's index, by inverting the cumulative distribution."""
        return draw_index(torch.log(self.distribution(views, calibrated)), randomness)
