"""Retrieval inside the guarantee: exact scores over all vectors, by privacy unit."""

from dpicl_rag.configuration import UNITS
from dpicl_rag.retrieval.base import Candidates, ExactRetriever, Retrieved, Retriever
from dpicl_rag.retrieval.retrievers import (
    CountedRetriever,
    Documents,
    GivenDocuments,
    PoissonSampledRetriever,
    PrivateThresholdRetriever,
    PrivateTopKRetriever,
    ThresholdRetriever,
    TopKRetriever,
    as_retriever,
    refuse_approximate,
    retriever_over,
    stability_of_list,
)
from dpicl_rag.retrieval.score_histogram import (
    ScoreHistogram,
    score_histograms,
    suggest_threshold,
)
from dpicl_rag.retrieval.search import Search
from dpicl_rag.retrieval.search_bars import (
    Everything,
    NoisyThreshold,
    NoisyTopK,
    Threshold,
    TopK,
)

__all__ = [
    "UNITS",
    "Candidates",
    "CountedRetriever",
    "Documents",
    "Everything",
    "ExactRetriever",
    "GivenDocuments",
    "NoisyThreshold",
    "NoisyTopK",
    "PoissonSampledRetriever",
    "PrivateThresholdRetriever",
    "PrivateTopKRetriever",
    "Retrieved",
    "Retriever",
    "ScoreHistogram",
    "Search",
    "Threshold",
    "ThresholdRetriever",
    "TopK",
    "TopKRetriever",
    "as_retriever",
    "refuse_approximate",
    "retriever_over",
    "score_histograms",
    "stability_of_list",
    "suggest_threshold",
]
