"""The draws of a survey: words that many units are near to, and how many units each theme has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.private_run import PrivateRun
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.ledger.account import Account
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.requests import Request
from dpicl_rag.retrieval.embeddings import SentenceTransformerEmbedder
from dpicl_rag.retrieval.retrievers import Documents, corpus_name_of, vectors_of
from dpicl_rag.retrieval.unit_vectors import LOWEST, Blocks, nearest_passages, rounded
from dpicl_rag.retrieval.vectors import on_grid
from dpicl_rag.surveys.count_plans import ThemeCounts, survey_plan, tally_search
from dpicl_rag.surveys.estimate import Estimate
from dpicl_rag.surveys.phrases import PhraseReading
from dpicl_rag.surveys.remembered_counts import remembered
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


def survey_units(request: Request, documents: Documents, run: PrivateRun) -> PrivateSurvey:
    """Survey documents; see `PrivateContextLLM.survey` for errors.

    Args:
        request: What is asked, if anything, and who may vote for what.
        documents: Private.
        run: Pays; its reader says phrases, whose vectors vote in the place of stored ones.
    """
    config, question, coins = run.config, request.question, run.randomness
    votes, threshold, sample = request.votes, request.threshold, request.sample
    before = remembered(documents, run, fresh=request.fresh)
    words = packaged_words() if request.vocabulary is None else request.vocabulary
    if threshold is not None and question is None:
        raise ConfigurationError("a threshold is one of cosine with a question; give one")
    reading, search_rho, reader = None, 0.0, None
    if request.read_by == "model":
        reader = run.reader
        if reader is None:
            raise ConfigurationError(
                "a survey is by vectors, or by a reader; give one (reader=...)"
            )
        reading = PhraseReading.of(
            reader,
            documents,
            config,
            threshold=threshold,
            sample=sample,
            on_progress=run.on_progress,
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
        with run.open_account(corpus_name_of(documents), rho=plan.rho) as account:
            if reading is not None:
                if search_rho > 0:
                    account.pay(plan.search_rho)
                vectors, rate = reading.vectors(question, votes, embedder, coins)
                blocks: Blocks = vectors.blocks
            else:
                vectors, rate = vectors_of(documents, embedder, config.privacy_unit), sample
                blocks = vectors.sampled(sample, coins).blocks
                if query is not None:
                    least = LOWEST if threshold is None else threshold
                    blocks = partial(nearest_passages, blocks, query, least)
            found = surveyed(blocks, public, plan, votes, account, coins)
            return survey_result(question, found, plan, rate)

    shaping: tuple[object, ...] = (words, votes, threshold, sample, embedder.fingerprint)
    if reader is not None:
        shaping = (*shaping, "reader", reader.fingerprint, config.max_calls)
    return before.or_release(PrivateSurvey, question, shaping, config, release)


def plan_of_survey(
    request: Request, documents: Documents, run: PrivateRun
) -> tuple[Plan[ThemeCounts], int | None]:
    """The plan of a survey, and about how many units a reader reads for it."""
    words = packaged_words() if request.vocabulary is None else request.vocabulary
    if request.read_by == "vectors":
        return survey_plan(run.config, len(words), request.votes), None
    search = tally_search(documents, run.config, request.sample, read=True)
    price = search.rho(run.config.adjacency)
    return survey_plan(run.config, len(words), request.votes, price), search.aim


def surveyed(
    blocks: Blocks,
    vocabulary: Vocabulary,
    plan: Plan[ThemeCounts],
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
    counted = plan.mechanism
    account.pay(plan.price("words"))
    noisy = counted.words.draw(counts, randomness)
    shown = [at for at, count in enumerate(noisy) if count >= counted.least]
    words = {vocabulary.words[at]: noisy[at] for at in shown}
    themes = themes_of(list(words), list(words.values()), vocabulary.vectors[shown])
    middles = np.stack([theme.vector for theme in themes]) if themes else np.zeros((0, 1))
    members = nearest_words(blocks, rounded(middles.astype(np.float32)), 1, NEAR)
    account.pay(plan.price("themes"))
    return Surveyed(themes, words, counted.shares.draw(members, randomness))


def survey_result(
    question: str | None,
    found: Surveyed,
    plan: Plan[ThemeCounts],
    sample: float = 1.0,
) -> PrivateSurvey:
    """What a survey says, in estimates with intervals."""
    counts = plan.mechanism

    def near(word: str) -> Estimate:
        return Estimate.of(found.words[word], counts.words.noise, sample)

    *members, others = (Estimate.of(count, counts.shares.noise, sample) for count in found.counts)
    themes = [
        SurveyedTheme(theme.name, {word: near(word) for word in theme.words}, units)
        for theme, units in zip(found.themes, members, strict=True)
    ]
    spread = DiscreteGaussian(math.sqrt(len(found.counts)) * counts.shares.noise.sigma)
    return PrivateSurvey(
        question=question,
        themes=tuple(sorted(themes, key=lambda theme: -theme.units.units)),
        others=others,
        total=Estimate.of(sum(found.counts), spread, sample),
        smallest=counts.smallest(sample),
        epsilon=plan.epsilon,
        delta=plan.delta,
        rho=plan.rho,
    )
