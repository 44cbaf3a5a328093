"""Vector stores that LangChain users have, as retrievers inside the guarantee."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore, VectorStoreRetriever

from dpicl_rag.errors import ConfigurationError, CorpusError
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
from langchain_dpicl_rag.embeddings import embedder_of

_RECORD = "document"  # the unit field that makes each record a unit


def private_retriever(
    source: Any,
    *,
    unit_field: str | None,
    threshold: float | None = None,
    k: int | None = None,
    where: Where | None = None,
) -> Retriever:
    """A retriever with a known stability over ``source``.

    Args:
        source: A core retriever, a ``langchain_chroma.Chroma``, an ``InMemoryVectorStore``, or what
            ``as_retriever()`` makes of these with plain similarity search.
        unit_field: Metadata field that holds the privacy unit; ``"document"`` makes each record a
            unit. A core retriever has its own.
        threshold: Least cosine of a unit with the question.
        k: Most units, in place of a threshold.
        where: Metadata filter, for Chroma. Public.

    Raises:
        ConfigurationError: The source searches approximately or is of no known kind, or the
            settings do not fit it.
    """
    if hasattr(source, "retrieve") and hasattr(source, "stability"):
        settings = {"threshold": threshold, "k": k, "where": where}
        given = [name for name, value in settings.items() if value is not None]
        if given:
            raise ConfigurationError(
                f"{', '.join(given)}: the retriever that is given decides on this itself"
            )
        return source  # type: ignore[no-any-return]
    if isinstance(source, VectorStoreRetriever):
        if threshold is None and k is None and where is None:
            k, where = _search_of(source)
        source = source.vectorstore
    if isinstance(source, BaseRetriever):
        refuse_approximate(type(source).__name__)
    vectors = _vectors(source, unit_field)
    if threshold is not None and k is not None:
        raise ConfigurationError("give a threshold or k, not both")
    if k is not None:
        return TopKRetriever(vectors, k, where=where)
    if threshold is not None:
        return ThresholdRetriever(vectors, threshold, where=where)
    return ThresholdRetriever(vectors, where=where)


class _InMemoryVectors:
    """All vectors of an ``InMemoryVectorStore``."""

    def __init__(self, store: InMemoryVectorStore, unit_field: str) -> None:
        self._store = store
        self._unit_field = unit_field
        self._embedder = embedder_of(store.embedding)

    def __repr__(self) -> str:
        return "InMemoryVectorStore(<private>)"

    def embed_question(self, question: str) -> npt.NDArray[np.float32]:
        vector: npt.NDArray[np.float32] = self._embedder.embed([question], query=True)[0]
        return vector

    def snapshot(self, where: Where | None = None) -> Snapshot:
        if where is not None:
            raise ConfigurationError("a filter needs a Chroma store")
        rows = list(self._store.store.values())
        return Snapshot([self._record(row) for row in rows], [row["vector"] for row in rows])

    def _record(self, row: dict[str, Any]) -> Record:
        metadata = {key: str(value) for key, value in row["metadata"].items()}
        if self._unit_field == _RECORD:
            unit = row["id"]
        elif self._unit_field in metadata:
            unit = metadata[self._unit_field]
        else:
            raise CorpusError(
                f"a record of the store has no metadata field {self._unit_field!r}, which is the "
                "privacy unit; every record needs it"
            )
        return Record(row["id"], unit, row["text"], metadata)


def _vectors(store: Any, unit_field: str | None) -> VectorSource:
    from langchain_chroma import Chroma

    if not isinstance(store, VectorStore):
        raise ConfigurationError(
            f"retriever must be a retriever or a vector store, not {type(store).__name__}"
        )
    if not isinstance(store, (Chroma, InMemoryVectorStore)):
        refuse_approximate(type(store).__name__)
    if unit_field is None:
        raise ConfigurationError(
            "say which metadata field names the privacy unit, for example unit_field='source': "
            "records that share its value are protected together. unit_field='document' protects "
            "each record by itself, which is right where no document was split"
        )
    if isinstance(store, InMemoryVectorStore):
        return _InMemoryVectors(store, unit_field)
    if store.embeddings is None:
        raise ConfigurationError(
            "the Chroma store has no embedding_function, so no question can be embedded; open it "
            "with the one that it was filled with"
        )
    return Corpus.from_collection(
        store._collection, unit_field=unit_field, embedder=embedder_of(store.embeddings)
    )


def _search_of(retriever: VectorStoreRetriever) -> tuple[int, Where | None]:
    """Number of results and filter of a plain similarity search."""
    options = dict(retriever.search_kwargs)
    k, where = options.pop("k", 4), options.pop("filter", None)
    if retriever.search_type != "similarity" or options:
        raise ConfigurationError(
            "only plain similarity search with k and filter has an exact counterpart; hand over "
            "the vector store itself, with threshold= or k="
        )
    return k, where
