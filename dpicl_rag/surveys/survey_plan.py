"""Plans of surveys: two histograms within one budget, fixed before anything is looked at."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpicl_rag import _validate
from dpicl_rag.accounting import DIRECT, epsilon_to_rho
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.private_counts import Histogram

VOTES = 3
"""Words that a unit votes for, where nothing else is said."""

_FALSE_WORDS = 0.05
"""Words that noise alone is to bring out, on the average of surveys."""

_THEMES = 4096
"""More themes than there can be: a changed vote moves two counts, however many there are."""


@dataclass(frozen=True, slots=True)
class SurveyPlan:
    """Public numbers of one survey.

    Attributes:
        words: Noise on the counts of words.
        least: The least noisy count of a word that is shown: themes of fewer units are hardly ever
            seen.
        shares: Noise on the counts of themes.
        rho: zCDP rho of all of it, for any unit.
    """

    words: Histogram
    least: int
    shares: Histogram
    rho: float

    def smallest(self, sample: float = 1.0) -> int:
        """Units of the smallest theme that is seen, where so large a part of them is asked."""
        return math.ceil(self.least / sample)


def survey_plan(
    config: PrivacyConfig, words: int, votes: int, search_rho: float = 0.0
) -> SurveyPlan:
    """The plan of a survey.

    Args:
        config: Public settings.
        words: How many the vocabulary has.
        votes: Words that one unit votes for.
        search_rho: zCDP rho that finding the units costs any of them.

    Raises:
        ConfigurationError: A number is out of range, or the settings ask for individual accounting:
            every unit votes, so all pay the same.
    """
    if config.accounting == "individual":
        raise ConfigurationError("all units of a survey vote and pay; leave accounting out")
    if config.groups is not None:
        raise ConfigurationError("units are counted one by one; leave groups out")
    if _validate.count("votes", votes) >= words:
        raise ConfigurationError("a unit votes for fewer words than the vocabulary has")
    rho = epsilon_to_rho(config.epsilon, config.delta)
    counts = rho - search_rho
    for_words = SHARES.survey_words * counts
    left = (counts - for_words) * (1 - 1e-9)  # for the rounding of sums
    counted = Histogram.within(for_words, words, votes, DIRECT, config.adjacency)
    shared = Histogram.within(left, _THEMES, 1, DIRECT, config.adjacency)
    return SurveyPlan(counted, threshold_of(counted.noise, words), shared, rho)


def threshold_of(noise: DiscreteGaussian, words: int) -> int:
    """The count that noise alone hardly ever brings any of so many words to."""
    return noise.least(_FALSE_WORDS / words)
