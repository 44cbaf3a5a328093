"""What the LangChain tests share."""

from __future__ import annotations

import hashlib
import logging
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings

from dpicl_rag import Ledger, PrivateContextLLM, PromptTemplate

QUESTION = "What is the disease?"
TEMPLATE = PromptTemplate(system="Answer.", examples=(), answer_prefix="It is")
"""Short, and with a public beginning, so that no answer of a random model is empty."""


class WordEmbeddings(Embeddings):
    """Bags of words hashed to a few dimensions; a text's vector depends on that text alone."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        vector = np.zeros(64)
        for word in text.casefold().split():
            vector[int.from_bytes(hashlib.sha256(word.encode()).digest()[:2], "big") % 64] += 1.0
        return list(map(float, vector / (np.linalg.norm(vector) or 1.0)))


def make_llm(model: Any, **settings: Any) -> PrivateContextLLM:
    """A private language model on the tiny model, with short answers, shown as they are drawn."""
    made = {"max_tokens": 8, "unsupported": "mark", **settings}
    return PrivateContextLLM(model, template=TEMPLATE, **made)


def spent(ledger: Ledger, corpus: str = "default") -> float:
    """Rho of zCDP that a corpus was charged."""
    return next(s.spent for s in ledger.status() if s.kind == "corpus" and s.name == corpus)


def chroma_store(folder: Any, texts: list[str], patients: list[str] | None = None) -> Any:
    """A collection as a LangChain user makes it; making it logs nothing."""
    from langchain_chroma import Chroma

    logging.disable(logging.CRITICAL)
    try:
        store = Chroma("notes", WordEmbeddings(), persist_directory=str(folder))
        names = patients or [f"patient {number}" for number in range(len(texts))]
        store.add_texts(texts, [{"patient": name} for name in names])
    finally:
        logging.disable(logging.NOTSET)
    return store
