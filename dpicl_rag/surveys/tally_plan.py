"""Plans of counts and tallies: their noise, fixed before anything private is looked at."""

from __future__ import annotations

from dpicl_rag import _validate
from dpicl_rag.accounting import Stability, epsilon_to_rho
from dpicl_rag.answering.plan import Plan, accounts_individually
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.private_counts import Histogram
from dpicl_rag.retrieval.retrievers import Documents, PoissonSampledRetriever, all_units
from dpicl_rag.retrieval.search import Search

_STEP_TOKENS = 8192  # a few seconds of the default model on a CPU


def units_of_a_step(tokens: int) -> int:
    """How many units are read in one step of a count. Public.

    Args:
        tokens: Most tokens of a unit's row.
    """
    return max(1, _STEP_TOKENS // tokens)


def tally_search(
    documents: Documents, config: PrivacyConfig, sample: float, *, read: bool
) -> Search:
    """The search for the units that are counted, with the noise that the budget pays for.

    Args:
        documents: That hold them; for its price any, such as none.
        config: Public settings.
        sample: The part of the units that is read, by a coin for each.
        read: Whether a reader reads them.

    Raises:
        ConfigurationError: The settings do not fit the documents.
    """
    search = all_units(documents, config.privacy_unit)
    if read and config.max_calls is not None:
        search = search.limited(config.max_calls)
    search = PoissonSampledRetriever(search, _validate.rate("sample", sample))
    return search.within(epsilon_to_rho(config.epsilon, config.delta), config.adjacency)


def planned_tally(
    config: PrivacyConfig, labels: int, most: int = 1, *, sample: float = 1.0, read: bool = False
) -> Plan[Histogram]:
    """The plan of a tally before its documents are known. Arguments and errors as of the others."""
    search = tally_search((), config, sample, read=read)
    return tally_plan(config, search.stability, search.rho(config.adjacency), labels, most)


def tally_plan(
    config: PrivacyConfig, stability: Stability, search_rho: float, labels: int, most: int = 1
) -> Plan[Histogram]:
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
    return Plan(
        mechanism=histogram,
        individual=accounts_individually(config, stability),
        rho=rho,
        least_rho=rho,
        search_rho=search_rho,
        groups=None,
    )
