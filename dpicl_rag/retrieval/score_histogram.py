"""A noisy histogram of scores: help for choosing a fixed threshold.

Looking at the scores of a corpus, or at what a threshold returns, and then setting the threshold
by it, is a private choice that no answer pays for. These counts are noisy and paid for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from dpicl_rag import _validate
from dpicl_rag.accounting import Adjacency
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.ledger.account import open_account
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval.search_bars import bins_of, check_thresholds
from dpicl_rag.retrieval.vectors import VectorSource, Where, scan, unit_field_of

if TYPE_CHECKING:
    from dpicl_rag.ledger import Ledger

THRESHOLDS = tuple(hundredths / 100 for hundredths in range(90, 15, -5))
"""0.90, 0.85, ..., 0.20."""


@dataclass(frozen=True, slots=True)
class ScoreHistogram:
    """Noisy numbers of units between neighbouring thresholds, for one question. Public.

    Attributes:
        question: The question.
        thresholds: Cosines, falling.
        counts: For each threshold the units that reach it and not the one before. Noise can make
            a count negative.
        sigma: Standard deviation of the noise on each count.
    """

    question: str
    thresholds: tuple[float, ...]
    counts: tuple[int, ...]
    sigma: float

    @property
    def passing(self) -> tuple[int, ...]:
        """Noisy number of units that reach each threshold.

        The noise adds up: at the n-th threshold it has standard deviation ``sigma * sqrt(n)``.
        """
        return tuple(accumulate(self.counts))


def score_histograms(
    source: VectorSource,
    questions: Sequence[str],
    *,
    ledger: Ledger,
    corpus: str,
    caller: str | None = None,
    sigma: float = 3.0,
    thresholds: Sequence[float] = THRESHOLDS,
    where: Where | None = None,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
    randomness: Randomness | None = None,
) -> list[ScoreHistogram]:
    """Noisy histograms of the scores that questions get, charged to the ledger.

    Args:
        source: Where the vectors are.
        questions: Public questions such as callers will ask.
        ledger: Pays `histograms_rho`, before anything is returned.
        corpus: Name under which the ledger keeps the corpus.
        caller: Who asks, for the ledger's budgets per caller.
        sigma: Standard deviation of the noise on each count.
        thresholds: Cosines, falling.
        where: Chroma filter on metadata, applied first. Public.
        adjacency: What makes two corpora neighbours.
        randomness: Source of the noise; the operating system's generator if None.

    Returns:
        One histogram for each question.

    Raises:
        BudgetExceededError: The ledger cannot pay; nothing was counted.
        ConfigurationError: A parameter is out of range, or there is no question.
    """
    if isinstance(questions, str):
        raise ConfigurationError("questions must be a list, not one string")
    _validate.count("the number of questions", len(questions))
    checked = check_thresholds(thresholds)
    noise, coins = DiscreteGaussian(sigma, fine=True), randomness or Randomness()
    rho = histograms_rho(sigma, len(questions), adjacency)
    histograms: list[ScoreHistogram] = []
    with open_account(
        ledger,
        corpus=corpus,
        caller=caller,
        source=source.name or None,
        unit_field=unit_field_of(source),
        rho=rho,
        gaussian=True,
    ) as account:
        for question in questions:
            near = scan(source, [question], least=checked[-1], where=where)
            bins = bins_of(near.scores, checked)
            counts = np.bincount(bins, minlength=len(checked))[: len(checked)].tolist()
            noisy = tuple(count + noise.draw(coins) for count in counts)
            histograms.append(ScoreHistogram(question, checked, noisy, sigma))
        account.pay(rho)
    return histograms


def histograms_rho(
    sigma: float, questions: int, adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE
) -> float:
    """Rho of zCDP of histograms for some questions: 1 / (2 sigma^2) for each.

    A unit is in one bin of each histogram; a replaced one leaves a bin and enters another.

    Raises:
        ConfigurationError: ``sigma`` is not above 0 and finite.
    """
    moved = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    return DiscreteGaussian(sigma).rho * questions * moved


def suggest_threshold(histograms: Sequence[ScoreHistogram], units: int) -> float:
    """The highest threshold that on average lets ``units`` units pass, by the noisy counts.

    Returns:
        A threshold; the lowest one if none lets as many pass.

    Raises:
        ConfigurationError: There is no histogram, or their thresholds differ.
    """
    if len({histogram.thresholds for histogram in histograms}) != 1:
        raise ConfigurationError("give histograms with the same thresholds, at least one")
    thresholds = histograms[0].thresholds
    totals = np.mean([histogram.passing for histogram in histograms], axis=0)
    enough = np.flatnonzero(totals >= units)
    return thresholds[enough[0]] if len(enough) else thresholds[-1]
