"""A filter in SQL lets pass what Chroma's lets pass, or is left to Chroma."""

import itertools
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest

from dpicl_rag.corpora import Corpus
from dpicl_rag.retrieval.filters import clause
from tests.unit.conftest import HashingEmbedder

VALUES: list[Any] = ["a", "b", "1", 1, 2, 1.0, 2.5, True, False, 0, -3]
OPERATORS = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]
LEFT_TO_CHROMA: list[dict[str, Any]] = [
    {},
    {"p": 1, "q": 2},
    {"p": {"$gt": "a"}},
    {"p": {"$in": []}},
    {"p": {"$in": [1, "a"]}},
    {"p": {"$contains": "a"}},
    {"p": {"$unknown": 1}},
    {"p": {"$eq": 1, "$ne": 2}},
    {"p": None},
    {"p": 2.5},
    {"$and": [{"p": 1}]},
    {"$or": [{"p": 1}, {"p": {"$contains": "a"}}]},
    {"$not": {"p": 1}},
    {"#document": {"$contains": "a"}},
]


@pytest.mark.parametrize("where", LEFT_TO_CHROMA)
def test_other_shapes_are_left_to_chroma(where: dict[str, Any]) -> None:
    assert clause(where) is None


def test_it_lets_pass_what_chroma_lets_pass(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    fields: list[dict[str, Any]] = []
    for number in range(60):
        own = {key: VALUES[generator.integers(11)] for key in "pq" if generator.random() < 0.7}
        if generator.random() < 0.2:
            own["p"] = [["a", "b"], [1, 2], [True]][generator.integers(3)]
        fields.append({**own, "unit": f"unit {number}"})
    ids = [str(number) for number in range(60)]
    with chromadb.PersistentClient(tmp_path) as client:
        collection = client.create_collection("mail", embedding_function=None)
        collection.add(ids, embeddings=np.ones((60, 16)), documents=ids, metadatas=fields)
        corpus = Corpus.from_collection(collection, unit_field="unit", embedder=HashingEmbedder())
        simple: list[dict[str, Any]] = [
            *({"p": value} for value in VALUES),
            *({"p": {how: value}} for how in OPERATORS for value in VALUES),
            *(
                {"p": {how: [a, b]}}
                for how in ("$in", "$nin")
                for a, b in itertools.pairwise(VALUES)
            ),
        ]
        known = [where for where in simple if clause(where) is not None]
        assert len(known) >= 60
        several = [
            {how: [known[one], {"q": known[other]["p"]}]}
            for how in ("$and", "$or")
            for one, other in generator.integers(0, len(known), size=(30, 2)).tolist()
        ]
        for where in [*known, *several]:
            expected = set(collection.get(where=where, include=[])["ids"])
            found = corpus.scan(np.ones(16), where=where)
            passages = found.passages(range(len(found.units)))
            assert {document.text for document, _ in passages} == expected, where
        corpus.close()


def test_chroma_is_not_asked_for_a_plain_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = Corpus.create("mail", tmp_path, embedder=HashingEmbedder())
    corpus.add(["one", "two"])
    monkeypatch.setattr(chromadb, "PersistentClient", None)
    assert len(corpus.scan(np.ones(16), where={"dpicl_position": "0"}).units) == 2
    assert corpus.scan(np.ones(16), where={"dpicl_position": {"$ne": "0"}}).units == []
