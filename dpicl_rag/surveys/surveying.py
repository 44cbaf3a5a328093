"""Surveys: words that many units are near to, by stored vectors or phrases, and units by theme."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.private_run import PrivateRun
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.readers.base import Reader
from dpicl_rag.language_models.readers.notes import phrases
from dpicl_rag.ledger.account import Account
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.requests import Request
from dpicl_rag.results import Estimate
from dpicl_rag.retrieval.base import Retriever
from dpicl_rag.retrieval.embeddings import Embedder, SentenceTransformerEmbedder
from dpicl_rag.retrieval.retrievers import Documents, ThresholdRetriever, vectors_of
from dpicl_rag.retrieval.search import Search
from dpicl_rag.retrieval.unit_vectors import LOWEST, Blocks, UnitVectors, nearest_passages, rounded
from dpicl_rag.retrieval.vectors import VectorSource, embedded, on_grid
from dpicl_rag.surveys.count_plans import ThemeCounts, survey_plan, tally_search
from dpicl_rag.surveys.paying_units import found_taking_part, vectors_taking_part
from dpicl_rag.surveys.remembered_counts import memory_of_counts, remembered_or_released
from dpicl_rag.surveys.survey_results import PrivateSurvey, SurveyedTheme
from dpicl_rag.surveys.vocabulary import Theme, Vocabulary, nearest_words, packaged_words, themes_of

NEAR = 0.2
"""Cosine with a theme from which a unit is of it."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """Noisy counts of a survey as they were released. Public.

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
    memory = memory_of_counts(documents, run)
    words = packaged_words() if request.vocabulary is None else request.vocabulary
    if threshold is not None and question is None:
        raise ConfigurationError("a threshold is one of cosine with a question; give one")
    reader = run.reader if request.read_by == "model" else None
    search: Search | None = None
    search_rho = 0.0
    if request.read_by == "model":
        if reader is None:
            raise ConfigurationError(
                "a survey is by vectors, or by a reader; give one (reader=...)"
            )
        most = config.max_calls
        search = units_search(documents, config, most=most, threshold=threshold, sample=sample)
        search_rho = search.rho(config.adjacency)
    plan = survey_plan(config, len(words), votes, search_rho)
    embedder = getattr(documents, "embedder", None) or SentenceTransformerEmbedder()

    def release() -> PrivateSurvey:
        public, query = asked_words(question, words, votes, embedder)
        if search is not None and reader is not None:
            each = question or _OF_WHOLE_UNITS
            opened = found_taking_part(plan, documents, run, search, question or "")
            with opened as (some, units, rate):
                blocks = phrase_vectors(units, each, votes, reader, run, embedder).blocks
                found = surveyed(blocks, public, plan, votes, some.account, coins)
        else:
            rate = sample
            vectors = vectors_of(documents, embedder, config.privacy_unit).sampled(sample, coins)
            with vectors_taking_part(plan, documents, run, vectors) as (some, vectors):
                blocks = nearest(vectors, query, threshold)
                found = surveyed(blocks, public, plan, votes, some.account, coins)
        return survey_result(question, found, plan.mechanism, plan, rate, complete=some.complete)

    shaping: tuple[object, ...] = (words, votes, threshold, sample, embedder.fingerprint)
    if reader is not None:
        shaping = (*shaping, "reader", reader.fingerprint, config.max_calls)
    return remembered_or_released(memory, PrivateSurvey, request, shaping, run, release)


def asked_words(
    question: str | None, words: Sequence[str], votes: int, embedder: Embedder
) -> tuple[Vocabulary, npt.NDArray[np.float32] | None]:
    """The words that say something beyond a question, and its embedding."""
    public = Vocabulary.embedded(words, embedder)
    query = None
    if question is not None:
        query = rounded(on_grid(embedder.embed([question], query=True)))[0]
        public = public.beside(query)
    if votes >= len(public.words):
        raise ConfigurationError(
            "the question is near to nearly all words of the vocabulary; give it more words"
        )
    return public, query


def nearest(
    vectors: UnitVectors, query: npt.NDArray[np.float32] | None, threshold: float | None = None
) -> Blocks:
    """Of each unit what votes: all of it, or its passage nearest to the question.

    Args:
        vectors: Of the units.
        query: Embedding of the question, if there is one.
        threshold: Cosine with it from which a unit votes at all.
    """
    if query is None:
        return vectors.blocks
    least = LOWEST if threshold is None else threshold
    return partial(nearest_passages, vectors.blocks, query, least)


def plan_of_survey(
    request: Request, documents: Documents, run: PrivateRun
) -> tuple[Plan[ThemeCounts], int | None]:
    """The plan of a survey, and about how many units a reader reads for it."""
    words = packaged_words() if request.vocabulary is None else request.vocabulary
    if request.read_by == "vectors":
        return survey_plan(run.config, len(words), request.votes), None
    search = tally_search(documents, run.config, request.sample, most=run.config.max_calls)
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
    counts: ThemeCounts,
    plan: Plan[Any],
    sample: float = 1.0,
    *,
    complete: bool,
) -> PrivateSurvey:
    """The result of a survey, in estimates with intervals.

    Args:
        question: What was asked, if anything.
        found: As it was released.
        counts: Its noise.
        plan: What it cost.
        sample: Public probability with which a unit was asked.
        complete: Whether every unit could pay, by public numbers.
    """

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
        complete=complete,
    )


_OF_WHOLE_UNITS = "What is the document about?"


def units_search(
    documents: Documents,
    config: PrivacyConfig,
    *,
    most: int | None,
    threshold: float | None = None,
    sample: float = 1.0,
) -> Search:
    """The search for the units that are read: all of them, or those near to the question.

    Args:
        documents: A corpus, a store that hands over its vectors, or a list.
        config: Public settings.
        most: About how many are read at most; all if None.
        threshold: Least cosine with the question.
        sample: Public probability with which a unit is read, by a secret coin of its own.

    Raises:
        ConfigurationError: ``documents`` is a search, or has no vectors for a threshold.
        MissingDocumentsError: ``documents`` is None.
    """
    if isinstance(documents, Retriever):
        raise ConfigurationError(
            "all units are surveyed; give a corpus, a Chroma collection, or a list of documents"
        )
    if threshold is not None and documents is not None:
        if not isinstance(documents, VectorSource):
            raise ConfigurationError("a threshold needs the vectors of a corpus; leave it out")
        documents = ThresholdRetriever(documents, threshold)
    return tally_search(documents, config, sample, most=most)


def phrase_vectors(
    units: Mapping[str, Sequence[Document]],
    question: str,
    votes: int,
    reader: Reader,
    run: PrivateRun,
    embedder: Embedder,
) -> UnitVectors:
    """Vectors of the phrases that a reader says of each unit.

    Args:
        units: Passages of each. Private.
        question: What it is asked.
        votes: Phrases of one unit at most.
        reader: Says phrases of one unit at a time.
        run: Is told of the progress.
        embedder: Of phrases.

    Raises:
        EngineUnavailableError: The reader does not answer.
    """
    passages = [tuple(one.text for one in own) for own in units.values()]
    said = phrases(reader, question, votes)(passages, run.on_progress, list(units))
    return _vectors(said, embedder)


def _vectors(said: Sequence[Sequence[str]], embedder: Embedder) -> UnitVectors:
    texts = [phrase for own in said for phrase in own]
    numbers = [at for at, own in enumerate(said) for _ in own]
    return UnitVectors(embedded(texts, embedder), np.array(numbers, dtype=np.int64))
