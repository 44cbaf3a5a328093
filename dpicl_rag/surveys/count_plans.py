"""Plans of counts, tallies and surveys: their noise, fixed before anything private is looked at."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

from dpicl_rag.accounting import DIRECT, Stability, epsilon_to_rho
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.accounting.prices import Price
from dpicl_rag.answering.answer_plan import accounts_individually
from dpicl_rag.answering.plan import Plan
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.private_counts import Agreement, Histogram
from dpicl_rag.retrieval.retrievers import Documents, PoissonSampledRetriever, all_units
from dpicl_rag.retrieval.search import Search

_STEP_TOKENS = 8192  # a few seconds of the default model on a CPU

_ROUNDING = 1 - 1e-9  # of sums of prices

_FALSE_WORDS = 0.05
"""Words that noise alone is to bring out, on the average of surveys."""

_THEMES = 4096
"""More themes than there can be: a changed vote moves two counts, however many there are."""

_SEARCH = "the units that are asked, and their number"


def units_of_a_step(tokens: int) -> int:
    """Number of units that one step of a count reads. Public.

    Args:
        tokens: Most tokens of a unit's row.
    """
    return max(1, _STEP_TOKENS // tokens)


def tally_search(
    documents: Documents, config: PrivacyConfig, sample: float, *, most: int | None
) -> Search:
    """The search for the units that are counted, with the noise that the budget pays for.

    Args:
        documents: That hold them; for its price any, such as none.
        config: Public settings.
        sample: The part of the units that is read, by a coin for each.
        most: About how many are read at most, by coins for each; all if None.

    Raises:
        ConfigurationError: The settings do not fit the documents.
    """
    search = all_units(documents, config.privacy_unit)
    if most is not None:
        search = search.limited(most)
    search = PoissonSampledRetriever(search, sample)
    if config.only_gaussian:
        search = search.from_fine_grid()
    return search.within(epsilon_to_rho(config.epsilon, config.delta), config.adjacency)


@dataclass(frozen=True, slots=True)
class YesCount:
    """The counts of a count: of the units that say yes, and of all that were asked. Public.

    Attributes:
        said: Noise on those that say yes, whom alone it moves.
        units: Noise on all of them: misreading grows with their number.
    """

    said: Histogram
    units: Histogram

    @property
    def rho(self) -> float:
        """Price of both for any unit, zCDP."""
        return self.said.rho + self.units.rho

    @property
    def noise(self) -> DiscreteGaussian:
        """Noise on the units that say yes."""
        return self.said.noise


def count_plan(config: PrivacyConfig, stability: Stability, search_rho: float) -> Plan[YesCount]:
    """The plan of a count; see `tally_plan`."""
    whole = tally_plan(config, stability, search_rho, 1)
    for_units = SHARES.counted_units * whole.mechanism.rho
    said, units = (
        Histogram.within(rho, 1, 1, stability, config.adjacency, gaussian=config.only_gaussian)
        for rho in (whole.mechanism.rho - for_units, for_units)
    )
    parts = (
        whole.parts[0],
        Price("units", units.rho, "noise on the number of units"),
        Price("counts", said.rho, "noise on those that say yes, who alone pay it"),
    )
    return Plan(
        mechanism=YesCount(said, units),
        individual=whole.individual,
        epsilon=whole.epsilon,
        delta=whole.delta,
        rho=whole.rho,
        parts=parts,
        gaussian=config.only_gaussian,
    )


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
    _require_single_units(config)
    rho = epsilon_to_rho(config.epsilon, config.delta)
    left = (rho - search_rho) * _ROUNDING
    if left <= 0:
        raise ConfigurationError("the search takes the whole budget; give it more noise (sigma)")
    given = stability, config.adjacency
    histogram = Histogram.within(left, labels, most, *given, gaussian=config.only_gaussian)
    return Plan(
        mechanism=histogram,
        individual=accounts_individually(config, stability),
        epsilon=config.epsilon,
        delta=config.delta,
        rho=rho,
        parts=(
            Price("search", search_rho, _SEARCH),
            Price("counts", histogram.rho, "noise on each count"),
        ),
        gaussian=config.only_gaussian,
    )


def vector_plan(config: PrivacyConfig, labels: int, most: int) -> Plan[Histogram]:
    """The plan of a tally that no search is paid for, of labels that all units may say.

    Arguments and errors are those of `tally_plan`.
    """
    return replace(tally_plan(config, DIRECT, 0.0, labels, most), individual=_each_pays(config))


def column_plan(
    config: PrivacyConfig, values: int, most: int, *, booked: bool
) -> Plan[Histogram | Agreement]:
    """The plan of the counts of a column's values.

    Args:
        config: Public settings.
        values: How many public ones are counted; 0 releases those that enough units have.
        most: Values of one unit that count at most.
        booked: Whether a ledger books what thresholds cost.

    Raises:
        ConfigurationError: The settings do not fit single units, or ask for no thresholds.
    """
    if values:
        return vector_plan(config, values, most)
    _require_single_units(config)
    delta = config.threshold_delta(booked=booked)
    if not delta:
        raise ConfigurationError("values are found by a threshold; give them, or leave agreement")
    rho = config.rho(booked=booked)
    given = DIRECT, config.adjacency, most
    found = Agreement.within(rho * _ROUNDING, delta, *given, gaussian=config.only_gaussian)
    what = f"noise on the count of each value, listed where about {found.threshold} have it"
    return Plan(
        mechanism=found,
        individual=_each_pays(config),
        epsilon=config.epsilon,
        delta=config.delta,
        rho=rho,
        parts=(Price("counts", found.rho, what, found.delta),),
        gaussian=config.only_gaussian,
    )


@dataclass(frozen=True, slots=True)
class ThemeCounts:
    """The counts of a survey. Public.

    Attributes:
        words: Noise on the counts of words.
        least: The least noisy count of a word that is shown: themes of fewer units are hardly ever
            seen.
        shares: Noise on the counts of themes.
    """

    words: Histogram
    least: int
    shares: Histogram

    @property
    def rho(self) -> float:
        """Price of both for any unit, zCDP."""
        return self.words.rho + self.shares.rho

    def smallest(self, sample: float = 1.0) -> int:
        """Units of the smallest theme that is seen, where so large a part of them is asked."""
        return math.ceil(self.least / sample)


def survey_plan(
    config: PrivacyConfig,
    words: int,
    votes: int,
    search_rho: float = 0.0,
) -> Plan[ThemeCounts]:
    """The plan of a survey.

    Args:
        config: Public settings.
        words: How many the vocabulary has.
        votes: Words that one unit votes for.
        search_rho: zCDP rho that finding the units costs any of them.

    Raises:
        ConfigurationError: A number is out of range, or the settings do not fit single units.
    """
    _require_single_units(config)
    if votes >= words:
        raise ConfigurationError("a unit votes for fewer words than the vocabulary has")
    rho = epsilon_to_rho(config.epsilon, config.delta)
    counts = rho - search_rho
    for_words = SHARES.survey_words * counts
    within = partial(
        Histogram.within,
        stability=DIRECT,
        adjacency=config.adjacency,
        gaussian=config.only_gaussian,
    )
    counted = within(for_words, words, votes)
    left = (counts - for_words) * _ROUNDING
    shares = within(left, _THEMES, 1)
    return Plan(
        mechanism=ThemeCounts(counted, threshold_of(counted.noise, words), shares),
        individual=_each_pays(config),
        epsilon=config.epsilon,
        delta=config.delta,
        rho=rho,
        parts=(
            Price("search", search_rho, _SEARCH),
            Price("words", counted.rho, "noise on the count of each word of the vocabulary"),
            Price("themes", shares.rho, "noise on the count of each theme"),
        ),
        gaussian=config.only_gaussian,
    )


@dataclass(frozen=True, slots=True)
class SummaryCounts:
    """The counts of a summary whose units are asked. Public.

    Attributes:
        words: That units say they are about.
        shares: Noise on the counts of themes.
        sentences: Words that units of the largest themes give; None where they are not asked.
    """

    words: Agreement
    shares: Histogram
    sentences: Agreement | None

    @property
    def rho(self) -> float:
        """Price of all for any unit, zCDP."""
        asked = 0.0 if self.sentences is None else self.sentences.rho
        return self.words.rho + self.shares.rho + asked

    @property
    def themes(self) -> ThemeCounts:
        """Those of its themes."""
        noise = self.words.noise
        assert isinstance(noise, DiscreteGaussian)
        return ThemeCounts(Histogram(noise, self.words.rho), self.words.threshold, self.shares)

    def smallest(self, sample: float = 1.0) -> int:
        """As that of themes."""
        return self.themes.smallest(sample)


def summary_plan(
    config: PrivacyConfig, keys: int, search_rho: float, *, booked: bool
) -> Plan[SummaryCounts]:
    """The plan of a summary: words of subjects, units by theme, what units of the largest say.

    Args:
        config: Public settings.
        keys: Words that one unit of a theme gives at most; 0 asks none.
        search_rho: zCDP rho that finding the units costs any of them.
        booked: Whether a ledger books what thresholds cost.

    Raises:
        ConfigurationError: The settings do not fit single units, or the search takes all.
    """
    _require_single_units(config)
    rho, fine = config.rho(booked=booked), config.only_gaussian
    left = (rho - search_rho) * _ROUNDING
    if left <= 0:
        raise ConfigurationError("the search takes the whole budget; give it more noise (sigma)")
    delta = config.threshold_delta(booked=booked) / (2 if keys else 1)
    themes = 1.0 if keys else SHARES.summary_words + SHARES.summary_themes
    agreed = partial(Agreement.within, stability=DIRECT, adjacency=config.adjacency, gaussian=fine)
    words = agreed(SHARES.summary_words / themes * left, delta, keys=1)
    for_shares = min(SHARES.summary_themes / themes * left, left - words.rho)
    shares = Histogram.within(for_shares, _THEMES, 1, DIRECT, config.adjacency, gaussian=fine)
    of_words = f"words that units say they are about, released where about {words.threshold} do"
    parts: tuple[Price, ...] = (
        Price("search", search_rho, _SEARCH),
        Price("words", words.rho, of_words, words.delta),
        Price("themes", shares.rho, "noise on the count of each theme"),
    )
    sentences = None
    if keys:
        sentences = agreed(left - words.rho - shares.rho, delta, keys=keys)
        what = f"words of the largest themes, released where about {sentences.threshold} say so"
        parts = (*parts, Price("sentences", sentences.rho, what, sentences.delta))
    return Plan(
        mechanism=SummaryCounts(words, shares, sentences),
        individual=_each_pays(config),
        epsilon=config.epsilon,
        delta=config.delta,
        rho=rho,
        parts=parts,
        gaussian=fine,
    )


def _each_pays(config: PrivacyConfig) -> bool:
    """True where each unit pays for itself in any case; see `paying_units`."""
    return config.accounting == "individual" and accounts_individually(config, DIRECT)


def threshold_of(noise: DiscreteGaussian, words: int) -> int:
    """The count that noise alone hardly ever brings any of so many words to."""
    return noise.least(_FALSE_WORDS / words)


def _require_single_units(config: PrivacyConfig) -> None:
    if config.groups is not None:
        raise ConfigurationError("units are counted one by one; leave groups out")
