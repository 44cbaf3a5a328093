"""Counts corrected for misreading: of units that say yes, and of those that are read so.

A model that reads ``c`` of ``n`` units as yes, a yes as yes with probability ``s`` and a no as no
with probability ``t``, saw about ``(c - (1 - t) n) / (s + t - 1)`` (Rogan, Gladen 1978, "Estimating
prevalence from the results of a screening test"). Both counts are released with noise, and both
rates are measured on public items, so all of this is post-processing.
"""

from __future__ import annotations

import math

from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.rehearsal.yes_or_no import YesOrNo
from dpicl_rag.surveys.survey_results import INTERVAL, Estimate


def corrected(
    yes: int,
    units: int,
    noise: DiscreteGaussian,
    noise_of_units: DiscreteGaussian,
    reading: YesOrNo,
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
        reading: Rates of the model.
        rate: Public probability with which a unit was asked, by a coin of its own.
    """
    found, asked = yes / rate, max(0.0, units / rate)
    right_yes, right_no = reading.yes, reading.no
    youden = right_yes.mean + right_no.mean - 1
    wrong_no = 1 - right_no.mean
    true = (found - wrong_no * asked) / youden
    said = min(max(0.0, true), asked)
    silent = asked - said
    variance = (
        (noise.sigma**2 + wrong_no**2 * noise_of_units.sigma**2) / rate**2
        + (said * right_yes.mean + silent * wrong_no) * (1 - rate) / rate
        + said * right_yes.mean * (1 - right_yes.mean)
        + silent * right_no.mean * wrong_no
        + said**2 * right_yes.variance
        + silent**2 * right_no.variance
    )
    reach = INTERVAL * math.sqrt(variance) / youden
    low, high = math.floor(true - reach), math.ceil(true + reach)
    return Estimate(max(0, round(true)), max(0, low), max(0, high))
