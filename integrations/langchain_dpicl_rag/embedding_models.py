"""Embedding models: the library's for LangChain, and LangChain's for the library."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from langchain_core.embeddings import Embeddings

from dpicl_rag.retrieval.embeddings import Embedder, SentenceTransformerEmbedder


class PrivateEmbeddings(Embeddings):
    """An embedder of ``dpicl_rag`` as LangChain embeddings, for filling a store.

    A vector has the same bits whatever other texts are embedded with it; in ordinary batches texts
    move the last bits of each other's vectors.

    Args:
        embedder: The embedder; the packaged all-MiniLM-L6-v2 if None.
    """

    def __init__(self, embedder: Embedder | None = None) -> None:
        self.embedder = embedder or SentenceTransformerEmbedder()

    def __repr__(self) -> str:
        return f"PrivateEmbeddings({self.embedder!r})"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed passages."""
        vectors: list[list[float]] = self.embedder.embed(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Embed a question."""
        vector: list[float] = self.embedder.embed([text], query=True)[0].tolist()
        return vector


class LangChainEmbedder:
    """LangChain embeddings as a core embedder; one text at a time, so that texts stay apart.

    Args:
        embeddings: The embeddings that the store was filled with.
    """

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings

    def __repr__(self) -> str:
        return f"LangChainEmbedder({type(self._embeddings).__name__})"

    @property
    def fingerprint(self) -> str:
        """The class; LangChain tells no more."""
        return f"langchain/{type(self._embeddings).__qualname__}"

    def embed(self, texts: Sequence[str], *, query: bool = False) -> npt.NDArray[np.float32]:
        """Embed texts; see the core's ``Embedder.embed``."""
        one = self._embeddings
        rows = [one.embed_query(t) if query else one.embed_documents([t])[0] for t in texts]
        return np.asarray(rows, dtype=np.float32)


def embedder_of(embeddings: Embeddings) -> Embedder:
    """The core embedder behind LangChain embeddings."""
    if isinstance(embeddings, PrivateEmbeddings):
        return embeddings.embedder
    return LangChainEmbedder(embeddings)
