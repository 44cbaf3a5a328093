"""Retrieval inside the guarantee: exact scores over all vectors, by privacy unit."""

from dpicl_rag.retrieval.base import Retriever
from dpicl_rag.retrieval.corpus import Corpus
from dpicl_rag.retrieval.exact import ThresholdRetriever, TopKRetriever, refuse_approximate

__all__ = [
    "Corpus",
    "Retriever",
    "ThresholdRetriever",
    "TopKRetriever",
    "refuse_approximate",
]
