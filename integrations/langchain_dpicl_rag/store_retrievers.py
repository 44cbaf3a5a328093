"""Vector stores that LangChain users have, as retrievers inside the guarantee."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore, VectorStoreRetriever

from dpicl_rag.corpora import Corpus
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval import UNITS, Retriever, refuse_approximate, retriever_over
from dpicl_rag.retrieval.stored_record import Defect, StoredRecord, record_of
from dpicl_rag.retrieval.vectors import VectorSource, Where
from dpicl_rag.stores.in_memory import InMemoryVectors
from langchain_dpicl_rag.embedding_models import embedder_of
from langchain_dpicl_rag.exact_stores import exact_source
from langchain_dpicl_rag.sealed_documents import named


def private_retriever(
    source: Any,
    *,
    unit_field: str | None = None,
    threshold: float | None = None,
    top_k: int | None = None,
    where: Where | None = None,
    units: int = UNITS,
) -> Retriever:
    """A retriever with a known stability over ``source``.

    Args:
        source: Any retriever of ``dpicl_rag``, a ``dpicl_rag.Corpus``, a
            ``langchain_chroma.Chroma``, an ``InMemoryVectorStore``, a store over pgvector, Qdrant
            or flat FAISS, or what ``as_retriever()`` makes of these stores with plain similarity
            search.
        unit_field: For stores, the metadata field that holds the privacy unit; ``"document"`` makes
            each record a unit.
        threshold: For stores and corpora, the least cosine of a unit with the question.
        top_k: For stores and corpora, the most units, in place of a threshold.
        where: For corpora and all stores but ``InMemoryVectorStore``, a Chroma metadata filter.
            Public.
        units: How many of the closest units are aimed for, by a private search, where neither
            ``threshold`` nor ``top_k`` is given.

    Raises:
        ConfigurationError: The source searches approximately or is of no known kind, or the
            settings do not fit it.
    """
    if isinstance(source, Retriever):
        if (unit_field, threshold, top_k, where) != (None,) * 4:
            raise ConfigurationError(
                "leave out privacy_unit, unit_field, threshold, top_k and where: they belong to "
                "the retriever that is given"
            )
        return source
    if isinstance(source, VectorStoreRetriever):
        if threshold is None and top_k is None and where is None:
            top_k, where = _search_of(source)
        source = source.vectorstore
    if isinstance(source, BaseRetriever):
        refuse_approximate(type(source).__name__)
    vectors = _vectors(source, unit_field)
    return retriever_over(vectors, units=units, threshold=threshold, top_k=top_k, where=where)


def _vectors(store: Any, unit_field: str | None) -> VectorSource:
    from langchain_chroma import Chroma

    if isinstance(store, VectorSource):
        if unit_field is not None:
            raise ConfigurationError(
                "leave out privacy_unit and unit_field: a corpus knows its units"
            )
        return store
    if not isinstance(store, VectorStore):
        raise ConfigurationError(
            "retriever must be a retriever of dpicl_rag (derive your own from ExactRetriever), a "
            f"Corpus or a vector store, not {type(store).__name__}"
        )
    if (source := exact_source(store, unit_field)) is not None:
        return source
    if not isinstance(store, (Chroma, InMemoryVectorStore)):
        refuse_approximate(type(store).__name__)
    unit_field = named(unit_field)
    if isinstance(store, InMemoryVectorStore):
        return _in_memory(store, unit_field)
    if store.embeddings is None:
        raise ConfigurationError(
            "the Chroma store has no embedding_function, so no question can be embedded; open it "
            "with the one that it was filled with"
        )
    return Corpus.from_collection(
        store._collection, unit_field=unit_field, embedder=embedder_of(store.embeddings)
    )


def _in_memory(store: InMemoryVectorStore, unit_field: str) -> InMemoryVectors:
    def read() -> Iterator[tuple[StoredRecord | Defect, list[float]]]:
        for row in list(store.store.values()):
            yield record_of(row["id"], row["metadata"], row["text"], unit_field), row["vector"]

    return InMemoryVectors(embedder_of(store.embedding), read)


def _search_of(retriever: VectorStoreRetriever) -> tuple[int | None, Where | None]:
    """Number of results, where its maker said one, and filter of a plain similarity search."""
    options = dict(retriever.search_kwargs)
    # LangChain's own default, 4, is for a prompt that holds all of them; no answer follows 4 units.
    top_k, where = options.pop("k", None), options.pop("filter", None)
    if retriever.search_type != "similarity" or options:
        raise ConfigurationError(
            "only plain similarity search with k and filter has an exact counterpart; hand over "
            "the vector store itself, with threshold= or top_k="
        )
    return top_k, where
