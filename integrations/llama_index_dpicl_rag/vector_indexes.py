"""Vector indexes of LlamaIndex, searched exactly, an embedding model, and published bundles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Unpack

from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding, Embedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from llama_index.core.vector_stores.utils import metadata_dict_to_node

from dpicl_rag.answering.worker_threads import in_steps, in_worker
from dpicl_rag.corpora import Corpus
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.framework_bridge import (
    ExactKind,
    FrameworkEmbedder,
    SearchOptions,
    exact_kind,
    private_search,
)
from dpicl_rag.knowledge import Bundle
from dpicl_rag.loaders.framework_documents import SOURCE_FIELD, fields_of_node
from dpicl_rag.retrieval import UNITS, Retriever, refuse_approximate
from dpicl_rag.retrieval.embeddings import Embedder, SentenceTransformerEmbedder
from dpicl_rag.retrieval.stored_record import NO_TEXT, Defect, StoredRecord, record_of
from dpicl_rag.retrieval.vectors import VectorSource
from dpicl_rag.stores.cached_vectors import InMemoryVectors
from dpicl_rag.stores.faiss import FaissRecord, FaissVectors
from dpicl_rag.stores.pg_statements import Table
from dpicl_rag.stores.pgvector import PgVectors
from dpicl_rag.stores.qdrant import QdrantVectors
from llama_index_dpicl_rag.recorder import Unrecorded


def embedder_of(model: BaseEmbedding) -> FrameworkEmbedder:
    """The embedding model of an index, for questions only: handlers would see passages."""
    return FrameworkEmbedder(f"llama-index/{model.model_name}", model.get_query_embedding)


def private_retriever(
    source: Any, units: int = UNITS, **options: Unpack[SearchOptions]
) -> Retriever:
    """A retriever with a known stability; see ``PrivateQueryEngine`` for the arguments.

    Raises:
        ConfigurationError: The source searches approximately or is of no known kind, or the
            settings do not fit it.
    """
    return private_search(source, _vectors, units, **options)


def _vectors(index: Any, unit_field: str | None) -> VectorSource:
    if isinstance(index, (BaseRetriever, BasePydanticVectorStore)):
        refuse_approximate(type(index).__name__)
    if not isinstance(index, VectorStoreIndex):
        raise ConfigurationError(
            "retriever must be a retriever of dpicl_rag (derive your own from ExactRetriever), a "
            f"Corpus or a VectorStoreIndex, not {type(index).__name__}"
        )
    unit_field = SOURCE_FIELD if unit_field is None else unit_field
    store = index.vector_store
    # LlamaIndex has no public way from an index to its embedding model.
    embedder = embedder_of(index._embed_model)
    if (exact := exact_kind(store, _KINDS)) is not None:
        return exact[2](index, unit_field, embedder)
    if not isinstance(store, SimpleVectorStore):
        refuse_approximate(type(store).__name__)

    def read() -> Iterator[tuple[StoredRecord | Defect, list[float]]]:
        for id, vector in dict(store.data.embedding_dict).items():
            node = index.docstore.get_document(id, raise_error=False)
            if node is None:
                yield Defect(id, NO_TEXT), vector
                continue
            # The node's own text, without its metadata.
            text = node.get_content(metadata_mode=MetadataMode.NONE)
            yield record_of(node.node_id, fields_of_node(node), text, unit_field), vector

    return InMemoryVectors(embedder, read, unit_field)


def _chroma(index: VectorStoreIndex, unit_field: str, embedder: Embedder) -> VectorSource:
    collection: Any = index.vector_store.client
    return Corpus.from_collection(collection, unit_field=unit_field, embedder=embedder)


def _postgres(index: VectorStoreIndex, unit_field: str, embedder: Embedder) -> VectorSource:
    store: Any = index.vector_store
    if store._customize_query_fn is not None:
        raise ConfigurationError(
            "customize_query_fn has no exact counterpart; leave it out, and filter by where="
        )
    store._initialize()  # as each of its own searches does
    table = Table(
        f"data_{store.table_name}",
        schema=store.schema_name,
        id="node_id",
        text="text",
        vector="embedding",
        metadata="metadata_",
    )
    return PgVectors(
        store._engine, table, unit_field=unit_field, embedder=embedder, name=store.table_name
    )


def _qdrant(index: VectorStoreIndex, unit_field: str, embedder: Embedder) -> VectorSource:
    store: Any = index.vector_store
    if store._client is None:
        raise ConfigurationError(
            "this QdrantVectorStore has an asynchronous client alone; give it client= as well"
        )

    def text(payload: Mapping[str, Any]) -> object:
        try:
            node = metadata_dict_to_node(dict(payload))
        except Exception:  # whatever a record holds, it is left out and stops nothing
            return payload.get(store.text_key)
        return node.get_content(metadata_mode=MetadataMode.NONE)

    return QdrantVectors(
        store._client,
        store.collection_name,
        unit_field=unit_field,
        embedder=embedder,
        metadata=None,
        text=text,
        vector=store.dense_vector_name,
    )


def _faiss(index: VectorStoreIndex, unit_field: str, embedder: Embedder) -> VectorSource:
    store: Any = index.vector_store
    # A map store knows the nodes of its ids; for the other, the index does.
    nodes: Any = getattr(store, "_faiss_id_to_node_id_map", None)

    def entry(place: int) -> FaissRecord | None:
        id = index.index_struct.nodes_dict.get(str(place)) if nodes is None else nodes.get(place)
        node = None if id is None else index.docstore.get_document(id, raise_error=False)
        if node is None:
            return None
        text = node.get_content(metadata_mode=MetadataMode.NONE)
        return FaissRecord(node.node_id, fields_of_node(node), text)

    return FaissVectors(store.client, entry, unit_field=unit_field, embedder=embedder)


_KINDS: tuple[ExactKind, ...] = (
    ("llama_index.vector_stores.chroma", "ChromaVectorStore", _chroma),
    ("llama_index.vector_stores.postgres", "PGVectorStore", _postgres),
    ("llama_index.vector_stores.qdrant", "QdrantVectorStore", _qdrant),
    ("llama_index.vector_stores.faiss", "FaissVectorStore", _faiss),
)


class PrivateEmbedding(Unrecorded, BaseEmbedding):
    """An embedder of ``dpicl_rag`` as the ``embed_model`` of an index.

    LlamaIndex's own embedding classes hand every text that they embed to event handlers, spans and
    callbacks, and embed in batches, where texts move the last bits of each other's vectors. In
    this one a vector has the same bits in any company, and nothing is reported.

    Args:
        embedder: The embedder; the packaged all-MiniLM-L6-v2 if None.
        **fields: Further fields of LlamaIndex's ``BaseEmbedding``.
    """

    _embedder: Embedder = PrivateAttr()

    def __init__(self, embedder: Embedder | None = None, **fields: Any) -> None:
        embedder = embedder or SentenceTransformerEmbedder()
        super().__init__(**{"model_name": embedder.fingerprint, **fields})
        self._embedder = embedder

    @classmethod
    def class_name(cls) -> str:
        """Name of the class in LlamaIndex's records."""
        return "PrivateEmbedding"

    def get_text_embedding(self, text: str) -> Embedding:
        """Embed a passage."""
        return self._get_text_embedding(text)

    aget_text_embedding = in_worker(get_text_embedding)

    def get_text_embedding_batch(
        self, texts: list[str], show_progress: bool = False, **kwargs: Any
    ) -> list[Embedding]:
        """Embed passages."""
        return self._get_text_embeddings(texts)

    aget_text_embedding_batch = in_worker(get_text_embedding_batch)

    def _get_query_embedding(self, query: str) -> Embedding:
        vector: Embedding = self._embedder.embed([query], query=True)[0].tolist()
        return vector

    async def _aget_query_embedding(self, query: str) -> Embedding:
        return await in_steps(self._get_query_embedding, query)

    def _get_text_embedding(self, text: str) -> Embedding:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        vectors: list[Embedding] = self._embedder.embed(texts).tolist()
        return vectors


class PublishedNodeRetriever(BaseRetriever):
    """A retriever over a bundle of ``dpicl-rag publish``. What it finds is public and free.

    Any model may read it, and anything may record it. ``RetrieverTool`` makes a tool of it.

    Args:
        bundle: See `Bundle.open`.
        similarity_top_k: Most items found.
    """

    def __init__(self, bundle: Bundle, similarity_top_k: int = 4) -> None:
        super().__init__()
        self._bundle = bundle
        self._most = similarity_top_k

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        near = self._bundle.nearest(query_bundle.query_str, self._most)
        return [
            NodeWithScore(node=TextNode(text=one.whole_text, metadata=self._bundle.fields_of(one)))
            for one in near
        ]
