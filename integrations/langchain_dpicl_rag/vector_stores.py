"""Vector stores of LangChain, searched exactly, its embedding models, and published bundles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Unpack

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore, VectorStoreRetriever

from dpicl_rag.corpora import Corpus
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.framework_bridge import (
    ExactKind,
    FrameworkEmbedder,
    SearchOptions,
    exact_kind,
    private_search,
)
from dpicl_rag.loaders.framework_documents import refuse_without_field
from dpicl_rag.retrieval import UNITS, Retriever, refuse_approximate
from dpicl_rag.retrieval.embeddings import Embedder, SentenceTransformerEmbedder
from dpicl_rag.retrieval.stored_record import Defect, StoredRecord, record_of
from dpicl_rag.retrieval.vectors import VectorSource
from dpicl_rag.stores.cached_vectors import InMemoryVectors
from dpicl_rag.stores.faiss import FaissRecord, FaissVectors
from dpicl_rag.stores.pg_statements import Table
from dpicl_rag.stores.pgvector import Connect, PgVectors, connecting_through
from dpicl_rag.stores.qdrant import QdrantVectors


def private_retriever(
    source: Any, units: int = UNITS, **options: Unpack[SearchOptions]
) -> Retriever:
    """A retriever with a known stability over ``source``.

    Args:
        source: Any retriever of ``dpicl_rag``, a ``dpicl_rag.Corpus``, a
            ``langchain_chroma.Chroma``, an ``InMemoryVectorStore``, a store over pgvector, Qdrant
            or flat FAISS, or what ``as_retriever()`` makes of these stores with plain similarity
            search.
        units: How many of the closest units are aimed for, by a private search, where neither
            ``threshold`` nor ``top_k`` is given.
        **options: As in `PrivateRetrievalChain`.

    Raises:
        ConfigurationError: The source searches approximately or is of no known kind, or the
            settings do not fit it.
    """
    if isinstance(source, VectorStoreRetriever):
        if all(value is None for name, value in options.items() if name != "unit_field"):
            options = {**options, **_search_of(source)}
        source = source.vectorstore
    return private_search(source, _vectors, units, **options)


def _vectors(store: Any, unit_field: str | None) -> VectorSource:
    if isinstance(store, BaseRetriever):
        refuse_approximate(type(store).__name__)
    if not isinstance(store, VectorStore):
        raise ConfigurationError(
            "retriever must be a retriever of dpicl_rag (derive your own from ExactRetriever), a "
            f"Corpus or a vector store, not {type(store).__name__}"
        )
    exact = exact_kind(store, _KINDS)
    if exact is None and not isinstance(store, InMemoryVectorStore):
        refuse_approximate(type(store).__name__)
    if store.embeddings is None:
        raise ConfigurationError(
            f"the {type(store).__name__} store has no embeddings, so no question can be embedded; "
            "open it with those that it was filled with"
        )
    if unit_field is None:
        refuse_without_field()
    make = _in_memory if exact is None else exact[2]
    return make(store, unit_field, embedder_of(store.embeddings))


def _chroma(store: Any, unit_field: str, embedder: Embedder) -> VectorSource:
    # LangChain has no public way from the store to its collection.
    return Corpus.from_collection(store._collection, unit_field=unit_field, embedder=embedder)


def _in_memory(store: Any, unit_field: str, embedder: Embedder) -> VectorSource:
    def read() -> Iterator[tuple[StoredRecord | Defect, list[float]]]:
        for row in list(store.store.values()):
            yield record_of(row["id"], row["metadata"], row["text"], unit_field), row["vector"]

    return InMemoryVectors(embedder, read, unit_field)


def _search_of(retriever: VectorStoreRetriever) -> SearchOptions:
    """Number of results, where its maker said one, and filter of a plain similarity search."""
    options = dict(retriever.search_kwargs)
    # LangChain's own default, 4, is for a prompt that holds all of them; no answer follows 4 units.
    top_k, where = options.pop("k", None), options.pop("filter", None)
    if retriever.search_type != "similarity" or options:
        raise ConfigurationError(
            "only plain similarity search with k and filter has an exact counterpart; hand over "
            "the vector store itself, with threshold= or top_k="
        )
    return {"top_k": top_k, "where": where}


def _pg_vector(store: Any, unit_field: str, embedder: Embedder) -> VectorSource:
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
        embedder=embedder,
        name=store.collection_name,
    )


def _pg_vector_store(store: Any, unit_field: str, embedder: Embedder) -> VectorSource:
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
        embedder=embedder,
    )


def _through(engine: Any) -> Connect:
    if engine._loop is None:
        raise ConfigurationError(
            "this PGEngine has no event loop of its own; make it with from_connection_string, or "
            "give from_engine the loop that runs it"
        )
    return connecting_through(engine._pool, engine._run_as_sync)


def _qdrant(store: Any, unit_field: str, embedder: Embedder) -> VectorSource:
    if store.retrieval_mode != "dense":
        raise ConfigurationError(
            "thresholds are cosines of dense vectors; open the Qdrant store with "
            "retrieval_mode=RetrievalMode.DENSE"
        )
    return QdrantVectors(
        store.client,
        store.collection_name,
        unit_field=unit_field,
        embedder=embedder,
        metadata=store.metadata_payload_key,
        text=store.content_payload_key,
        vector=store.vector_name,
    )


def _faiss(store: Any, unit_field: str, embedder: Embedder) -> VectorSource:
    def entry(place: int) -> FaissRecord | None:
        id = store.index_to_docstore_id.get(place)
        document = None if id is None else store.docstore.search(id)
        if not isinstance(document, Document):
            return None
        return FaissRecord(id, document.metadata, document.page_content)

    return FaissVectors(store.index, entry, unit_field=unit_field, embedder=embedder)


_KINDS: tuple[ExactKind, ...] = (
    ("langchain_chroma", "Chroma", _chroma),
    ("langchain_postgres.vectorstores", "PGVector", _pg_vector),
    ("langchain_postgres.v2.vectorstores", "PGVectorStore", _pg_vector_store),
    ("langchain_qdrant", "QdrantVectorStore", _qdrant),
    ("langchain_community.vectorstores.faiss", "FAISS", _faiss),
)


class PrivateEmbeddings(Embeddings):
    """An embedder of ``dpicl_rag`` as LangChain embeddings, for filling a store.

    A vector has the same bits whatever other texts are embedded with it; in ordinary batches texts
    move the last bits of each other's vectors.

    Args:
        embedder: The embedder; the packaged all-MiniLM-L6-v2 if None.
    """

    def __init__(self, embedder: Embedder | None = None) -> None:
        self.embedder = embedder or SentenceTransformerEmbedder()

    def __repr__(self) -> str:
        return f"PrivateEmbeddings({self.embedder!r})"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed passages."""
        vectors: list[list[float]] = self.embedder.embed(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Embed a question."""
        vector: list[float] = self.embedder.embed([text], query=True)[0].tolist()
        return vector


def embedder_of(embeddings: Embeddings) -> Embedder:
    """The core embedder behind LangChain embeddings."""
    if isinstance(embeddings, PrivateEmbeddings):
        return embeddings.embedder
    return FrameworkEmbedder(
        f"langchain/{type(embeddings).__qualname__}",  # LangChain tells no more
        embeddings.embed_query,
        lambda text: embeddings.embed_documents([text])[0],
    )


class PublishedRetriever(BaseRetriever):
    """A retriever over a bundle of ``dpicl-rag publish``. What it finds is public and free.

    Any model may read it, and anything may record it. ``create_retriever_tool`` makes a tool of it.

    Attributes:
        bundle: A ``dpicl_rag.Bundle``.
        k: Most items found.
    """

    bundle: Any  # a dataclass would be taken for a model of fields, and copied
    k: int = 4

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        near = self.bundle.nearest(query, self.k)
        return [Document(item.whole_text, metadata=self.bundle.fields_of(item)) for item in near]
