"""LangChain stores over pgvector, Qdrant and FAISS find what a Chroma store finds."""

from __future__ import annotations

import asyncio
import logging
import sys
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from faiss import IndexFlatL2, IndexHNSWFlat
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore
from langchain_postgres import PGEngine, PGVector, PGVectorStore
from langchain_postgres.v2.engine import Column
from langchain_qdrant import QdrantVectorStore, RetrievalMode
from qdrant_client import QdrantClient, models

from dpicl_rag.accounting import Adjacency, Stability
from dpicl_rag.documents import group_by_unit
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.randomness import NotPrivateWarning
from dpicl_rag.retrieval import TopK
from langchain_dpicl_rag import PrivateRetrievalChain
from langchain_dpicl_rag.vector_stores import private_retriever
from tests.integrations.langchain.recorders import recording_handler
from tests.integrations.langchain.support import (
    QUESTION,
    WordEmbeddings,
    make_llm,
)
from tests.support import postgres as server
from tests.support.stores import seeded

TEXTS = [
    "Ann has zingpocket disease.",
    "Bob has the flu.",
    "Ann was cured of the zingpocket disease.",
    "What is the disease that Cid has?",
    "Dee is well.",
]
PATIENTS = ["ann", "bob", "ann", "cid", "zoe"]
FIELDS = [
    {"patient": name, "ward": ward} for name, ward in zip(PATIENTS, (1, 2, 1, 2, 1), strict=True)
]
LENGTH = 64


class LengthOne(WordEmbeddings):
    """Vectors that Qdrant does not round when it divides them by their length."""

    def embed_query(self, text: str) -> list[float]:
        row = np.asarray(super().embed_query(text), dtype=np.float32)
        for _ in range(8):
            row = row / np.linalg.norm(row)
        return [float(value) for value in row]


def pg_vector(folder: str, name: str, **options: Any) -> Any:
    with _silent():
        return PGVector(LengthOne(), connection=server.url(folder), collection_name=name, **options)


def pg_vector_store(folder: str, driver: str, name: str) -> Any:
    engine = PGEngine.from_connection_string(server.url(folder, driver))
    engine.init_vectorstore_table(name, LENGTH, metadata_columns=[Column("patient", "TEXT")])
    return PGVectorStore.create_sync(engine, LengthOne(), name, metadata_columns=["patient"])


def qdrant(**options: Any) -> Any:
    client = QdrantClient(":memory:")
    client.create_collection(
        "notes",
        vectors_config=models.VectorParams(
            size=LENGTH, distance=options.pop("distance", models.Distance.COSINE)
        ),
    )
    return QdrantVectorStore(client, "notes", LengthOne(), **options)


class Flat(VectorStore):
    """What is asked of ``FAISS`` of langchain_community, which warns that it is kept up no more."""

    def __init__(self, embeddings: Any, index: Any) -> None:
        self.embedding_function = embeddings
        self.index = index
        self.documents: dict[str, Document] = {}
        self.docstore = SimpleNamespace(search=lambda id: self.documents.get(id, "not found"))
        self.index_to_docstore_id: dict[int, str] = {}

    @property
    def embeddings(self) -> Any:
        return self.embedding_function

    def add_texts(self, texts: Any, metadatas: Any = None, *, ids: Any = None, **_: Any) -> Any:
        for text, fields, id in zip(texts, metadatas, ids, strict=True):
            self.index_to_docstore_id[self.index.ntotal] = id
            self.documents[id] = Document(text, metadata=fields)
            self.index.add(np.array([self.embeddings.embed_query(text)], dtype=np.float32))
        return ids

    def delete(self, ids: Any = None, **_: Any) -> None:
        self.index.remove_ids(np.array([list(self.documents).index(id) for id in ids]))
        self.documents = {id: d for id, d in self.documents.items() if id not in ids}
        self.index_to_docstore_id = dict(enumerate(self.documents))

    from_texts = None
    similarity_search = None


@pytest.fixture
def faiss(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    module = "langchain_community.vectorstores.faiss"
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(FAISS=Flat))
    return lambda index: Flat(LengthOne(), index)


@pytest.fixture(
    params=["PGVector", "PGVectorStore psycopg", "PGVectorStore asyncpg", "Qdrant", "FAISS"]
)
def store(request: pytest.FixtureRequest) -> Iterator[Any]:
    kind, *driver = request.param.split()
    name = f"notes_{uuid.uuid4().hex}"
    if kind == "PGVector":
        made = pg_vector(request.getfixturevalue("postgres"), name)
        yield filled(made)
        made._engine.dispose()
    elif kind == "PGVectorStore":
        made = pg_vector_store(request.getfixturevalue("postgres"), driver[0], name)
        yield filled(made)
        asyncio.run(made._engine.close())
    else:
        flat = request.getfixturevalue("faiss")
        yield filled(qdrant() if kind == "Qdrant" else flat(IndexFlatL2(LENGTH)))


def filled(store: Any) -> Any:
    store.add_texts(TEXTS, FIELDS, ids=[str(uuid.uuid4()) for _ in TEXTS])
    return store


@contextmanager
def _silent() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


@pytest.fixture
def chroma(tmp_path) -> Any:
    with _silent():
        return filled(Chroma("notes", LengthOne(), persist_directory=str(tmp_path)))


def found(store: Any, **options: Any) -> dict[str, list[str]]:
    retriever = private_retriever(store, unit_field="patient", **options)
    priced = retriever.within(0.5, Adjacency.ADD_OR_REMOVE_ONE)
    chosen = priced.search(QUESTION).choose(randomness=seeded())
    by_unit = group_by_unit(chosen.documents)
    return {unit: [d.text for d in documents] for unit, documents in by_unit.items()}


