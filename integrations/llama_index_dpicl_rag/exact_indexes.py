"""LlamaIndex indexes over pgvector, Qdrant and FAISS, searched exactly."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.schema import MetadataMode
from llama_index.core.vector_stores.utils import metadata_dict_to_node

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.loaders.framework_documents import fields_of_node
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.vectors import VectorSource
from dpicl_rag.stores.faiss import FaissRecord, FaissVectors
from dpicl_rag.stores.pg_statements import Table
from dpicl_rag.stores.pgvector import PgVectors
from dpicl_rag.stores.qdrant import QdrantVectors


def exact_source(
    index: VectorStoreIndex, unit_field: str, embedder: Embedder
) -> VectorSource | None:
    """An index over a store of a kind whose search can be exact, or None.

    Args:
        index: Any index.
        unit_field: Metadata field that holds the privacy unit.
        embedder: The model that the index was filled with.

    Raises:
        ConfigurationError: The store is of such a kind, and set so that its search is not exact,
            or not to be had.
    """
    for module, kind, make in _KINDS:
        # Nobody has a store of a package that was not imported.
        found = getattr(sys.modules.get(module), kind, None)
        if found is not None and isinstance(index.vector_store, found):
            source: VectorSource = make(index, unit_field, embedder)
            return source
    return None


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


_KINDS = (
    ("llama_index.vector_stores.postgres", "PGVectorStore", _postgres),
    ("llama_index.vector_stores.qdrant", "QdrantVectorStore", _qdrant),
    ("llama_index.vector_stores.faiss", "FaissVectorStore", _faiss),
)
