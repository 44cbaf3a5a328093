"""dpicl-rag in LlamaIndex: nothing that LlamaIndex records holds private text.

The objects here hold no privacy logic. They hand questions and documents to
`dpicl_rag.PrivateContextLLM` and give back what it releases.
"""

from dpicl_rag._packaged import missing

try:
    from llama_index_dpicl_rag.engines import PrivateChatEngine, PrivateQueryEngine, counting_tools
    from llama_index_dpicl_rag.llm import PrivateLLM, PromptContextError
    from llama_index_dpicl_rag.synthesizer import PrivateSynthesizer
    from llama_index_dpicl_rag.vector_indexes import PrivateEmbedding, PublishedNodeRetriever
except ModuleNotFoundError as error:
    raise missing(error.name, "llama-index-dpicl-rag") from None

__all__ = [
    "PrivateChatEngine",
    "PrivateEmbedding",
    "PrivateLLM",
    "PrivateQueryEngine",
    "PrivateSynthesizer",
    "PromptContextError",
    "PublishedNodeRetriever",
    "counting_tools",
]
