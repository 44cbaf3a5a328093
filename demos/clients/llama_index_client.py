"""A served corpus as a language model of LlamaIndex.

``python -m demos.clients.llama_index_client http://127.0.0.1:8321/v1 mail "When does it open?"``;
the key is in OPENAI_API_KEY.
"""

from __future__ import annotations

import os
import sys

from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike


def main(url: str, corpus: str, question: str) -> None:
    """Print an answer as it comes."""
    key = os.environ.get("OPENAI_API_KEY", "none")
    llm = OpenAILike(model=corpus, api_base=url, api_key=key, is_chat_model=True, max_retries=0)
    for piece in llm.stream_chat([ChatMessage(role="user", content=question)]):
        print(piece.delta, end="", flush=True)
    print()


if __name__ == "__main__":
    main(*sys.argv[1:])
