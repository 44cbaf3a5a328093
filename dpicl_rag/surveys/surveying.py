"""The draws of a survey: words that many units are near to, and how many units each theme has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.ledger.account import Account
from dpicl_rag.mechanisms.gaussian import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval.unit_vectors import Blocks, rounded
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
    blocks: Blocks,
    vocabulary: Vocabulary,
    plan: SurveyPlan,
    votes: int,
    account: Account,
    randomness: Randomness,
) -> Surveyed:
    """Count words, group those that are shown, count units by theme; each is paid for before.

    Args:
        blocks: Who votes. Private.
        vocabulary: Public words that may be voted for.
        plan: Noise and prices.
        votes: Words that a unit votes for.
        account: Pays.
        randomness: Where the noise comes from.
    """
    *counts, _ = nearest_words(blocks, vocabulary.vectors, votes)
    account.pay(plan.words.rho)
    noisy = plan.words.draw(counts, randomness)
    shown = [at for at, count in enumerate(noisy) if count >= plan.least]
    words = {vocabulary.words[at]: noisy[at] for at in shown}
    themes = themes_of(list(words), list(words.values()), vocabulary.vectors[shown])
    middles = np.stack([theme.vector for theme in themes]) if themes else np.zeros((0, 1))
    members = nearest_words(blocks, rounded(middles.astype(np.float32)), 1, _NEAR)
    account.pay(plan.shares.rho)
    return Surveyed(themes, words, plan.shares.draw(members, randomness))


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
