"""Counts corrected for misreading: of units that say yes, and of those that are read so.

A model that reads ``c`` of ``n`` units as yes, a yes as yes with probability ``s`` and a no as no
with probability ``t``, saw about ``(c - (1 - t) n) / (s + t - 1)`` (Rogan, Gladen 1978, "Estimating
prevalence from the results of a screening test"). Both counts are released with noise, and both
rates are measured on public items, so all of this is post-processing.
"""

from __future__ import annotations

import math

from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.rehearsal.yes_or_no import Reading
from dpicl_rag.results import INTERVAL, Estimate
from dpicl_rag.surveys.survey_results import Counted


def corrected(
    yes: int,
    units: int,
    noise: DiscreteGaussian,
    noise_of_units: DiscreteGaussian,
    reading: Reading,
    rate: float = 1.0,
) -> Estimate:
    """The number of units that say yes, with an interval of noise, of coins and of misreading.

    Variances add up: noise on both counts, coins of a sample, what a model of these rates reads
    wrong by chance, and what is not known of its rates at a new question.

    Args:
        yes: Noisy count of the units that are read as yes.
        units: Noisy count of all units.
        noise: On ``yes``.
        noise_of_units: On ``units``.
        reading: How the question was read, and how often that is right.
        rate: Public probability with which a unit was asked, by a coin of its own.
    """
    found, asked = yes / rate, max(0.0, units / rate)
    wrong_no = 1 - reading.no.mean
    # Fewer than are usually misread are none: at this question fewer were misread.
    said = max(0.0, (found - wrong_no * asked) / reading.youden)
    silent = max(0.0, asked - said)  # of few units their number is the noisier one
    variance = (
        (noise.sigma**2 + wrong_no**2 * noise_of_units.sigma**2) / rate**2
        + (said * reading.yes.mean + silent * wrong_no) * (1 - rate) / rate
        + reading.variance(said, silent)
    )
    reach = INTERVAL * math.sqrt(variance) / reading.youden
    low, high = math.floor(said - reach), math.ceil(said + reach)
    return Estimate(round(said), max(0, low), high)


def corrected_labels(counted: Counted, reading: Reading) -> list[Estimate]:
    """The number of units of each label: to a label alone a unit says yes or no.

    Args:
        counted: Noisy counts of a tally; each unit says one label, so their sum is all units.
        reading: How often a label is said of what it fits, and not of what it does not.
    """
    all_of_them = sum(counted.noisy), counted.noise, counted.noise_of_sum, reading, counted.rate
    return [corrected(one, *all_of_them) for one in counted.noisy]
