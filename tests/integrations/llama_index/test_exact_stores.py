"""LlamaIndex indexes over pgvector, Qdrant and FAISS find what one over Chroma finds."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.schema import TextNode
from llama_index.vector_stores.faiss import FaissMapVectorStore, FaissVectorStore
from llama_index.vector_stores.postgres import PGVectorStore
from llama_index.vector_stores.qdrant import QdrantVectorStore
from qdrant_client import AsyncQdrantClient, QdrantClient

from dpicl_rag.accounting import Adjacency
from dpicl_rag.documents import group_by_unit
from dpicl_rag.errors import ConfigurationError
from llama_index_dpicl_rag import PrivateQueryEngine
from llama_index_dpicl_rag.vector_indexes import private_retriever
from tests.integrations.llama_index.support import (
    QUESTION,
    TEXTS,
    HashEmbedding,
    chroma_index,
    instrumented,
    nodes_of,
    private_llm,
)
from tests.support import postgres as server
from tests.support.stores import seeded

LENGTH = 16
SENDERS = [{"sender": name, "year": year} for name, year in zip("abab", (1, 2, 3, 4), strict=True)]
KINDS = ["postgres", "postgres jsonb", "postgres hnsw", "Qdrant", "FAISS", "FAISS with ids"]


class LengthOne(HashEmbedding):
    """Vectors that Qdrant does not round when it divides them by their length."""

    def _get_text_embedding(self, text: str) -> list[float]:
        row = np.asarray(super()._get_text_embedding(text), dtype=np.float32)
        for _ in range(8):
            row = row / np.linalg.norm(row)
        return [float(value) for value in row]


def nodes() -> list[TextNode]:
    made = nodes_of(TEXTS, SENDERS)
    for number, node in enumerate(made):
        node.id_ = str(uuid.UUID(int=number + 1))  # the only ids that Qdrant takes
    return made


def indexed(store: Any) -> VectorStoreIndex:
    storage = StorageContext.from_defaults(vector_store=store)
    return VectorStoreIndex(nodes=nodes(), storage_context=storage, embed_model=LengthOne())


@pytest.fixture(params=KINDS)
def index(request: pytest.FixtureRequest) -> Iterator[VectorStoreIndex]:
    kind = request.param
    if kind.startswith("postgres"):
        store = postgres_store(request.getfixturevalue("postgres"), kind)
        yield indexed(store)
        asyncio.run(store.close())
    elif kind == "Qdrant":
        yield indexed(
            QdrantVectorStore("notes", client=QdrantClient(":memory:"), index_doc_id=False)
        )
    elif kind == "FAISS":
        yield indexed(FaissVectorStore(faiss.IndexFlatL2(LENGTH)))
    else:
        yield indexed(FaissMapVectorStore(faiss.IndexIDMap2(faiss.IndexFlatIP(LENGTH))))


def postgres_store(folder: str, kind: str = "", **options: Any) -> PGVectorStore:
    hnsw = {"hnsw_m": 4, "hnsw_ef_construction": 8, "hnsw_ef_search": 1}
    return PGVectorStore.from_params(
        connection_string=server.url(folder, "psycopg2"),
        async_connection_string=server.url(folder, "asyncpg"),
        table_name=f"notes_{uuid.uuid4().hex}",
        embed_dim=LENGTH,
        use_jsonb="jsonb" in kind,
        hnsw_kwargs=hnsw if "hnsw" in kind else None,
        **options,
    )


@pytest.fixture
def chroma(tmp_path: Path) -> VectorStoreIndex:
    return chroma_index(tmp_path, nodes(), LengthOne())


def found(index: VectorStoreIndex, **options: Any) -> dict[str, list[str]]:
    retriever = private_retriever(index, **options)
    priced = retriever.within(0.5, Adjacency.ADD_OR_REMOVE_ONE)
    chosen = priced.search(QUESTION).choose(randomness=seeded())
    by_unit = group_by_unit(chosen.documents)
    return {unit: [d.text for d in documents] for unit, documents in by_unit.items()}


SEARCHES: list[dict[str, Any]] = [
    {"threshold": 0.1},
    {"threshold": -1.0},
    {"top_k": 2},
    {"units": 2},
    {"threshold": -1.0, "where": {"sender": "a"}},
    {"top_k": 1, "where": {"year": {"$gte": 3}}},
]


@pytest.mark.one_in(6)
def test_as_chroma(index: VectorStoreIndex, tmp_path: Path) -> None:
    for place, unit in enumerate(({}, {"unit_field": "document"})):
        chroma = chroma_index(tmp_path / str(place), nodes(), LengthOne())
        for search in SEARCHES:
            assert found(index, **unit, **search) == found(chroma, **unit, **search), search


def test_units_of_several_nodes(index: VectorStoreIndex) -> None:
    assert {u: len(t) for u, t in found(index, threshold=-1, unit_field="sender").items()} == {
        "a": 2,
        "b": 2,
    }


@pytest.mark.one_in(6)
async def test_engines_answer_as_over_chroma(
    index: VectorStoreIndex, chroma: VectorStoreIndex, tiny_model: Any
) -> None:
    def engine(source: VectorStoreIndex) -> PrivateQueryEngine:
        return PrivateQueryEngine(private_llm(tiny_model, seed=5), source, threshold=-1)

    expected = engine(chroma).query(QUESTION)
    assert engine(index).query(QUESTION) == expected
    assert await engine(index).aquery(QUESTION) == expected


def test_neither_handlers_nor_logs_are_told(
    index: VectorStoreIndex, tiny_model: Any, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []
    engine = PrivateQueryEngine(private_llm(tiny_model), index, threshold=-1)
    with caplog.at_level(logging.DEBUG), instrumented(lambda *what: told.append(repr(what))):
        engine.query(QUESTION)
    assert any(QUESTION in each for each in told)
    for secret in ("Elm", "Yew", "source-"):
        assert secret not in " ".join(told)
        assert secret not in caplog.text


def test_an_index_that_is_opened_again(postgres: str) -> None:
    store = postgres_store(postgres)
    indexed(store)
    again = VectorStoreIndex.from_vector_store(store, embed_model=LengthOne())
    assert len(found(again, threshold=-1)) == len(TEXTS)
    asyncio.run(store.close())


# Refusals


def test_a_query_of_ones_own(postgres: str) -> None:
    store = postgres_store(postgres, customize_query_fn=lambda query, *rest: query)
    index = VectorStoreIndex.from_vector_store(store, embed_model=LengthOne())
    with pytest.raises(ConfigurationError, match="customize_query_fn has no exact counterpart"):
        private_retriever(index)


def test_an_asynchronous_client_alone() -> None:
    store = QdrantVectorStore("notes", aclient=AsyncQdrantClient(":memory:"))
    index = VectorStoreIndex.from_vector_store(store, embed_model=LengthOne())
    with pytest.raises(ConfigurationError, match="give it client= as well"):
        private_retriever(index)


@pytest.mark.parametrize("kind", ["HNSW8,Flat", "IVF1,Flat", "SQ8", "PCA8,Flat"])
def test_approximate_faiss(kind: str) -> None:
    store = FaissVectorStore(faiss.index_factory(LENGTH, kind))
    storage = StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex(nodes=[], storage_context=storage, embed_model=LengthOne())
    with pytest.raises(ConfigurationError, match="approximate"):
        private_retriever(index)
