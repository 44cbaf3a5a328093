"""Ordinary RAG: not private, the ceiling."""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.leaderboard.method import Asked, Method, Setting, Told
from dpicl_rag import TopKRetriever
from dpicl_rag.answering.prompt_rows import greedy_answer
from dpicl_rag.retrieval.vectors import VectorSource


@dataclass(frozen=True)
class OrdinaryRAG(Method):
    """The nearest documents in one prompt, the likeliest token at every step.

    Attributes:
        top_k: How many; 0 asks the model alone.
        name: See `Method`.
        source: See `Method`.
    """

    top_k: int
    name: str
    source: str

    def charge(self, setting: Setting, epsilon: float, delta: float) -> float:
        """Nothing, or everything."""
        return math.inf if self.top_k else 0.0

    def needed(self, setting: Setting, epsilon: float) -> int | None:
        """See `Method.needed`."""
        return 1 if self.top_k else None

    def answer(self, setting: Setting, asked: Asked) -> Told:
        """See `Method.answer`."""
        passages: list[str] = []
        if self.top_k:
            assert isinstance(asked.documents, VectorSource)
            found = TopKRetriever(asked.documents, self.top_k).retrieve(asked.question)
            passages = [one.text for one in found]
        text = greedy_answer(
            setting.model,
            setting.template,
            asked.question,
            passages,
            max_tokens=setting.max_tokens,
            stop=setting.stop,
        )
        return Told(text, bool(text))


METHOD = OrdinaryRAG(4, "ordinary RAG (not private)", "Lewis et al. 2020; the ceiling")
