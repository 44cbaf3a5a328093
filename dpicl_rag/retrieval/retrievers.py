"""Searches by name: a threshold, the k nearest, either by noisy counts, counted and sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn, TypedDict, Unpack

from dpicl_rag import _validate
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval.base import Retriever
from dpicl_rag.retrieval.search import Search, as_search
from dpicl_rag.retrieval.search_bars import (
    COARSE,
    FINE,
    THRESHOLD,
    UNITS,
    NoisyThreshold,
    NoisyTopK,
    Threshold,
    TopK,
)
from dpicl_rag.retrieval.vectors import VectorSource, Where


class SearchOptions(TypedDict, total=False):
    """What any search may be made with; see `Search`."""

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
        units: How many units to aim for if nothing else is set. Those nearest to the question pass
            a private threshold, and are thinned to about this number.
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
    return PrivateThresholdRetriever(source, units, thin_to=units, where=where)


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
