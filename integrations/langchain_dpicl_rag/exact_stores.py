"""LangChain's stores over pgvector, Qdrant and FAISS, searched exactly."""

from __future__ import annotations

import sys
from typing import Any

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval.vectors import VectorSource
from dpicl_rag.stores.faiss import FaissRecord, FaissVectors
from dpicl_rag.stores.pg_statements import Table
from dpicl_rag.stores.pgvector import Connect, PgVectors, connecting_through
from dpicl_rag.stores.qdrant import QdrantVectors
from langchain_dpicl_rag.embedding_models import embedder_of
from langchain_dpicl_rag.sealed_documents import named


def exact_source(store: VectorStore, unit_field: str | None) -> VectorSource | None:
    """A store of a kind whose search can be exact, or None.

    Args:
        store: Any store of LangChain.
        unit_field: Metadata field that holds the privacy unit.

    Raises:
        ConfigurationError: ``unit_field`` is None, or the store is of such a kind and set so that
            its search is not exact, or not to be had.
    """
    for module, kind, make in _KINDS:
        # Nobody has a store of a package that was not imported.
        found = getattr(sys.modules.get(module), kind, None)
        if found is not None and isinstance(store, found):
            if store.embeddings is None:
                raise ConfigurationError(
                    f"the {kind} store has no embeddings, so no question can be embedded; open it "
                    "with those that it was filled with"
                )
            source: VectorSource = make(store, named(unit_field))
            return source
    return None


def _pg_vector(store: Any, unit_field: str) -> VectorSource:
    if store._engine is None:
        raise ConfigurationError(
            "this PGVector store has an asynchronous engine; open it with async_mode=False, or use "
            "PGVectorStore"
        )
    table = Table(
        "langchain_pg_embedding",
        id="id",
        text="document",
        vector="embedding",
        metadata="cmetadata",
        condition=(
            "collection_id = (SELECT uuid FROM langchain_pg_collection WHERE name = :collection)"
        ),
        parameters={"collection": store.collection_name},
    )
    return PgVectors(
        store._engine,
        table,
        unit_field=unit_field,
        embedder=embedder_of(store.embeddings),
        name=store.collection_name,
    )


def _pg_vector_store(store: Any, unit_field: str) -> VectorSource:
    # LangChain has no public way from the store to its table.
    inner = store._PGVectorStore__vs
    table = Table(
        inner.table_name,
        schema=inner.schema_name,
        id=inner.id_column,
        text=inner.content_column,
        vector=inner.embedding_column,
        metadata=inner.metadata_json_column or None,
        columns=tuple(inner.metadata_columns),
    )
    return PgVectors(
        _through(store._engine),
        table,
        unit_field=unit_field,
        embedder=embedder_of(store.embeddings),
    )


def _through(engine: Any) -> Connect:
    if engine._loop is None:
        raise ConfigurationError(
            "this PGEngine has no event loop of its own; make it with from_connection_string, or "
            "give from_engine the loop that runs it"
        )
    return connecting_through(engine._pool, engine._run_as_sync)


def _qdrant(store: Any, unit_field: str) -> VectorSource:
    if store.retrieval_mode != "dense":
        raise ConfigurationError(
            "thresholds are cosines of dense vectors; open the Qdrant store with "
            "retrieval_mode=RetrievalMode.DENSE"
        )
    return QdrantVectors(
        store.client,
        store.collection_name,
        unit_field=unit_field,
        embedder=embedder_of(store.embeddings),
        metadata=store.metadata_payload_key,
        text=store.content_payload_key,
        vector=store.vector_name,
    )


def _faiss(store: Any, unit_field: str) -> VectorSource:
    def entry(place: int) -> FaissRecord | None:
        id = store.index_to_docstore_id.get(place)
        document = None if id is None else store.docstore.search(id)
        if not isinstance(document, Document):
            return None
        return FaissRecord(id, document.metadata, document.page_content)

    return FaissVectors(
        store.index, entry, unit_field=unit_field, embedder=embedder_of(store.embeddings)
    )


_KINDS = (
    ("langchain_postgres.vectorstores", "PGVector", _pg_vector),
    ("langchain_postgres.v2.vectorstores", "PGVectorStore", _pg_vector_store),
    ("langchain_qdrant", "QdrantVectorStore", _qdrant),
    ("langchain_community.vectorstores.faiss", "FAISS", _faiss),
)
