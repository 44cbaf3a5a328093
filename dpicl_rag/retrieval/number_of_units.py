"""How many units a search aims at: read from what is public, and limited."""

from __future__ import annotations

from dataclasses import replace

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval.base import Priced, Retriever, WrappedRetriever
from dpicl_rag.retrieval.counted import CountedRetriever
from dpicl_rag.retrieval.exact import TopKRetriever
from dpicl_rag.retrieval.poisson import PoissonSampledRetriever
from dpicl_rag.retrieval.private_threshold import PrivateThresholdRetriever
from dpicl_rag.retrieval.private_top_k import PrivateTopKRetriever


def aimed_at(retriever: object) -> int | None:
    """About how many units a search finds at most; None where only the documents tell."""
    match retriever:
        case TopKRetriever():
            return retriever.units
        case PrivateThresholdRetriever() | PrivateTopKRetriever():
            return retriever.thin_to or retriever.units
        case CountedRetriever(thin_to=int(most)):
            return most
        case PoissonSampledRetriever():
            inner = aimed_at(retriever.retriever)
            return None if inner is None else int(inner * retriever.rate)
        case WrappedRetriever():
            return aimed_at(retriever.retriever)
    return None


def limited(retriever: Retriever, most: int) -> Retriever:
    """The same search, aiming at no more units than that, by coins at a rate from a noisy count.

    What passes is near to ``most`` and no nearer than noise and coins allow: a search that keeps to
    a number tells what it found.

    Args:
        retriever: The search.
        most: At least 1.

    Raises:
        ConfigurationError: The search finds a number of its own that is larger, or counts in a way
            of its own.
    """
    match retriever:
        case TopKRetriever():
            if retriever.units > most:
                raise ConfigurationError(
                    f"the {retriever.units} nearest units are asked for, and max_calls allows "
                    f"{most}; lower top_k, or raise max_calls"
                )
            return retriever
        case PrivateThresholdRetriever() | PrivateTopKRetriever():
            return replace(retriever, thin_to=min(most, retriever.thin_to or most))
        case CountedRetriever():
            most = min(most, retriever.thin_to or most)
            return CountedRetriever(retriever.retriever, retriever.sigma, thin_to=most)
        case PoissonSampledRetriever():
            return PoissonSampledRetriever(limited(retriever.retriever, most), retriever.rate)
        case Priced():
            raise ConfigurationError(
                "max_calls cannot thin what this retriever finds; leave it out"
            )
    return CountedRetriever(retriever, thin_to=most)
