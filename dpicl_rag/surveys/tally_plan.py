"""Plans of counts and tallies: their noise, fixed before anything private is looked at."""

from __future__ import annotations

from dataclasses import dataclass

from dpicl_rag.accounting import Stability, epsilon_to_rho
from dpicl_rag.answering.plan import accounts_individually
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.histogram import Histogram
from dpicl_rag.retrieval.count import NoisyCount


@dataclass(frozen=True, slots=True)
class TallyPlan:
    """Public numbers of one count or tally; see `dpicl_rag.answering.experts.Planned`.

    Attributes:
        mechanism: The noise on each count.
        individual: Whether a unit that says nothing pays nothing; else all pay the same.
        rho: zCDP rho of all of it, search included.
        search_rho: The part of it that the search costs any unit at most.
    """

    mechanism: Histogram
    individual: bool
    rho: float
    search_rho: float

    groups: int | None = None
    support_rho: float = 0.0
    threshold_delta: float = 0.0
    only_agreement: bool = False

    @property
    def least_rho(self) -> float:
        """All of it: there is no smaller histogram."""
        return self.rho

    def mechanism_for(self, count: NoisyCount | None) -> Histogram:
        """The same, however many units were found."""
        return self.mechanism


def tally_plan(
    config: PrivacyConfig, stability: Stability, search_rho: float, labels: int, most: int = 1
) -> TallyPlan:
    """The plan of a tally.

    Args:
        config: Public settings.
        stability: From the corpus to the units that are found.
        search_rho: zCDP rho that the search costs any unit at most.
        labels: How many there are.
        most: How many of them one unit says at most.

    Raises:
        ConfigurationError: The settings do not fit the stability, or the search takes all.
    """
    if config.groups is not None:
        raise ConfigurationError("units are counted one by one; leave groups out")
    rho = epsilon_to_rho(config.epsilon, config.delta)
    left = (rho - search_rho) * (1 - 1e-9)  # for the rounding of sums
    if left <= 0:
        raise ConfigurationError("the search takes the whole budget; give it more noise (sigma)")
    histogram = Histogram.within(left, labels, most, stability, config.adjacency)
    return TallyPlan(histogram, accounts_individually(config, stability), rho, search_rho)
