"""The private path as a LangChain text model."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.llms import BaseLLM
from langchain_core.outputs import Generation, GenerationChunk, LLMResult

from dpicl_rag.results import PrivateAnswer
from langchain_dpicl_rag.conversations import Conversation
from langchain_dpicl_rag.private_model import PrivateModel


class PrivateLLM(PrivateModel, BaseLLM):
    """A text model that answers from private documents; the prompt is the public question.

    Documents come beside the prompt: ``llm.invoke(question, documents=[...])`` or
    ``llm.bind(documents=[...])``. They may be strings, ``dpicl_rag.Document``, LangChain documents
    or any ``dpicl_rag`` retriever. Text inside the prompt is public, retrieved or not.
    ``fresh=True`` beside them asks the documents again where the memory has the answer. An answer
    that the documents do not support is replaced by a fixed sentence; ``unsupported="mark"`` keeps
    it, and streams as it is drawn.

    The guarantee is for the documents handed over. Where a retriever of LangChain chose them, use
    `PrivateRetrievalChain`, which knows how far one document reaches into the choice.

    Args:
        llm: A ``dpicl_rag.PrivateContextLLM``, or a model around one.
        allow_public: Answer calls without documents from the public model.
        **kwargs: Without an ``llm``, arguments of ``dpicl_rag.PrivateContextLLM``: ``model``,
            ``epsilon``, ``max_tokens``, ``ledger`` and so on. Also fields of LangChain's
            ``BaseLLM``, such as ``callbacks``.

    Raises:
        ConfigurationError: A setting is unknown or outside its range.
        ModelError: The model cannot be loaded.
    """

    @property
    def _llm_type(self) -> str:
        return "private-context"

    def _generate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        answers = [self._answer(prompt, stop, kwargs) for prompt in prompts]
        return LLMResult(
            generations=[
                [Generation(text=one.text, generation_info=self.llm.public_numbers(one))]
                for one in answers
            ]
        )

    def _read(self, prompt: str) -> Conversation:
        return Conversation(prompt)

    def _chunk(self, piece: str, answer: PrivateAnswer | None = None) -> GenerationChunk:
        numbers = None if answer is None else self.llm.public_numbers(answer)
        return GenerationChunk(text=piece, generation_info=numbers)
