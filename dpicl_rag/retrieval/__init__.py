"""Retrieval inside the guarantee: exact scores over all vectors, by privacy unit."""

from dpicl_rag.retrieval.base import Retriever
from dpicl_rag.retrieval.corpus import Corpus
from dpicl_rag.retrieval.exact import ThresholdRetriever, TopKRetriever, refuse_approximate
from dpicl_rag.retrieval.sampling import PoissonSampledRetriever

__all__ = [
    "Corpus",
    "PoissonSampledRetriever",
    "Retriever",
    "ThresholdRetriever",
    "TopKRetriever",
    "refuse_approximate",
]
