"""A served corpus as a chat model of LangChain.

``python -m demos.clients.langchain_client http://127.0.0.1:8321/v1 mail "When does it open?"``; the
key is in OPENAI_API_KEY.
"""

from __future__ import annotations

import os
import sys

from langchain_openai import ChatOpenAI


def main(url: str, corpus: str, question: str) -> None:
    """Print an answer as it comes."""
    key = os.environ.get("OPENAI_API_KEY", "none")
    # A retry may spend again: a refused budget stays refused.
    chat = ChatOpenAI(base_url=url, api_key=key, model=corpus, max_retries=0)
    for piece in chat.stream(question):
        print(piece.content, end="", flush=True)
    print()


if __name__ == "__main__":
    main(*sys.argv[1:])
