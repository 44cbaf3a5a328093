"""Private answers in LangChain: drop-ins that never hand documents to callbacks, caches or traces.

`PrivateRetrievalChain` is the one to start with: it owns the retriever, so documents never cross
an edge between Runnables. The models and `PrivateCombineDocuments` take documents from the caller
and keep them out of everything that LangChain records about their own run.
"""

from dpicl_rag._packaged import missing

try:
    from langchain_dpicl_rag.chains import (
        PrivateCombineDocuments,
        PrivateRetrievalChain,
        counting_tools,
    )
    from langchain_dpicl_rag.private_models import ChatPrivateContext, PrivateLLM
    from langchain_dpicl_rag.vector_stores import PrivateEmbeddings, PublishedRetriever
except ModuleNotFoundError as error:
    raise missing(error.name, "langchain-dpicl-rag") from None

__all__ = [
    "ChatPrivateContext",
    "PrivateCombineDocuments",
    "PrivateEmbeddings",
    "PrivateLLM",
    "PrivateRetrievalChain",
    "PublishedRetriever",
    "counting_tools",
]
