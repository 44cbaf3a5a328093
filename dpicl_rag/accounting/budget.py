"""Budgets of draws: the most that they cost in sum, and the units that they protect."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from dpicl_rag import _validate
from dpicl_rag.accounting._search import largest_affordable
from dpicl_rag.accounting.conversion import epsilon_to_rho, rho_to_epsilon
from dpicl_rag.accounting.gaussian_cost import gaussian_mu
from dpicl_rag.accounting.stability import DIRECT, Adjacency, Stability
from dpicl_rag.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that some draws cost in sum, and the units that they protect. All of it is public.

    Attributes:
        epsilon: All draws, and the search before them, are (epsilon, delta)-DP. Above 0.
        delta: Strictly between 0 and 1. Purely private draws use it for many queries only.
        adjacency: What makes two corpora neighbours.
        stability: From the corpus to the experts.
        queries: How many draws share the budget.
        search_rho: Rho of zCDP that a search costs any unit at most, beside the draw. A budget
            with one is for a single query.

    Raises:
        ConfigurationError: An attribute is outside its range.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE
    stability: Stability = DIRECT
    queries: int = 1
    search_rho: float = 0.0

    def __post_init__(self) -> None:
        _validate.positive("epsilon", self.epsilon)
        _validate.probability("delta", self.delta)
        _validate.count("queries", self.queries)
        _validate.non_negative("search_rho", self.search_rho)
        if not isinstance(self.adjacency, Adjacency):
            raise ConfigurationError("adjacency must be an Adjacency")
        if self.search_rho > 0 and self.queries > 1:
            raise ConfigurationError("a search is priced for one query; use one budget for each")

    def then(self, stage: Stability) -> Budget:
        """The same budget, one stage nearer to the experts."""
        return replace(self, stability=self.stability.then(stage))

    @property
    def factor(self) -> int:
        """Multiplier on ``lambda * R``, see ``Stability.factor``."""
        return self.stability.factor(self.adjacency)

    @property
    def rho(self) -> float:
        """Rho of zCDP that the search leaves for the draws.

        Raises:
            ConfigurationError: It leaves nothing.
        """
        whole = epsilon_to_rho(self.epsilon, self.delta)
        if self.search_rho >= whole:
            raise ConfigurationError(
                "the search costs more than the whole budget of an answer; give it more noise "
                "(sigma) or raise epsilon"
            )
        return whole - self.search_rho

    @property
    def search_delta(self) -> float:
        """Delta of a purely private draw and the search before it; 0 without a search."""
        return self.delta if self.search_rho > 0 else 0.0

    def pure_epsilon(self, rho_of: Callable[[float], float]) -> float:
        """Largest epsilon of one purely private draw beside the search.

        Without a search, and for many queries, all of ``epsilon``.

        Args:
            rho_of: Rho of zCDP of an epsilon-DP draw of its kind: ``epsilon^2 / 8`` for a
                bounded-range one, ``epsilon tanh(epsilon / 2)`` for any.

        Raises:
            ConfigurationError: The search leaves nothing.
        """
        if self.search_rho == 0:
            return self.epsilon
        # Two sound ways to add the search up; for one draw neither is always the better.
        by_rho = largest_affordable(rho_of, self.rho)
        by_epsilon = self.epsilon - rho_to_epsilon(self.search_rho, self.delta)
        return min(self.epsilon, max(by_rho, by_epsilon))

    def gaussian_mu(self) -> float:
        """Largest sensitivity over noise of one Gaussian draw beside the search.

        Raises:
            ConfigurationError: The search leaves nothing.
        """
        if self.search_rho == 0:
            return gaussian_mu(self.epsilon, self.delta)
        # The same two ways; as sums of epsilon, the search and the draw take half of delta each.
        by_rho, half = math.sqrt(2 * self.rho), self.delta / 2
        left = self.epsilon - rho_to_epsilon(self.search_rho, half)
        return by_rho if left <= 0 else max(by_rho, gaussian_mu(left, half))
