"""The draws of a survey: words that many units are near to, and how many units each theme has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.ledger.account import Account
from dpicl_rag.mechanisms.gaussian import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval.unit_vectors import UnitVectors, rounded
from dpicl_rag.surveys.estimate import Estimate
from dpicl_rag.surveys.results import PrivateSurvey, SurveyedTheme
from dpicl_rag.surveys.survey_plan import SurveyPlan
from dpicl_rag.surveys.themes import Theme, themes_of
from dpicl_rag.surveys.vocabulary import Vocabulary
from dpicl_rag.surveys.word_votes import nearest_words

_NEAR = 0.2
"""Cosine with a theme from which a unit is of it."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What was released. Public.

    Attributes:
        themes: The heaviest first.
        words: Noisy counts of the words that were shown.
        counts: Noisy counts of units, one for each theme, and last of those of none.
    """

    themes: Sequence[Theme]
    words: dict[str, int]
    counts: Sequence[int]


def surveyed(
    units: UnitVectors,
    vocabulary: Vocabulary,
    asked: npt.NDArray[np.bool_],
    plan: SurveyPlan,
    votes: int,
    account: Account,
    randomness: Randomness,
) -> Surveyed:
    """Count words, group those that are shown, count units by theme; each is paid for before.

    Args:
        units: Who votes. Private.
        vocabulary: Public words.
        asked: Which of them may be voted for, ``[words]``.
        plan: Noise and prices.
        votes: Words that a unit votes for.
        account: Pays.
        randomness: Where the noise comes from.
    """
    places = np.flatnonzero(asked)
    vectors = vocabulary.vectors[places]
    counts = nearest_words(units, vectors, votes).tolist()
    account.pay(plan.words.rho)
    noisy = plan.words.draw(counts, randomness)
    shown = [(at, count) for at, count in zip(places, noisy, strict=True) if count >= plan.least]
    words = {vocabulary.words[at]: count for at, count in shown}
    near = vocabulary.vectors[[at for at, _ in shown]]
    themes = themes_of(list(words), list(words.values()), near)
    middles = np.zeros((0, vectors.shape[1]), dtype=np.float32)
    if themes:
        middles = rounded(np.stack([theme.vector for theme in themes]))
    members = nearest_words(units, middles, 1, _NEAR).tolist() if themes else []
    others = len(np.unique(units.unit[units.unit >= 0])) - sum(members)
    account.pay(plan.shares.rho)
    return Surveyed(themes, words, plan.shares.draw([*members, others], randomness))


def nearest_passages(
    units: UnitVectors, question: npt.NDArray[np.float32], least: float | None
) -> UnitVectors:
    """Of each unit its passage nearest to a question, if that is near enough.

    Args:
        units: All their passages.
        question: Its embedding, rounded ``[d]``.
        least: Cosine from which a unit is asked at all; None asks all.
    """
    vectors: list[npt.NDArray[np.float32]] = []
    numbers: list[int] = []
    for rows, firsts in units.blocks():
        scores = rows @ question if rows.shape[1] == len(question) else np.zeros(len(rows))
        for first, end in zip(firsts, [*firsts[1:], len(rows)], strict=True):
            best = first + int(scores[first:end].argmax())
            if least is None or scores[best] >= least:
                vectors.append(rows[best])
                numbers.append(len(numbers))
    if not vectors:
        return UnitVectors(np.zeros((0, len(question)), dtype=np.float32), np.zeros(0, dtype=int))
    return UnitVectors(np.stack(vectors), np.array(numbers))


def survey_result(
    question: str | None, found: Surveyed, plan: SurveyPlan, config: PrivacyConfig
) -> PrivateSurvey:
    """What a survey says, in estimates with intervals."""
    *members, others = (Estimate.of(count, plan.shares.noise) for count in found.counts)
    themes = [
        SurveyedTheme(
            theme.name,
            {word: Estimate.of(found.words[word], plan.words.noise) for word in theme.words},
            units,
        )
        for theme, units in zip(found.themes, members, strict=True)
    ]
    spread = DiscreteGaussian(math.sqrt(len(found.counts)) * plan.shares.noise.sigma)
    return PrivateSurvey(
        question=question,
        themes=tuple(sorted(themes, key=lambda theme: -theme.units.units)),
        others=others,
        total=Estimate.of(sum(found.counts), spread),
        smallest=plan.least,
        epsilon=config.epsilon,
        delta=config.delta,
        rho=plan.rho,
    )
