"""The private path as a LangChain chat model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.base import LanguageModelInput
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult, LLMResult
from langchain_core.prompt_values import ChatPromptValue, PromptValue

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.results import PrivateAnswer
from langchain_dpicl_rag.conversations import Conversation, read, seal_blocks
from langchain_dpicl_rag.private_model import PrivateModel
from langchain_dpicl_rag.sealed_documents import DOCUMENTS


class ChatPrivateContext(PrivateModel, BaseChatModel):  # type: ignore[misc] # a parameter's name
    """A chat model that answers from private documents; the messages are the public question.

    Documents come as ``chat.invoke(messages, documents=[...])``, by
    ``chat.bind(documents=[...])``, or as ``text-plain`` content blocks of the messages, each a
    privacy unit of its own. All other text of the messages is public, retrieved or not. A system
    message replaces the template's instruction. The last turn is the question; one that leans on
    those before it is put into whole words first. ``fresh=True`` asks the documents again where the
    memory has the answer. An answer that the documents do not support is replaced by a fixed
    sentence; ``unsupported="mark"`` keeps it, marks it in ``response_metadata``, and streams as it
    is drawn.

    Blocks are out of sight from the moment the model is called. A prompt or a chain in front of it
    sees them, and shows them to its callbacks: there, pass documents by ``documents=``.

    The guarantee is for the documents handed over. Where a retriever of LangChain chose them, use
    `PrivateRetrievalChain`, which knows how far one document reaches into the choice.

    Args:
        llm: A ``dpicl_rag.PrivateContextLLM``, or a model around one.
        allow_public: Answer calls without documents from the public model.
        streaming: Draw piece by piece in ``invoke`` too, so that callbacks see each token.
        **kwargs: Without an ``llm``, arguments of ``dpicl_rag.PrivateContextLLM``: ``model``,
            ``epsilon``, ``max_tokens``, ``ledger`` and so on. Also fields of LangChain's
            ``BaseChatModel``, such as ``callbacks``.

    Raises:
        ConfigurationError: A setting is unknown or outside its range.
        ModelError: The model cannot be loaded.
    """

    streaming: bool = False

    @property
    def _llm_type(self) -> str:
        return "private-context-chat"

    def _get_invocation_params(
        self, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        # LangChain hands these to callbacks and tracers.
        kwargs.pop(DOCUMENTS, None)
        return super()._get_invocation_params(stop=stop, **kwargs)

    def _convert_input(self, model_input: LanguageModelInput) -> PromptValue:
        messages = super()._convert_input(model_input).to_messages()
        return ChatPromptValue(messages=seal_blocks(messages))

    def generate(self, messages: list[list[BaseMessage]], *args: Any, **kwargs: Any) -> LLMResult:
        """Answer several conversations; see LangChain's own ``generate``."""
        return super().generate([seal_blocks(one) for one in messages], *args, **kwargs)

    async def agenerate(
        self, messages: list[list[BaseMessage]], *args: Any, **kwargs: Any
    ) -> LLMResult:
        """``generate`` with the answers drawn in worker threads."""
        return await super().agenerate([seal_blocks(one) for one in messages], *args, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        answer = self._answer(messages, stop, kwargs)
        message = AIMessage(content=answer.text, response_metadata=self.llm.public_numbers(answer))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def bind_tools(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: calls of tools would be drawn token by token from private scores.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(
            "a private chat model calls no tools, as each call would be drawn token by token from "
            "private scores; give a public model the tool PrivateRetrievalChain(...).as_tool()"
        )

    def _read(self, prompt: Sequence[BaseMessage]) -> Conversation:
        return read(prompt)

    def _chunk(self, piece: str, answer: PrivateAnswer | None = None) -> ChatGenerationChunk:
        if answer is None:
            return ChatGenerationChunk(message=AIMessageChunk(content=piece))
        numbers = self.llm.public_numbers(answer)
        message = AIMessageChunk(content=piece, response_metadata=numbers, chunk_position="last")
        return ChatGenerationChunk(message=message)
