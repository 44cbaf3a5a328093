"""The draws of a survey: words that many units are near to, and how many units each theme has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpicl_rag import _validate
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import Progress
from dpicl_rag.language_models.readers.base import Reader
from dpicl_rag.ledger.account import Account
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval.embeddings import SentenceTransformerEmbedder
from dpicl_rag.retrieval.retrievers import Documents, vectors_of
from dpicl_rag.retrieval.unit_vectors import LOWEST, Blocks, nearest_passages, rounded
from dpicl_rag.retrieval.vectors import on_grid
from dpicl_rag.surveys.counting import Counting
from dpicl_rag.surveys.estimate import Estimate
from dpicl_rag.surveys.phrases import PhraseReading
from dpicl_rag.surveys.survey_plan import VOTES, SurveyPlan, survey_plan
from dpicl_rag.surveys.survey_results import PrivateSurvey, SurveyedTheme
from dpicl_rag.surveys.themes import Theme, themes_of
from dpicl_rag.surveys.vocabulary import Vocabulary, packaged_words
from dpicl_rag.surveys.word_votes import nearest_words

NEAR = 0.2
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


def survey_documents(
    question: str | None,
    documents: Documents,
    counting: Counting,
    *,
    vocabulary: Sequence[str] | None = None,
    votes: int = VOTES,
    threshold: float | None = None,
    sample: float = 1.0,
    reader: Reader | None = None,
    on_progress: Progress | None = None,
) -> PrivateSurvey:
    """Survey documents; see `PrivateContextLLM.survey` for errors.

    Args:
        question: Public text, or None.
        documents: Private.
        counting: Settings, budget, coins and memory.
        vocabulary: Public words; None for those of the package.
        votes: Words that one unit votes for.
        threshold: Cosine with the question from which a unit is asked at all.
        sample: Public probability with which a unit votes, by a secret coin of its own.
        reader: Says phrases of each unit, whose vectors vote in the place of stored ones.
        on_progress: Called with the part that a reader has read.
    """
    config = counting.config
    words = packaged_words() if vocabulary is None else tuple(vocabulary)
    if threshold is not None:
        _validate.cosine("threshold", threshold)
        if question is None:
            raise ConfigurationError("a threshold is one of cosine with a question; give one")
    _validate.rate("sample", sample)
    reading, search_rho = None, 0.0
    if reader is not None:
        reading = PhraseReading.of(
            reader, documents, config, threshold=threshold, sample=sample, on_progress=on_progress
        )
        search_rho = reading.search.rho(config.adjacency)
    plan = survey_plan(config, len(words), votes, search_rho)
    embedder = getattr(documents, "embedder", None) or SentenceTransformerEmbedder()

    def release() -> PrivateSurvey:
        public = Vocabulary.embedded(words, embedder)
        query = None
        if question is not None:
            query = rounded(on_grid(embedder.embed([question], query=True)))[0]
            public = public.beside(query)
        if votes >= len(public.words):
            raise ConfigurationError(
                "the question is near to nearly all words of the vocabulary; give it more words"
            )
        coins = counting.randomness
        with counting.open_account(rho=plan.rho) as account:
            if reading is not None:
                if search_rho > 0:
                    account.pay(search_rho)
                vectors, rate = reading.vectors(question, votes, embedder, coins)
                blocks: Blocks = vectors.blocks
            else:
                vectors, rate = vectors_of(documents, embedder, config.privacy_unit), sample
                blocks = vectors.sampled(sample, coins).blocks
                if query is not None:
                    least = LOWEST if threshold is None else threshold
                    blocks = partial(nearest_passages, blocks, query, least)
            found = surveyed(blocks, public, plan, votes, account, coins)
            return survey_result(question, found, plan, config, rate)

    shaping: tuple[object, ...] = (words, votes, threshold, sample, embedder.fingerprint)
    if reader is not None:
        shaping = (*shaping, "reader", reader.fingerprint, config.max_calls)
    return counting.remembered.or_release(PrivateSurvey, question, shaping, config, release)


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
    members = nearest_words(blocks, rounded(middles.astype(np.float32)), 1, NEAR)
    account.pay(plan.shares.rho)
    return Surveyed(themes, words, plan.shares.draw(members, randomness))


def survey_result(
    question: str | None,
    found: Surveyed,
    plan: SurveyPlan,
    config: PrivacyConfig,
    sample: float = 1.0,
) -> PrivateSurvey:
    """What a survey says, in estimates with intervals."""

    def near(word: str) -> Estimate:
        return Estimate.of(found.words[word], plan.words.noise, sample)

    *members, others = (Estimate.of(count, plan.shares.noise, sample) for count in found.counts)
    themes = [
        SurveyedTheme(theme.name, {word: near(word) for word in theme.words}, units)
        for theme, units in zip(found.themes, members, strict=True)
    ]
    spread = DiscreteGaussian(math.sqrt(len(found.counts)) * plan.shares.noise.sigma)
    return PrivateSurvey(
        question=question,
        themes=tuple(sorted(themes, key=lambda theme: -theme.units.units)),
        others=others,
        total=Estimate.of(sum(found.counts), spread, sample),
        smallest=plan.smallest(sample),
        epsilon=config.epsilon,
        delta=config.delta,
        rho=plan.rho,
    )