SEARCHES: list[dict[str, Any]] = [
    {"threshold": 0.3},
    {"threshold": -1.0},
    {"top_k": 2},
    {"top_k": 9},
    {"units": 2},
    {"threshold": 0.0, "where": {"ward": 1}},
    {"threshold": 0.0, "where": {"patient": {"$in": ["bob", "cid"]}}},
    {"top_k": 2, "where": {"$and": [{"ward": {"$gt": 1}}, {"patient": {"$ne": "bob"}}]}},
]


@pytest.mark.one_in(6)
def test_as_chroma(store: Any, chroma: Any) -> None:
    for search in SEARCHES:
        assert found(store, **search) == found(chroma, **search), search


@pytest.mark.one_in(6)
async def test_chains_answer_as_over_chroma(store: Any, chroma: Any, tiny_model: Any) -> None:
    def chain(source: Any) -> PrivateRetrievalChain:
        with pytest.warns(NotPrivateWarning):
            llm = make_llm(tiny_model, seed=3, privacy_unit="patient")
        return PrivateRetrievalChain(source, llm=llm, threshold=0.1)

    expected = chain(chroma).invoke(QUESTION)
    assert chain(store).invoke(QUESTION) == expected
    assert await chain(store).ainvoke(QUESTION) == expected
    assert "".join([piece async for piece in chain(store).astream(QUESTION)]) == expected


def test_neither_callbacks_nor_logs_are_told(
    store: Any, tiny_model: Any, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    probe = SimpleNamespace(see=lambda *what: told.append(repr(what)), see_error=None)
    llm = make_llm(tiny_model)
    chain = PrivateRetrievalChain(store, llm=llm, unit_field="patient", threshold=-1)
    with caplog.at_level(logging.DEBUG):
        chain.invoke(QUESTION, {"callbacks": [recording_handler(probe)]})
    assert QUESTION in " ".join(told)
    for secret in ("zingpocket", "cured", "zoe"):
        assert secret not in " ".join(told)
        assert secret not in caplog.text


def test_a_retriever_brings_its_k(store: Any) -> None:
    retriever = private_retriever(store.as_retriever(search_kwargs={"k": 2}), unit_field="patient")
    assert retriever.bar == TopK(2)
    assert retriever.stability == Stability(added=0, changed=1)
    assert len(group_by_unit(retriever.retrieve(QUESTION))) == 2


def test_the_unit_must_be_named(store: Any) -> None:
    with pytest.raises(ConfigurationError, match="which metadata field names the privacy unit"):
        private_retriever(store, threshold=0.3)


def test_deleted_is_gone_and_added_is_found(store: Any) -> None:
    retriever = private_retriever(store, unit_field="patient", threshold=-1)
    (id,) = store.add_texts(["Eve has it."], [{"patient": "eve"}], ids=[str(uuid.uuid4())])
    everybody = {"ann", "bob", "cid", "zoe", "eve"}
    assert {d.unit for d in retriever.retrieve(QUESTION)} == everybody
    store.delete([id])
    assert {d.unit for d in retriever.retrieve(QUESTION)} == everybody - {"eve"}


def test_collections_of_one_table_are_apart(postgres: str) -> None:
    one, two = (pg_vector(postgres, f"notes_{uuid.uuid4().hex}") for _ in range(2))
    one.add_texts(TEXTS[:1], FIELDS[:1])
    two.add_texts(TEXTS[1:2], FIELDS[1:2])
    assert list(found(one, threshold=-1)) == ["ann"]
    retriever = private_retriever(two, unit_field="patient", threshold=-1)
    assert [d.unit for d in retriever.retrieve(QUESTION)] == ["bob"]
    assert retriever.corpus_name == two.collection_name
    for store in (one, two):
        store._engine.dispose()


# Refusals


def test_asynchronous_engines_without_a_loop(postgres: str) -> None:
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(server.url(postgres))
    store = PGVector(LengthOne(), connection=engine, create_extension=False)
    with pytest.raises(ConfigurationError, match="async_mode=False"):
        private_retriever(store, unit_field="patient")
    made = pg_vector_store(postgres, "psycopg", f"notes_{uuid.uuid4().hex}")
    loop, made._engine._loop = made._engine._loop, None
    with pytest.raises(ConfigurationError, match="no event loop of its own"):
        private_retriever(made, unit_field="patient")
    made._engine._loop = loop
    asyncio.run(made._engine.close())


def test_qdrant_by_another_distance() -> None:
    store = qdrant(distance=models.Distance.DOT, validate_collection_config=False)
    with pytest.raises(ConfigurationError, match=r"Distance\.COSINE"):
        private_retriever(store, unit_field="patient", threshold=0.1).retrieve(QUESTION)


def test_qdrant_by_words() -> None:
    store = qdrant()
    store.retrieval_mode = RetrievalMode.HYBRID
    with pytest.raises(ConfigurationError, match=r"retrieval_mode=RetrievalMode\.DENSE"):
        private_retriever(store, unit_field="patient")


def test_approximate_faiss(faiss: Callable[..., Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"IndexHNSWFlat .* approximate"):
        private_retriever(faiss(IndexHNSWFlat(LENGTH, 8)), unit_field="patient")


def test_faiss_of_langchain() -> None:
    """The class itself, where it is installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        community = pytest.importorskip(
            "langchain_community.vectorstores.faiss", reason="langchain-community is not installed"
        )
        memory = pytest.importorskip("langchain_community.docstore.in_memory")
    store = community.FAISS(LengthOne(), IndexFlatL2(LENGTH), memory.InMemoryDocstore(), {})
    assert set(found(filled(store), threshold=0.3)) == {"ann", "cid"}
