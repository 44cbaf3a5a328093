"""Retrieval inside the guarantee: exact scores over all vectors, by privacy unit."""

from dpicl_rag.retrieval.base import ExactRetriever, Retrieved, Retriever, Search
from dpicl_rag.retrieval.counted import CountedRetriever
from dpicl_rag.retrieval.exact import (
    ThresholdRetriever,
    TopKRetriever,
    refuse_approximate,
)
from dpicl_rag.retrieval.given import (
    UNITS,
    Documents,
    GivenDocuments,
    as_retriever,
    retriever_over,
    stability_of_list,
)
from dpicl_rag.retrieval.poisson import PoissonSampledRetriever
from dpicl_rag.retrieval.private_threshold import PrivateThresholdRetriever
from dpicl_rag.retrieval.private_top_k import PrivateTopKRetriever
from dpicl_rag.retrieval.score_histogram import (
    ScoreHistogram,
    score_histograms,
    suggest_threshold,
)

__all__ = [
    "UNITS",
    "CountedRetriever",
    "Documents",
    "ExactRetriever",
    "GivenDocuments",
    "PoissonSampledRetriever",
    "PrivateThresholdRetriever",
    "PrivateTopKRetriever",
    "Retrieved",
    "Retriever",
    "ScoreHistogram",
    "Search",
    "ThresholdRetriever",
    "TopKRetriever",
    "as_retriever",
    "refuse_approximate",
    "retriever_over",
    "score_histograms",
    "stability_of_list",
    "suggest_threshold",
]
