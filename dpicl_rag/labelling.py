"""One label from documents: its noise, its price, its draw."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch

from dpicl_rag.accounting.conversion import (
    bounded_range_to_rho,
    epsilon_to_rho,
    rho_to_epsilon,
)
from dpicl_rag.charging import Charge
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.decoding import score
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.gathering import Source
from dpicl_rag.mechanisms.exponential import draw
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.utilities import Utility


class Labelling(Protocol):
    """A mechanism for one label, calibrated to a budget."""

    @property
    def rho(self) -> float:
        """ZCDP rho of the draw alone, in its worst case."""
        ...

    @property
    def delta(self) -> float:
        """Delta of the label, search included; 0 where all of it is pure."""
        ...

    @property
    def takes_priors(self) -> bool:
        """Whether ``choose`` wants what the rows say where nothing is asked."""
        ...

    def choose(
        self,
        log_probs: torch.Tensor,
        priors: torch.Tensor | None,
        charge: Charge,
        randomness: Randomness,
    ) -> int:
        """Pay, then draw.

        Args:
            log_probs: Public row, then experts, normalised over the labels [n + 1, labels].
            priors: The same with a content-free question, if they are taken.
            charge: Pays for the draw.
            randomness: Where the draw comes from.

        Returns:
            Index of a label.
        """
        ...


@dataclass(frozen=True, slots=True)
class ByUtility:
    """The exponential mechanism of the answers, in one draw.

    Attributes:
        utility: What an expert says about each label.
        strength: lambda.
        rho: See ``Labelling``.
        delta: See ``Labelling``.
    """

    utility: Utility
    strength: float
    rho: float
    delta: float

    takes_priors = False

    def choose(
        self,
        log_probs: torch.Tensor,
        priors: torch.Tensor | None,
        charge: Charge,
        randomness: Randomness,
    ) -> int:
        """See ``Labelling``."""
        scores, ranges = score(log_probs, self.utility, self.strength, charge)
        charge.pay(ranges)
        chosen = draw(scores, randomness)
        charge.verify()
        return chosen


def by_utility(utility: Utility, config: PrivacyConfig, source: Source) -> ByUtility:
    """A label by a utility of the settings.

    One draw of a bounded-range mechanism: lambda times its reach is its pure epsilon. A search
    that is not free leaves its part of the budget at delta.

    Raises:
        ConfigurationError: The strength asked for costs more than the budget, or the search does.
    """
    reach = utility.range * source.stability.factor(config.adjacency)
    most, delta = config.epsilon, 0.0
    if source.rho > 0:
        budget = epsilon_to_rho(config.epsilon, config.delta)
        # Two sound ways to add the search up; for one draw neither is always the better.
        by_rho = math.sqrt(8 * after_search(budget, source.rho))
        by_epsilon = config.epsilon - rho_to_epsilon(source.rho, config.delta)
        most, delta = min(most, max(by_rho, by_epsilon)), config.delta
    strength = config.strength or most / reach
    if strength * reach > most * (1 + 1e-12):
        raise ConfigurationError(
            f"strength {strength:g} costs more than epsilon {config.epsilon:g} in one draw; "
            "lower it or leave it out"
        )
    rho = bounded_range_to_rho(min(strength * reach, most))
    return ByUtility(utility, strength, rho, delta)


def after_search(budget: float, search_rho: float) -> float:
    """What the search leaves of a budget in rho.

    Raises:
        ConfigurationError: Nothing.
    """
    if search_rho >= budget:
        raise ConfigurationError(
            "the search costs more than the whole budget of an answer; give it more noise "
            "(sigma) or raise epsilon"
        )
    return budget - search_rho
