"""Each retriever changes, when one unit arrives, exactly as much as its Stability says."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import chromadb
import numpy as np
import numpy.typing as npt
import pytest
from chromadb.config import Settings
from hypothesis import given
from hypothesis import strategies as st

from dpicl_rag.accounting.stability import Stability
from dpicl_rag.documents import Document, group_by_unit
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, SeededRandomness
from dpicl_rag.retrieval import (
    ExactRetriever,
    PoissonSampledRetriever,
    Retriever,
    Threshold,
    ThresholdRetriever,
    TopK,
    TopKRetriever,
)
from dpicl_rag.retrieval.stored_record import StoredRecord
from dpicl_rag.retrieval.vectors import NearUnits, Where
from tests.support.scored_units import OneVector
from tests.support.snapshot import Snapshot

Units = Mapping[str, Sequence[Sequence[float]]]
DIMENSION = 3
QUESTION = np.array([1.0, 0.0, 0.0], dtype=np.float32)


class Vectors:
    """Units with given vectors; a passage's text names its unit and its place in it."""

    name = None
    embedder = OneVector(QUESTION.tolist())

    def __init__(self, units: Units) -> None:
        rows = [
            (StoredRecord(f"{unit}/{place}", unit, f"{unit}/{place}"), vector)
            for unit, vectors in units.items()
            for place, vector in enumerate(vectors)
        ]
        self.whole = Snapshot(
            [record for record, _ in rows],
            np.array([vector for _, vector in rows]).reshape(-1, DIMENSION),
        )

    def scan(
        self,
        question: npt.ArrayLike,
        *,
        least: float = -math.inf,
        most: int | None = None,
        where: Where | None = None,
    ) -> NearUnits:
        return self.whole.scan(question, least, most)


def changes(before: list[Document], after: list[Document]) -> tuple[int, int, int]:
    """Units that came, that went, and whose passages differ."""
    old = {unit: [d.text for d in passages] for unit, passages in group_by_unit(before).items()}
    new = {unit: [d.text for d in passages] for unit, passages in group_by_unit(after).items()}
    differ = sum(old[unit] != new[unit] for unit in old.keys() & new.keys())
    return len(new.keys() - old.keys()), len(old.keys() - new.keys()), differ


def within(stability: Stability, before: list[Document], after: list[Document]) -> bool:
    """Whether an arrival stays within a declared stability; a displaced unit counts once."""
    came, went, differ = changes(before, after)
    return differ + max(went, came - stability.added) <= stability.changed


components = st.floats(-1, 1, width=16)
passages = st.lists(st.tuples(*[components] * DIMENSION), min_size=1, max_size=3)
corpora = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), passages, max_size=8)


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[Units, Units]:
    units = draw(corpora)
    return units, {**units, "newcomer": draw(passages)}


@given(neighbours(), st.data())
def test_threshold(pair: tuple[Units, Units], data: st.DataObject) -> None:
    before, after = map(Vectors, pair)
    # A threshold that some passage meets to the last bit is the hard case.
    threshold = data.draw(st.sampled_from(np.clip(after.whole.scores(QUESTION), -1, 1).tolist()))
    limit = data.draw(st.none() | st.integers(1, 3))
    old, new = (
        ThresholdRetriever(source, threshold, passages_per_unit=limit).retrieve("q")
        for source in (before, after)
    )
    assert within(Threshold.stability, old, new)
    passing = after.whole.scores(QUESTION) >= threshold
    expected = {r.unit for r, passes in zip(after.whole.records, passing, strict=True) if passes}
    assert {document.unit for document in new} == expected
    # Stronger, and what individual accounting rests on: the others stay where they were.
    assert [d.text for d in new if d.unit != "newcomer"] == [d.text for d in old]


@given(neighbours(), st.integers(1, 5), st.none() | st.integers(1, 3))
def test_top_k(pair: tuple[Units, Units], k: int, limit: int | None) -> None:
    old, new = (TopKRetriever(Vectors(u), k, passages_per_unit=limit).retrieve("q") for u in pair)
    assert within(TopK.stability, old, new)
    assert len(group_by_unit(new)) == min(k, len(pair[1]))


