"""Retrievers by name, and over whatever a caller gives: a list, a corpus, or a retriever."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NoReturn, TypedDict, Unpack

import numpy as np

from dpicl_rag import _validate
from dpicl_rag._other_libraries import LLAMA_INDEX
from dpicl_rag._unobserved import Private
from dpicl_rag.accounting import DIRECT, Stability
from dpicl_rag.configuration import UNITS
from dpicl_rag.documents import Document, group_by_unit, readable_documents
from dpicl_rag.errors import ConfigurationError, MissingDocumentsError
from dpicl_rag.loaders.framework_documents import FrameworkDocument, as_library_documents
from dpicl_rag.loaders.shared_keys import identified, identify, is_tied
from dpicl_rag.retrieval.base import ExactRetriever, Retriever
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.search import Search, as_search
from dpicl_rag.retrieval.search_bars import (
    COARSE,
    FINE,
    THRESHOLD,
    Everything,
    NoisyThreshold,
    NoisyTopK,
    Threshold,
    TopK,
)
from dpicl_rag.retrieval.unit_vectors import UnitVectors, UnitVectorSource
from dpicl_rag.retrieval.vectors import VectorSource, Where, on_grid

Documents = Iterable[Document | str | FrameworkDocument] | VectorSource | Retriever
"""Documents, plain strings (one unit each), documents of LangChain or LlamaIndex, a corpus, or a
retriever to fetch them with."""


_TOP_K = Stability(added=0, changed=1)


class SearchOptions(TypedDict, total=False):
    """Options of any search; see `Search`."""

    where: Where | None
    passages_per_unit: int | None
    sigma: float | None
    thin_to: int | None
    rate: float


def ThresholdRetriever(
    source: VectorSource, threshold: float = THRESHOLD, **options: Unpack[SearchOptions]
) -> Search:
    """A search for every unit that reaches a public cosine; see `Threshold`."""
    return Search(source, Threshold(threshold), **options)


def TopKRetriever(source: VectorSource, units: int, **options: Unpack[SearchOptions]) -> Search:
    """A search for the nearest units, at twice the charge; see `TopK`."""
    return Search(source, TopK(units), **options)


def PrivateThresholdRetriever(
    source: VectorSource,
    units: int = UNITS,
    *,
    thresholds: Sequence[float] = COARSE,
    **options: Unpack[SearchOptions],
) -> Search:
    """A search for about ``units`` units, by a noisy threshold; see `NoisyThreshold`."""
    return Search(source, NoisyThreshold(units, thresholds), **options)


def PrivateTopKRetriever(
    source: VectorSource,
    units: int,
    *,
    thresholds: Sequence[float] = FINE,
    **options: Unpack[SearchOptions],
) -> Search:
    """A search for about ``units`` units, by a noisy k-th score; see `NoisyTopK`."""
    return Search(source, NoisyTopK(units, thresholds), **options)


def CountedRetriever(
    retriever: Retriever, sigma: float | None = None, *, thin_to: int | None = None
) -> Search:
    """A search without a price, whose number of units found is released with noise.

    Args:
        retriever: Where the units come from. One without a price: the others count themselves.
        sigma: See `Search`.
        thin_to: See `Search`.

    Raises:
        ConfigurationError: ``sigma`` is not above 0, ``thin_to`` is below 1, or the retriever
            counts already.
    """
    search = as_search(retriever)
    if not search.exact:
        raise ConfigurationError(
            "this retriever releases a count of its own, or samples; count before sampling"
        )
    return replace(search, counted=True, sigma=sigma, thin_to=thin_to)


def PoissonSampledRetriever(retriever: Retriever, rate: float) -> Search:
    """A search whose units are kept by coins of their own, at a public rate.

    Args:
        retriever: Where the units come from.
        rate: Probability of keeping a unit, above 0 and at most 1.

    Raises:
        ConfigurationError: The rate is out of range.
    """
    _validate.rate("rate", rate)
    search = as_search(retriever)
    return replace(search, rate=search.rate * rate)


def retriever_over(
    source: VectorSource,
    *,
    units: int = UNITS,
    threshold: float | None = None,
    top_k: int | None = None,
    where: Where | None = None,
) -> Search:
    """The search for what a caller set.

    Args:
        source: Where the vectors are.
        units: How many units to aim for if nothing else is set: about this number of the nearest
            passes a private threshold.
        threshold: Least cosine, in place of that; see `Threshold`.
        top_k: The nearest units, so many, in place of that; see `TopK`.
        where: Chroma filter on metadata, applied first. Public.

    Raises:
        ConfigurationError: Both ``threshold`` and ``top_k`` are set, or one is out of range.
    """
    if threshold is not None and top_k is not None:
        raise ConfigurationError("give a threshold or top_k, not both")
    if threshold is not None:
        return ThresholdRetriever(source, threshold, where=where)
    if top_k is not None:
        return TopKRetriever(source, top_k, where=where)
    return PrivateThresholdRetriever(source, units, where=where)


def refuse_approximate(source: str) -> NoReturn:
    """Refuse a search whose results are approximate or already cut to the best n.

    Args:
        source: Public name of what was offered, such as its class.

    Raises:
        ConfigurationError: Always.
    """
    raise ConfigurationError(
        f"{source} cannot be used inside the privacy guarantee: a vector store's own search is "
        "approximate (HNSW and the like), so the arrival of one document can reroute the search "
        "for all others, and no charge covers that. Stores over Chroma, pgvector, Qdrant and flat "
        "FAISS are searched exactly; of these hand over the store itself, or a Chroma collection "
        "by Corpus.from_collection"
    )


class GivenDocuments(ExactRetriever, Private):
    """A list that is handed over, whatever is asked.

    Args:
        documents: Documents, or strings, each a unit of its own. Read at the search.
        stability: How many units of the list the arrival of one unit in the corpus adds and
            changes.
        privacy_unit: ``"document"``, or the metadata field whose value makes one unit. A document
            without it is left out: an error would tell that it is there. `as_documents` checks.
    """

    stability = DIRECT

    def __init__(
        self,
        documents: Iterable[Document | str | FrameworkDocument],
        stability: Stability = DIRECT,
        privacy_unit: str = "document",
    ) -> None:
        self.stability = stability
        self._documents = documents
        self._privacy_unit = privacy_unit

    def retrieve(self, question: str) -> list[Document]:
        """Return the list, with documents that share a key in one unit.

        Raises:
            ConfigurationError: An item is of a kind that no document has, or is of a framework and
                no field names its unit.
        """
        field = None if self._privacy_unit == "document" else self._privacy_unit
        documents = readable_documents(
            as_library_documents(self._documents, field), self._privacy_unit
        )
        if any(map(is_tied, documents)):
            return identified(documents, identify(documents, {}).units)
        return documents


def stability_of_list(stability: Stability | None, unit_field: str) -> Stability:
    """The reach of one unit's arrival into a list that the search of another library cut.

    Args:
        stability: What the caller says.
        unit_field: Where the privacy unit of a passage stands; ``"document"`` makes each its own.

    Returns:
        What the caller says, or that of the k nearest passages where each is a unit: one comes and
        one goes.

    Raises:
        ConfigurationError: The caller says nothing, and a unit may have several passages.
    """
    if stability is not None:
        return stability
    if unit_field == "document":
        return _TOP_K
    raise ConfigurationError(
        f"say with stability= how far one unit reaches into the list: units by {unit_field!r} may "
        "have several passages each, and one that arrives takes the place of as many others. "
        "Stability(added=0, changed=k) covers a search for the k nearest passages, "
        "Stability(added=1, changed=0) a threshold or a fixed list"
    )


def as_retriever(
    documents: Documents, privacy_unit: str = "document", units: int = UNITS
) -> Search:
    """A search of whatever a caller gave; nothing is looked at yet.

    Args:
        documents: What the caller gave.
        privacy_unit: Of a list.
        units: How many units of a corpus to aim for, see `retriever_over`.

    Raises:
        ConfigurationError: ``documents`` is no list and no retriever, or a retriever that decides
            on the privacy unit itself.
        MissingDocumentsError: ``documents`` is None.
    """
    if documents is None:
        raise MissingDocumentsError(
            "no documents were given; pass a list (an empty one asks the public model)"
        )
    if isinstance(documents, VectorSource):
        documents = retriever_over(documents, units=units)
    if isinstance(documents, Retriever):
        if privacy_unit != "document":
            raise ConfigurationError(
                "a retriever scores the units of its corpus, so the privacy unit is chosen when "
                "documents are put there; leave privacy_unit out"
            )
        return as_search(documents)
    kind = "one string" if isinstance(documents, str) else type(documents).__name__
    if hasattr(documents, "as_query_engine") or hasattr(documents, "as_retriever"):
        raise ConfigurationError(
            f"{kind} is no list of documents; {LLAMA_INDEX}; in LangChain take "
            "PrivateRetrievalChain(store, llm=llm, unit_field=...)"
        )
    if hasattr(documents, "retrieve"):
        raise ConfigurationError(
            f"{kind} does not say how far one unit reaches; derive it from "
            f"dpicl_rag.retrieval.ExactRetriever and declare its stability; {LLAMA_INDEX}"
        )
    if isinstance(documents, str) or not isinstance(documents, Iterable):
        raise ConfigurationError(
            f"documents must be a list, not {kind}; pass a list of documents, or a retriever such "
            "as ThresholdRetriever(corpus)"
        )
    return Search(GivenDocuments(documents, privacy_unit=privacy_unit))


def corpus_name_of(documents: Documents) -> str | None:
    """The name of the corpus that documents are from; None of a list. Public."""
    if isinstance(documents, Retriever):
        return documents.corpus_name or None
    if isinstance(documents, VectorSource | UnitVectorSource):
        name: str | None = getattr(documents, "name", None)
        return name or None
    return None


def all_units(documents: Documents, privacy_unit: str = "document") -> Search:
    """A search of whatever a caller gave that leaves no unit out; of a corpus all come.

    Raises:
        ConfigurationError: As in `as_retriever`.
        MissingDocumentsError: ``documents`` is None.
    """
    if isinstance(documents, VectorSource):
        documents = Search(documents)
    return as_retriever(documents, privacy_unit)


def whole_of(documents: Documents) -> Documents:
    """All that a search for an answer looks in, which is what a count is of.

    Units that reach a public bar are such a whole, as a list is.

    Raises:
        ConfigurationError: They are a part that another search has cut.
    """
    if not isinstance(documents, Retriever):
        return documents
    search = as_search(documents)
    if isinstance(search.source, VectorSource):
        if search.exact and isinstance(search.bar, (Everything, Threshold)):
            return documents
        return search.source if search.where is None else Search(search.source, where=search.where)
    if search.stability != DIRECT:
        raise ConfigurationError(
            "a count is of all documents, and these are a part that a search has found; give the "
            "corpus or store itself, or ask for an answer all the same (kind='answer')"
        )
    return documents


def shaped_by(search: Search) -> tuple[object, ...] | None:
    """Public numbers that decide, with its filter, what a search finds in its documents.

    Returns:
        None where noise, coins, other units or a retriever of its own decide too.
    """
    listed = isinstance(search.source, GivenDocuments)
    if not search.exact or (isinstance(search.source, Retriever) and not listed):
        return None
    match search.bar, search.passages_per_unit:
        case Threshold(threshold=threshold), most:
            return threshold, most
        case Everything(), None:
            return ()
    return None


def vectors_of(
    documents: Documents, embedder: Embedder, privacy_unit: str = "document"
) -> UnitVectors:
    """The vectors of all units of what a caller gave: those that are stored, or of a list new ones.

    Raises:
        ConfigurationError: ``documents`` is a search, which finds a part of the units.
        MissingDocumentsError: ``documents`` is None.
    """
    if isinstance(documents, UnitVectorSource):
        return documents.unit_vectors()
    found = as_retriever(documents, privacy_unit)
    listed = isinstance(found.source, GivenDocuments) and found.exact
    if not listed or found.stability != DIRECT:
        # What a search has cut moves by more than the unit that comes.
        raise ConfigurationError(
            "all units are surveyed, by their stored vectors; give a corpus, a Chroma collection, "
            "or a list of documents"
        )
    units = group_by_unit(found.retrieve(""))
    texts = [passage.text for passages in units.values() for passage in passages]
    numbers = [at for at, passages in enumerate(units.values()) for _ in passages]
    vectors = on_grid(embedder.embed(texts)) if texts else np.zeros((0, 1), dtype=np.float32)
    return UnitVectors(vectors, np.array(numbers, dtype=np.int64), dict(enumerate(units)))
