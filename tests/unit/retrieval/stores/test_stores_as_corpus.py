"""Every store finds, unit for unit and passage for passage, what `Corpus` finds."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

from dpicl_rag.mechanisms.randomness import NotPrivateWarning, SeededRandomness
from dpicl_rag.retrieval import (
    Corpus,
    PrivateThresholdRetriever,
    PrivateTopKRetriever,
    Retriever,
    ThresholdRetriever,
    TopKRetriever,
)
from dpicl_rag.retrieval.vectors import VectorSource
from tests.support.stores import Passages, Store, in_corpus, passages

CORPORA = range(200)


@cache
def corpus(seed: int) -> tuple[Passages, Corpus]:
    made = passages(seed)
    return made, in_corpus(made)


def retrievers(source: VectorSource, scores: list[float], seed: int) -> list[Retriever]:
    """Retrievers of each kind. A threshold that some unit meets to the last bit is the hard case."""
    random = np.random.default_rng(seed)
    met = float(np.clip(random.choice(scores or [0.5]), -1, 1))
    wheres: list[Any] = [None, {"size": 1}, {"size": {"$ne": 1}}]
    options = {"where": wheres[seed % 3], "passages_per_unit": (None, 1, 2)[seed % 5 % 3]}
    grid = sorted({0.99, 0.5, met, -0.5}, reverse=True)
    return [
        ThresholdRetriever(source, met, **options),
        TopKRetriever(source, int(random.integers(1, 12)), **options),
        PrivateThresholdRetriever(source, 5, sigma=1.0, thresholds=grid, capacity=4, **options),
        PrivateTopKRetriever(source, 5, sigma=1.0, thresholds=grid, **options),
    ]


def found(retriever: Retriever) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        coins = SeededRandomness(7)
    search = retriever.search("q")
    chosen = search.choose(randomness=coins)
    passages = [(p.unit, p.text, p.metadata) for p in chosen.documents]
    return search.units, passages, chosen.unit_rho, chosen.count


def differing(store: Store) -> list[int]:
    """Corpora over which some retriever finds another thing in the store."""
    wrong = []
    for seed in CORPORA:
        made, reference = corpus(seed)
        scores = sorted(set(reference.scan(made.question).scores.tolist()))
        pairs = zip(
            retrievers(store(made), scores, seed), retrievers(reference, scores, seed), strict=True
        )
        if any(found(there) != found(here) for there, here in pairs):
            wrong.append(seed)
    return wrong


def test_200_corpora_with_ties(store: Store) -> None:
    assert differing(store) == []
