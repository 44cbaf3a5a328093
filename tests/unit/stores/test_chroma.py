"""Collections that something else fills, read in place."""

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings

from dpicl_rag import Ledger, PrivateContextLLM
from dpicl_rag.corpora import Corpus
from dpicl_rag.errors import ConfigurationError, CorpusError
from dpicl_rag.retrieval import (
    PrivateThresholdRetriever,
    ThresholdRetriever,
    TopKRetriever,
    score_histograms,
)
from dpicl_rag.retrieval.stored_record import NO_TEXT, NO_UNIT, NO_VECTOR, OTHER_LENGTH, Defect
from dpicl_rag.synthesis import synthesise_corpus
from tests.support.scripted_model import ScriptedModel
from tests.unit.conftest import HashingEmbedder, units_of

TEXTS = ["a refund takes five days", "ask for a refund by mail", "the warehouse opens at eight"]
THREADS = ["thread 1", "thread 1", "thread 2"]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[chromadb.ClientAPI]:
    with chromadb.PersistentClient(tmp_path, Settings(anonymized_telemetry=False)) as client:
        yield client


@pytest.fixture
def collection(client: chromadb.ClientAPI, embedder: HashingEmbedder) -> chromadb.Collection:
    collection = client.create_collection("theirs", embedding_function=None)
    collection.add(
        ["r1", "r2", "r3"],
        embeddings=embedder.embed(TEXTS) * np.float32(3),  # not of length 1
        documents=TEXTS,
        metadatas=[{"thread": thread, "page": 1} for thread in THREADS],
    )
    return collection


def test_the_unit_is_a_metadata_field(
    collection: chromadb.Collection, embedder: HashingEmbedder
) -> None:
    corpus = Corpus.from_collection(collection, unit_field="thread", embedder=embedder)
    (document,) = TopKRetriever(corpus, 1, passages_per_unit=1).retrieve("a refund takes")
    assert (document.unit, document.text) == ("thread 1", TEXTS[0])
    assert document.metadata == {"thread": "thread 1", "page": "1"}
    assert len(units_of(corpus)) == 2
    corpus.delete_unit("thread 1")
    assert [record.text for record in corpus.records()] == TEXTS[2:]


def test_units_that_are_numbers(collection: chromadb.Collection, embedder: HashingEmbedder) -> None:
    corpus = Corpus.from_collection(collection, unit_field="page", embedder=embedder)
    assert units_of(corpus) == ["1"]
    corpus.delete_unit("1")
    assert units_of(corpus) == []


def test_or_the_record_itself(collection: chromadb.Collection, embedder: HashingEmbedder) -> None:
    corpus = Corpus.from_collection(collection, unit_field="document", embedder=embedder)
    assert {record.unit for record in corpus.records()} == {"r1", "r2", "r3"}
    corpus.delete_unit("r2")
    assert {record.unit for record in corpus.records()} == {"r1", "r3"}


BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"documents": ["private words"]}, NO_UNIT),
    ({"documents": ["private words"], "metadatas": [{"page": 1}]}, NO_UNIT),
    ({}, NO_UNIT),
    ({"metadatas": [{"thread": "thread 1"}]}, NO_TEXT),
    ({"metadatas": [{"thread": "thread 3"}]}, NO_TEXT),
]


@pytest.mark.parametrize(("fields", "reason"), BROKEN)
def test_a_record_without_a_unit_or_a_text_stops_no_question(
    collection: chromadb.Collection, embedder: HashingEmbedder, fields: dict[str, Any], reason: str
) -> None:
    corpus = Corpus.from_collection(collection, unit_field="thread", embedder=embedder)
    retrievers = [
        ThresholdRetriever(corpus, -1),
        TopKRetriever(corpus, 2),
        PrivateThresholdRetriever(corpus, 2, sigma=3.0),
    ]
    before = [retriever.search("a refund").units for retriever in retrievers]
    assert corpus.check() == []
    collection.add(["r4"], embeddings=np.ones((1, 16)), **fields)
    assert [retriever.search("a refund").units for retriever in retrievers] == before
    assert len(corpus.records()) == 3
    assert len(corpus.scan(np.ones(16), where={"thread": "thread 1"}).passages([0])) == 2
    assert corpus.check() == [Defect("r4", reason)]
    corpus.delete_unit("thread 2")
    assert units_of(corpus) == ["thread 1"]


def test_a_vector_of_zeros_scores_nothing(
    collection: chromadb.Collection, embedder: HashingEmbedder
) -> None:
    corpus = Corpus.from_collection(collection, unit_field="thread", embedder=embedder)
    collection.add(
        ["r4"], embeddings=np.zeros((1, 16)), documents=["x"], metadatas=[{"thread": "t"}]
    )
    assert "t" not in ThresholdRetriever(corpus, 0.001).search("a refund").units
    assert corpus.check() == [Defect("r4", NO_VECTOR)]


