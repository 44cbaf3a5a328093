"""dpicl-rag in LlamaIndex: nothing that LlamaIndex records holds private text.

The objects here hold no privacy logic. They hand questions and documents to
`dpicl_rag.PrivateContextLLM` and give back what it releases.
"""

from llama_index_dpicl_rag.chat_engine import PrivateChatEngine
from llama_index_dpicl_rag.embedding import PrivateEmbedding
from llama_index_dpicl_rag.function_tools import counting_tools
from llama_index_dpicl_rag.llm import PrivateLLM, PromptContextError
from llama_index_dpicl_rag.query_engine import PrivateQueryEngine
from llama_index_dpicl_rag.synthesizer import PrivateSynthesizer

__all__ = [
    "PrivateChatEngine",
    "PrivateEmbedding",
    "PrivateLLM",
    "PrivateQueryEngine",
    "PrivateSynthesizer",
    "PromptContextError",
    "counting_tools",
]
