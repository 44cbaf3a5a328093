"""Private answers in LangChain: drop-ins that never hand documents to callbacks, caches or traces.

`PrivateRetrievalChain` is the one to start with: it owns the retriever, so documents never cross
an edge between Runnables. The models and `PrivateCombineDocuments` take documents from the caller
and keep them out of everything that LangChain records about their own run.
"""

from langchain_dpicl_rag.chains import PrivateCombineDocuments, PrivateRetrievalChain
from langchain_dpicl_rag.chat_model import ChatPrivateContext
from langchain_dpicl_rag.embedding_models import PrivateEmbeddings
from langchain_dpicl_rag.structured_tools import counting_tools
from langchain_dpicl_rag.text_model import PrivateLLM

__all__ = [
    "ChatPrivateContext",
    "PrivateCombineDocuments",
    "PrivateEmbeddings",
    "PrivateLLM",
    "PrivateRetrievalChain",
    "counting_tools",
]
