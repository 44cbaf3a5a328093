"""Ordinary answers from a synthetic corpus: no budget, no limit, nothing private left to lose."""

from __future__ import annotations

from dpicl_rag.answering.greedy import greedy_answer
from dpicl_rag.corpora import Corpus
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.knowledge import PublicDocuments
from dpicl_rag.language_models.base import LanguageModel
from dpicl_rag.prompts import PromptTemplate
from dpicl_rag.stores.chroma import ChromaCollection

RECORDS = 1
"""Records that an answer reads by default: the packaged model confuses several."""


def ordinary_answer(
    source: Corpus | ChromaCollection,
    question: str,
    model: LanguageModel,
    *,
    template: PromptTemplate | None = None,
    records: int = RECORDS,
    max_tokens: int = 32,
    stop: tuple[str, ...] = (),
) -> str:
    """Ordinary RAG: the nearest records in one prompt, the likeliest token at every step.

    Args:
        source: A synthetic corpus, or another public one.
        question: The question.
        model: Any language model.
        template: How records and question become a prompt.
        records: How many are read.
        max_tokens: Most tokens of the answer.
        stop: The answer ends before any of these.

    Raises:
        ConfigurationError: The corpus is private.
    """
    if not source.public:
        raise ConfigurationError(
            f"corpus {source.name!r} is private, and an ordinary answer would give it away; use "
            "PrivateContextLLM, or synthesise a corpus from it"
        )
    # The nearest first, as no ranks are hidden here; a retriever of private units hides them.
    passages = PublicDocuments(source, most=records, least=-1.0).recall(question)
    return greedy_answer(
        model, template or PromptTemplate(), question, passages, max_tokens=max_tokens, stop=stop
    )
