"""Exact retrieval over the vectors of a LlamaIndex index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import MetadataMode
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.vector_stores.chroma import ChromaVectorStore

from dpicl_rag.embeddings import Progress
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval import (
    Corpus,
    Retriever,
    ThresholdRetriever,
    TopKRetriever,
    refuse_approximate,
)
from dpicl_rag.retrieval.corpus import Where
from dpicl_rag.retrieval.exact import VectorSource
from dpicl_rag.retrieval.passages import Record
from dpicl_rag.retrieval.vectors import Snapshot
from llama_index_dpicl_rag.nodes import unit_of


class IndexEmbedder:
    """The embedding model of an index, for questions only.

    Args:
        model: The model that the index was filled with.
    """

    def __init__(self, model: BaseEmbedding) -> None:
        self._model = model

    def __repr__(self) -> str:
        return f"IndexEmbedder({self._model.model_name!r})"

    @property
    def fingerprint(self) -> str:
        """Name of the model."""
        return f"llama-index/{self._model.model_name}"

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self.embed(["."], query=True).shape[1])

    def embed(
        self, texts: Sequence[str], on_progress: Progress | None = None, *, query: bool = False
    ) -> npt.NDArray[np.float32]:
        """Embed questions, float32 of shape ``[len(texts), dimension]``.

        Raises:
            ConfigurationError: The texts are not questions. LlamaIndex would hand them to every
                event handler.
        """
        if not query:
            raise ConfigurationError("an index embeds its own nodes; insert them into the index")
        vectors = [self._model.get_query_embedding(text) for text in texts]
        return np.asarray(vectors, dtype=np.float32)


class SimpleVectors:
    """The vectors of an index that keeps them in memory (``SimpleVectorStore``).

    Args:
        index: The index.
        store: Its vector store.
        unit_field: Metadata field of the privacy unit; see ``as_documents``.
    """

    def __init__(self, index: VectorStoreIndex, store: SimpleVectorStore, unit_field: str) -> None:
        self._index = index
        self._store = store
        self._unit_field = unit_field
        self._embedder = _embedder(index)

    def __repr__(self) -> str:
        return "SimpleVectors()"

    def embed_question(self, question: str) -> npt.NDArray[np.float32]:
        """Embedding of a question, shape ``[dimension]``."""
        vector: npt.NDArray[np.float32] = self._embedder.embed([question], query=True)[0]
        return vector

    def snapshot(self, where: Where | None = None) -> Snapshot:
        """All nodes as they are now.

        Raises:
            ConfigurationError: There is a filter, or a node lacks the unit's field.
        """
        if where is not None:
            raise ConfigurationError("where needs a Chroma collection; keep the nodes in one")
        vectors = dict(self._store.data.embedding_dict)
        nodes = self._index.docstore.get_nodes(list(vectors))
        records = [
            Record(
                node.node_id,
                unit_of(node, self._unit_field),
                node.get_content(metadata_mode=MetadataMode.NONE),
            )
            for node in nodes
        ]
        return Snapshot(records, np.asarray(list(vectors.values()), dtype=np.float32))


def exact_retriever(
    source: Any,
    *,
    unit_field: str,
    threshold: float | None = None,
    top_k: int | None = None,
    where: Where | None = None,
) -> Retriever:
    """The retriever to use for what a caller gave.

    Args:
        source: A retriever of ``dpicl_rag.retrieval``, or an index on a ``ChromaVectorStore`` or a
            ``SimpleVectorStore``.
        unit_field: For an index: see ``as_documents``.
        threshold: For an index: least cosine.
        top_k: For an index: most units, in place of a threshold.
        where: For an index on Chroma: filter on metadata.

    Raises:
        ConfigurationError: The source searches approximately or cannot say how stable it is, or
            an option does not go with it.
    """
    if not isinstance(source, VectorStoreIndex):
        if not isinstance(source, Retriever):
            refuse_approximate(type(source).__name__)
        if (threshold, top_k, where) != (None, None, None):
            raise ConfigurationError("threshold, top_k and where belong to the retriever given")
        return source
    if threshold is not None and top_k is not None:
        raise ConfigurationError("give a threshold or top_k, not both")
    vectors = _vectors(source, unit_field)
    if top_k is not None:
        return TopKRetriever(vectors, top_k, where=where)
    if threshold is not None:
        return ThresholdRetriever(vectors, threshold, where=where)
    return ThresholdRetriever(vectors, where=where)


def _vectors(index: VectorStoreIndex, unit_field: str) -> VectorSource:
    store = index.vector_store
    if isinstance(store, ChromaVectorStore):
        return Corpus.from_collection(
            store.client, unit_field=unit_field, embedder=_embedder(index)
        )
    if not isinstance(store, SimpleVectorStore):
        refuse_approximate(type(store).__name__)
    return SimpleVectors(index, store, unit_field)


def _embedder(index: VectorStoreIndex) -> IndexEmbedder:
    # LlamaIndex has no public way from an index to its embedding model.
    return IndexEmbedder(index._embed_model)