@given(corpora, st.integers(1, 5))
def test_units_stand_together_best_passage_first_and_in_an_order_without_rank(
    units: Units, k: int
) -> None:
    source = Vectors(units)
    score = {
        record.text: value
        for record, value in zip(source.whole.records, source.whole.scores(QUESTION), strict=True)
    }
    for retriever in (ThresholdRetriever(source, -1), TopKRetriever(source, k)):
        found = retriever.retrieve("q")
        order = [document.unit for document in found]
        assert order == [unit for unit in dict.fromkeys(order) for _ in range(order.count(unit))]
        chosen = set(order)
        assert list(dict.fromkeys(order)) == [u for u in source.whole.units if u in chosen]
        for texts in group_by_unit(found).values():
            scores = [score[document.text] for document in texts]
            assert scores == sorted(scores, reverse=True)
        if retriever.bar == TopK(k):
            best = {u: max(score[f"{u}/{n}"] for n in range(len(v))) for u, v in units.items()}
            assert sorted(best[u] for u in chosen) == sorted(best.values())[-k:]
        else:
            assert chosen <= set(units)


@given(neighbours(), st.floats(0.1, 1), st.integers(0, 99))
def test_poisson_sampling_keeps_units_whole(
    pair: tuple[Units, Units], rate: float, seed: int
) -> None:
    base = ThresholdRetriever(Vectors(pair[1]), -1)
    sampled = PoissonSampledRetriever(base, rate)
    with pytest.warns(NotPrivateWarning):
        coins = SeededRandomness(seed)
    assert sampled.stability == base.stability
    kept = group_by_unit(sampled.search("q").choose(randomness=coins).documents)
    whole = group_by_unit(base.retrieve("q"))
    assert all(kept[unit] == whole[unit] for unit in kept)
    assert rate < 1 or kept == whole


class FirstN(ExactRetriever):
    """A planted fault: a cap on a threshold's results, declared as a threshold."""

    stability = Threshold.stability

    def __init__(self, source: Vectors, n: int) -> None:
        self.source, self.n = source, n

    def retrieve(self, question: str) -> list[Document]:
        return ThresholdRetriever(self.source, -1).retrieve(question)[: self.n]


class ByRank(ExactRetriever):
    """A planted fault: experts of two units each, formed by rank, declared as a top-k."""

    stability = TopK.stability

    def __init__(self, source: Vectors) -> None:
        self.source = source

    def retrieve(self, question: str) -> list[Document]:
        scores = self.source.whole.scores(QUESTION)
        ranked = [self.source.whole.records[row].unit for row in np.argsort(-scores)]
        return [Document(unit, f"group {place // 2}") for place, unit in enumerate(ranked)]


def broken(retrievers: Sequence[Retriever]) -> bool:
    found = [retriever.search("q").choose().documents for retriever in retrievers]
    return any(
        not within(retriever.stability, old, new)
        for retriever, (old, new) in zip(retrievers, pairwise(found), strict=False)
    )


def growing(count: int, last: int) -> list[Units]:
    """A corpus of ``count`` units and its growth, one unit at a time."""
    generator = np.random.default_rng(0)
    vectors = {f"u{n}": [generator.normal(size=DIMENSION).tolist()] for n in range(count)}
    names = list(vectors)
    return [{name: vectors[name] for name in names[:size]} for size in range(count - last, count)]


def test_planted_faults_are_caught() -> None:
    corpora = [Vectors(units) for units in growing(30, 20)]
    assert broken([FirstN(source, 5) for source in corpora])
    assert broken([ByRank(source) for source in corpora])
    assert not broken([ThresholdRetriever(source, 0.2) for source in corpora])
    assert not broken([TopKRetriever(source, 5) for source in corpora])


def test_an_approximate_index_is_caught() -> None:
    """HNSW over a growing collection: some arrival changes what is found of the others.

    Its graph is random, so no single arrival is sure to; of these 200, some 7 to 15 do.
    """
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(300, 16))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    threshold = np.sort(vectors @ vectors[0])[-40]
    client = chromadb.EphemeralClient(Settings(anonymized_telemetry=False))
    collection = client.create_collection(
        "planted",
        embedding_function=None,
        configuration={"hnsw": {"space": "cosine", "max_neighbors": 2, "ef_construction": 4}},
    )
    approximate: list[list[Document]] = []
    for count in range(100, 300):
        ids = [str(row) for row in range(0 if count == 100 else count - 1, count)]
        collection.add(ids=ids, embeddings=vectors[[int(row) for row in ids]])
        page = collection.query(query_embeddings=vectors[:1], n_results=100, include=["distances"])
        approximate.append(
            [
                Document("", unit)
                for unit, distance in zip(page["ids"][0], page["distances"][0], strict=True)
                if 1 - distance >= threshold
            ]
        )
    client.delete_collection("planted")
    declared = Threshold.stability
    assert not all(within(declared, before, after) for before, after in pairwise(approximate))