def test_vectors_of_another_model_score_nothing_and_their_owner_can_learn_it(
    client: chromadb.ClientAPI, collection: chromadb.Collection, embedder: HashingEmbedder
) -> None:
    class Wide(HashingEmbedder):
        dimension = 24

    corpus = Corpus.from_collection(collection, unit_field="thread", embedder=Wide())
    empty = client.create_collection("empty", embedding_function=None)
    neighbour = Corpus.from_collection(empty, unit_field="thread", embedder=Wide())
    for some in (corpus, neighbour):
        assert ThresholdRetriever(some).retrieve("question") == []
    assert corpus.check() == [Defect(id, OTHER_LENGTH) for id in ("r1", "r2", "r3")]
    assert neighbour.check() == []


def test_it_cannot_be_opened_as_a_corpus(
    collection: chromadb.Collection, tmp_path: Path, embedder: HashingEmbedder
) -> None:
    with pytest.raises(CorpusError, match="no corpus named 'theirs'"):
        Corpus.open("theirs", tmp_path, embedder=embedder)


def test_another_tenant_and_database(tmp_path: Path, embedder: HashingEmbedder) -> None:
    admin = chromadb.AdminClient(
        Settings(is_persistent=True, persist_directory=str(tmp_path), anonymized_telemetry=False)
    )
    admin.create_tenant("tenant")
    admin.create_database("database", "tenant")
    settings = Settings(anonymized_telemetry=False)
    with chromadb.PersistentClient(tmp_path, settings, "tenant", "database") as client:
        made = client.create_collection("mail", embedding_function=None)
        made.add(["1"], embeddings=embedder.embed(["one"]), documents=["one"])
        found = Corpus.from_collection(made, unit_field="document", embedder=embedder)
        assert len(found.records()) == 1


def test_langchain_chroma(tmp_path: Path, embedder: HashingEmbedder) -> None:
    langchain_chroma = pytest.importorskip("langchain_chroma")
    from langchain_core.embeddings import Embeddings

    class Adapter(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return embedder.embed(texts).tolist()

        def embed_query(self, text: str) -> list[float]:
            return embedder.embed([text])[0].tolist()

    store = langchain_chroma.Chroma("theirs", Adapter(), persist_directory=str(tmp_path))
    fields = [{"thread": thread} for thread in THREADS]
    store.add_texts(TEXTS, fields, ids=["r1", "r2", "r3"])
    corpus = Corpus.from_collection(store._collection, unit_field="thread", embedder=embedder)
    found = ThresholdRetriever(corpus, 0.5).retrieve("a refund takes")
    assert {document.unit for document in found} == {"thread 1"}
    store.delete(["r1", "r2"])
    assert ThresholdRetriever(corpus, 0.5).retrieve("a refund takes") == []


@pytest.mark.heavy
def test_llama_index(client: chromadb.ClientAPI, embedder: HashingEmbedder) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own deprecations at import
        chroma = pytest.importorskip("llama_index.vector_stores.chroma")
        from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
    collection = client.create_collection("theirs", embedding_function=None)
    nodes = [
        TextNode(
            text=text,
            embedding=vector.tolist(),
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=thread)},
        )
        for text, vector, thread in zip(TEXTS, embedder.embed(TEXTS), THREADS, strict=True)
    ]
    chroma.ChromaVectorStore(chroma_collection=collection).add(nodes)
    corpus = Corpus.from_collection(collection, unit_field="document_id", embedder=embedder)
    found = ThresholdRetriever(corpus, 0.3).retrieve("refund")
    assert {(document.unit, document.text) for document in found} == {
        ("thread 1", TEXTS[0]),
        ("thread 1", TEXTS[1]),
    }


MODEL = ScriptedModel({"refund": "In five days.", "": "I cannot know."})
WAYS: dict[str, Callable[[PrivateContextLLM, Corpus, Path], Any]] = {
    "answer": lambda llm, corpus, _: llm.answer("When?", ThresholdRetriever(corpus, 0.1)),
    "classify": lambda llm, corpus, _: llm.classify("When?", corpus, labels=["a", "b"]),
    "tally by vectors": lambda llm, corpus, _: llm.tally(
        "Which?", ["a refund", "mail"], corpus, by="vectors"
    ),
    "survey": lambda llm, corpus, _: llm.survey(None, corpus),
    "scores": lambda llm, corpus, _: score_histograms(
        corpus, ["When?"], ledger=llm._ledger, corpus=corpus.name
    ),
    "synthesis": lambda llm, corpus, folder: synthesise_corpus(
        corpus, "drawn", epsilon=8, model=MODEL, ledger=llm._ledger, path=folder, keys="trie"
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_paid_for_by_one_field_is_not_paid_for_by_another(
    collection: chromadb.Collection, embedder: HashingEmbedder, tmp_path: Path, way: str
) -> None:
    """The hole that was: each field had budgets of its own, two for a person."""
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="theirs", epsilon=1000)
        llm = PrivateContextLLM(MODEL, ledger=ledger)
        by = {
            field: Corpus.from_collection(collection, unit_field=field, embedder=embedder)
            for field in ("thread", "document")
        }
        llm.answer("When is a refund?", ThresholdRetriever(by["thread"], 0.1))
        before = ledger.status()
        with pytest.raises(ConfigurationError, match=r"by the unit 'thread'.*corpora adopt"):
            WAYS[way](llm, by["document"], tmp_path)
        assert ledger.status() == before
