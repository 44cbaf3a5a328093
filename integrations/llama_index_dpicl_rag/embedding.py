"""The library's embedding model for LlamaIndex, which records no text."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding, Embedding
from llama_index.core.bridge.pydantic import PrivateAttr

from dpicl_rag.retrieval.embeddings import Embedder, SentenceTransformerEmbedder
from llama_index_dpicl_rag.recorder import Unrecorded


class PrivateEmbedding(Unrecorded, BaseEmbedding):
    """An embedder of ``dpicl_rag`` as the ``embed_model`` of an index.

    LlamaIndex's own embedding classes hand every text that they embed to event handlers, spans and
    callbacks, and embed in batches, where texts move the last bits of each other's vectors. In
    this one a vector has the same bits in any company, and nothing is reported.

    Args:
        embedder: The embedder; the packaged all-MiniLM-L6-v2 if None.
        **fields: Further fields of LlamaIndex's ``BaseEmbedding``.
    """

    _embedder: Embedder = PrivateAttr()

    def __init__(self, embedder: Embedder | None = None, **fields: Any) -> None:
        embedder = embedder or SentenceTransformerEmbedder()
        super().__init__(**{"model_name": embedder.fingerprint, **fields})
        self._embedder = embedder

    @classmethod
    def class_name(cls) -> str:
        """Name of the class in LlamaIndex's records."""
        return "PrivateEmbedding"

    def get_text_embedding(self, text: str) -> Embedding:
        """Embed a passage."""
        return self._get_text_embedding(text)

    async def aget_text_embedding(self, text: str) -> Embedding:
        """``get_text_embedding`` in a worker thread."""
        return await asyncio.to_thread(self._get_text_embedding, text)

    def get_text_embedding_batch(
        self, texts: list[str], show_progress: bool = False, **kwargs: Any
    ) -> list[Embedding]:
        """Embed passages."""
        return self._get_text_embeddings(texts)

    async def aget_text_embedding_batch(
        self, texts: list[str], show_progress: bool = False, **kwargs: Any
    ) -> list[Embedding]:
        """``get_text_embedding_batch`` in a worker thread."""
        return await asyncio.to_thread(self._get_text_embeddings, texts)

    def _get_query_embedding(self, query: str) -> Embedding:
        vector: Embedding = self._embedder.embed([query], query=True)[0].tolist()
        return vector

    async def _aget_query_embedding(self, query: str) -> Embedding:
        return await asyncio.to_thread(self._get_query_embedding, query)

    def _get_text_embedding(self, text: str) -> Embedding:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        vectors: list[Embedding] = self._embedder.embed(texts).tolist()
        return vectors
