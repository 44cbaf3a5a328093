"""Every store finds, unit for unit and passage for passage, what `Corpus` finds."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest

from dpicl_rag.retrieval import (
    PrivateThresholdRetriever,
    Retriever,
    ThresholdRetriever,
    TopKRetriever,
)
from dpicl_rag.retrieval.vectors import VectorSource
from dpicl_rag.stores import exact_store
from tests.support.stores import (
    FIELD,
    QUESTION,
    Passage,
    Passages,
    Store,
    fixed,
    in_corpus,
    passages,
    seeded,
)


@cache
def expected(seed: int) -> tuple[Passages, list[float], list[Any]]:
    """Passages, the scores of their units, and what retrievers find over `Corpus`."""
    made = passages(seed)
    reference = in_corpus(made)
    scores = sorted(set(reference.scan(made.question).scores.tolist()))
    return made, scores, [found(retriever) for retriever in retrievers(reference, scores, seed)]


def retrievers(source: VectorSource, scores: list[float], seed: int) -> list[Retriever]:
    """Retrievers of each kind. A threshold that some unit meets to the last bit is hardest."""
    random = np.random.default_rng(seed)
    met = float(np.clip(random.choice(scores or [0.5]), -1, 1))
    wheres: list[Any] = [None, {"size": 1}, {"size": {"$ne": 1}}]
    options = {"where": wheres[seed % 3], "passages_per_unit": (None, 1, 2)[seed % 5 % 3]}
    grid = sorted({0.99, 0.5, met, -0.5}, reverse=True)
    return [
        ThresholdRetriever(source, met, **options),
        TopKRetriever(source, int(random.integers(1, 12)), **options),
        PrivateThresholdRetriever(source, 5, sigma=1.0, thresholds=grid, thin_to=4, **options),
    ]


def found(retriever: Retriever) -> Any:
    search = retriever.search("q")
    chosen = search.choose(randomness=seeded())
    passages = [(p.unit, p.text, p.metadata) for p in chosen.documents]
    return search.units, passages, chosen.unit_rho, chosen.count


def differing(store: Store, corpora: Iterable[int] = range(200)) -> list[int]:
    """Corpora over which some retriever finds another thing in the store."""
    wrong = []
    for seed in corpora:
        made, scores, reference = expected(seed)
        if [found(retriever) for retriever in retrievers(store(made), scores, seed)] != reference:
            wrong.append(seed)
    return wrong


@pytest.mark.heavy
def test_200_corpora_with_ties(store: Store) -> None:
    assert differing(store) == []


@pytest.mark.heavy
def test_ties_are_there() -> None:
    tied = [len(set(scores)) < len(made.units) for made, scores, _ in map(expected, range(200))]
    assert sum(tied) > 150


@pytest.mark.heavy
def test_a_store_that_drops_a_candidate_is_caught(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted fault: as approximate searches do."""
    whole = exact_store._batches
    monkeypatch.setattr(exact_store, "_batches", lambda rows: whole(islice(rows, 1, None)))
    assert differing(store, range(10))


@pytest.mark.heavy
def test_a_store_that_is_believed_to_the_last_bit_is_caught(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted fault: without the margin, units on a threshold come and go."""
    monkeypatch.setattr(exact_store, "margin", lambda dimension: -(2.0**-22))
    assert differing(store, range(30))


@pytest.mark.one_in(2)
def test_more_rows_are_asked_for_until_there_are_enough_units(store: Store) -> None:
    """One unit has more passages, all nearer than the others', than are looked at first."""
    near, far = fixed([[3, 1] + [0] * 6, [1, 3] + [0] * 6])
    rows = [Passage(str(uuid.UUID(int=n)), {FIELD: "long"}, near) for n in range(1, 301)]
    rows += [Passage(str(uuid.UUID(int=n)), {FIELD: f"{n}"}, far) for n in range(301, 306)]
    made = Passages(rows, QUESTION)
    source, reference = store(made), in_corpus(made)
    for most in (1, 2, 3, 9):
        assert found(TopKRetriever(source, most)) == found(TopKRetriever(reference, most))
