"""The private path as a LangChain chat model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, closing
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models.base import LangSmithParams, LanguageModelInput
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult, LLMResult
from langchain_core.prompt_values import ChatPromptValue, PromptValue
from langchain_core.runnables import RunnableConfig
from pydantic import ConfigDict, Field, field_validator

from dpicl_rag import private_context_llm as core
from dpicl_rag.answers import PrivateAnswer
from dpicl_rag.gathering import Documents
from langchain_dpicl_rag.conversations import read, seal_blocks
from langchain_dpicl_rag.documents import (
    DOCUMENTS,
    SealedDocuments,
    documents_of,
    seal,
    unseal,
)
from langchain_dpicl_rag.drawing import Drawing, aended, ended
from langchain_dpicl_rag.engines import (
    adapted,
    answer_metadata,
    engine_from,
    identifying_params,
    refuse_cache,
    trace_params,
)


class ChatPrivateContext(BaseChatModel):
    """A chat model that answers from private documents; the messages are the public question.

    Documents come as ``chat.invoke(messages, documents=[...])``, by
    ``chat.bind(documents=[...])``, or as ``text-plain`` content blocks of the messages, each a
    privacy unit of its own. All other text of the messages is public, retrieved or not. A system
    message replaces the template's instruction; earlier turns become part of the question.

    Blocks are out of sight from the moment the model is called. A prompt or a chain in front of it
    sees them, and shows them to its callbacks: there, pass documents by ``documents=``.

    The guarantee is for the documents handed over. Where a retriever chose them, use
    `PrivateRetrievalChain`, which knows how far one document reaches into the choice.

    Args:
        engine: A ``dpicl_rag.PrivateContextLLM``, or an adapter around one.
        allow_public: Answer calls without documents from the public model.
        streaming: Draw piece by piece in ``invoke`` too, so that callbacks see each token.
        **kwargs: Without an engine, arguments of ``dpicl_rag.PrivateContextLLM``: ``model``,
            ``epsilon``, ``max_tokens``, ``ledger`` and so on. Also fields of LangChain's
            ``BaseChatModel``, such as ``callbacks``.

    Raises:
        ConfigurationError: A setting is unknown or outside its range.
        ModelError: The model cannot be loaded.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    engine: core.PrivateContextLLM = Field(exclude=True, repr=False)
    allow_public: bool = False
    streaming: bool = False
    cache: Any = False
    """Always False: a cached answer would be found again whatever the documents are."""

    _refuse_cache = field_validator("cache")(refuse_cache)

    def __init__(self, engine: Any = None, **kwargs: Any) -> None:
        fields = {name: kwargs.pop(name) for name in [*kwargs] if name in type(self).model_fields}
        super().__init__(**{**fields, "engine": engine_from(engine, kwargs)})

    @property
    def _llm_type(self) -> str:
        return "private-context-chat"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return identifying_params(self.engine)

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return trace_params(self.engine, "chat", stop, kwargs)

    def _get_invocation_params(
        self, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        # LangChain hands these to callbacks and tracers.
        kwargs.pop(DOCUMENTS, None)
        return super()._get_invocation_params(stop=stop, **kwargs)

    def bind(self, **kwargs: Any) -> Any:
        """Bind arguments; documents do not show in the result."""
        return super().bind(**seal(kwargs))

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

    def stream(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> Iterator[AIMessageChunk]:
        """Stream the answer; closing early pays for what was released and no more."""
        box = SealedDocuments(unseal(kwargs.pop(DOCUMENTS, None)))
        chunks = super().stream(input, config, stop=stop, documents=box, **kwargs)
        with closing(box), ended(chunks):
            yield from chunks

    async def astream(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[AIMessageChunk]:
        """``stream`` with each draw in a worker thread."""
        box = SealedDocuments(unseal(kwargs.pop(DOCUMENTS, None)))
        chunks = super().astream(input, config, stop=stop, documents=box, **kwargs)
        async with aclosing(box), aended(chunks):
            async for chunk in chunks:
                yield chunk

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        engine, question, documents = self._ask(messages, stop, kwargs)
        return self._result(engine.answer(question, documents))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        engine, question, documents = self._ask(messages, stop, kwargs)
        return self._result(await engine.aanswer(question, documents))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        drawing = self._draw(messages, stop, kwargs)
        for piece in drawing:
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
        yield self._last(drawing.answer)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        drawing = await asyncio.to_thread(self._draw, messages, stop, kwargs)
        async for piece in drawing.pieces():
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
        yield self._last(drawing.answer)

    def _ask(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> tuple[core.PrivateContextLLM, str, Documents]:
        """Engine, question and documents of one call."""
        system, question, blocks = read(messages)
        if blocks and unseal(kwargs.get(DOCUMENTS)) is not None:
            raise ValueError("give documents by documents=... or as text-plain blocks, not both")
        if blocks:
            kwargs = {**kwargs, DOCUMENTS: blocks}
        documents = documents_of(kwargs, allow_public=self.allow_public)
        return adapted(self.engine, stop, system), question, documents

    def _draw(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> Drawing:
        engine, question, documents = self._ask(messages, stop, kwargs)
        drawing = Drawing(engine.stream(question, documents))
        box = kwargs.get(DOCUMENTS)
        if isinstance(box, SealedDocuments):
            box.keep(drawing)
        return drawing

    def _result(self, answer: PrivateAnswer) -> ChatResult:
        message = AIMessage(
            content=answer.text, response_metadata=answer_metadata(self.engine, answer)
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _last(self, answer: PrivateAnswer) -> ChatGenerationChunk:
        message = AIMessageChunk(
            content="",
            response_metadata=answer_metadata(self.engine, answer),
            chunk_position="last",
        )
        return ChatGenerationChunk(message=message)
