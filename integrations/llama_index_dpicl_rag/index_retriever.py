"""Exact retrieval over the vectors of a LlamaIndex index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from llama_index.vector_stores.chroma import ChromaVectorStore

from dpicl_rag.corpora import Corpus
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.loaders.framework_documents import SOURCE_FIELD
from dpicl_rag.retrieval import UNITS, Retriever, refuse_approximate, retriever_over
from dpicl_rag.retrieval.stored_record import NO_TEXT, Defect, StoredRecord
from dpicl_rag.retrieval.vectors import VectorSource, Where
from dpicl_rag.stores.in_memory import InMemoryVectors
from llama_index_dpicl_rag.exact_indexes import exact_source
from llama_index_dpicl_rag.nodes import record_of_node


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

    def embed(self, texts: Sequence[str], *, query: bool = False) -> npt.NDArray[np.float32]:
        """Embed questions, float32, one row for each.

        Raises:
            ConfigurationError: The texts are not questions. LlamaIndex would hand them to every
                event handler.
        """
        if not query:
            raise ConfigurationError("an index embeds its own nodes; insert them into the index")
        vectors = [self._model.get_query_embedding(text) for text in texts]
        return np.asarray(vectors, dtype=np.float32)


def private_retriever(
    source: Any,
    *,
    unit_field: str | None = None,
    threshold: float | None = None,
    top_k: int | None = None,
    where: Where | None = None,
    units: int = UNITS,
) -> Retriever:
    """A retriever with a known stability; see ``PrivateQueryEngine`` for the arguments.

    Raises:
        ConfigurationError: The source searches approximately or is of no known kind, or the
            settings do not fit it.
    """
    if isinstance(source, Retriever):
        if (unit_field, threshold, top_k, where) != (None,) * 4:
            raise ConfigurationError(
                "leave out unit_field, threshold, top_k and where: they belong to the retriever "
                "that is given"
            )
        return source
    if isinstance(source, (BaseRetriever, BasePydanticVectorStore)):
        refuse_approximate(type(source).__name__)
    vectors = _vectors(source, unit_field)
    return retriever_over(vectors, units=units, threshold=threshold, top_k=top_k, where=where)


def _vectors(index: Any, unit_field: str | None) -> VectorSource:
    if isinstance(index, VectorSource):
        if unit_field is not None:
            raise ConfigurationError("leave out unit_field: a corpus knows its units")
        return index
    if not isinstance(index, VectorStoreIndex):
        raise ConfigurationError(
            "retriever must be a retriever of dpicl_rag (derive your own from ExactRetriever), a "
            f"Corpus or a VectorStoreIndex, not {type(index).__name__}"
        )
    return _of_index(index, SOURCE_FIELD if unit_field is None else unit_field)


def _of_index(index: VectorStoreIndex, unit_field: str) -> VectorSource:
    store = index.vector_store
    # LlamaIndex has no public way from an index to its embedding model.
    embedder = IndexEmbedder(index._embed_model)
    if isinstance(store, ChromaVectorStore):
        return Corpus.from_collection(store.client, unit_field=unit_field, embedder=embedder)
    if (source := exact_source(index, unit_field, embedder)) is not None:
        return source
    if not isinstance(store, SimpleVectorStore):
        refuse_approximate(type(store).__name__)

    def read() -> Iterator[tuple[StoredRecord | Defect, list[float]]]:
        for id, vector in dict(store.data.embedding_dict).items():
            node = index.docstore.get_document(id, raise_error=False)
            yield Defect(id, NO_TEXT) if node is None else record_of_node(node, unit_field), vector

    return InMemoryVectors(embedder, read)
