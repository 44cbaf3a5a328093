"""Retrieval inside the guarantee: exact scores over all vectors, by privacy unit."""

from dpicl_rag.retrieval.base import Retriever
from dpicl_rag.retrieval.corpus import Corpus
from dpicl_rag.retrieval.exact import ThresholdRetriever, TopKRetriever, refuse_approximate
from dpicl_rag.retrieval.private import PrivateRetriever
from dpicl_rag.retrieval.private_threshold import PrivateThresholdRetriever
from dpicl_rag.retrieval.private_top_k import PrivateTopKRetriever
from dpicl_rag.retrieval.sampling import PoissonSampledRetriever
from dpicl_rag.retrieval.score_histogram import (
    ScoreHistogram,
    score_histograms,
    suggest_threshold,
)

__all__ = [
    "Corpus",
    "PoissonSampledRetriever",
    "PrivateRetriever",
    "PrivateThresholdRetriever",
    "PrivateTopKRetriever",
    "Retriever",
    "ScoreHistogram",
    "ThresholdRetriever",
    "TopKRetriever",
    "refuse_approximate",
    "score_histograms",
    "suggest_threshold",
]
