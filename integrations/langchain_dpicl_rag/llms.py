"""The private path as a LangChain text model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models.base import LangSmithParams, LanguageModelInput
from langchain_core.language_models.llms import LLM
from langchain_core.outputs import Generation, GenerationChunk, LLMResult
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import ConfigDict, Field, field_validator

from dpicl_rag import private_context_llm as core
from dpicl_rag.answers import PrivateAnswer
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


class PrivateContextLLM(LLM):
    """A text model that answers from private documents; the prompt is the public question.

    Documents come beside the prompt: ``llm.invoke(question, documents=[...])`` or
    ``llm.bind(documents=[...])``. They may be strings, ``dpicl_rag.Document``, LangChain documents
    or a ``dpicl_rag`` retriever. Text inside the prompt is public, retrieved or not.

    The guarantee is for the documents handed over. Where a retriever chose them, use
    `PrivateRetrievalChain`, which knows how far one document reaches into the choice.

    Args:
        engine: A ``dpicl_rag.PrivateContextLLM``, or an adapter around one.
        allow_public: Answer calls without documents from the public model.
        **kwargs: Without an engine, arguments of ``dpicl_rag.PrivateContextLLM``: ``model``,
            ``epsilon``, ``max_tokens``, ``ledger`` and so on. Also fields of LangChain's ``LLM``,
            such as ``callbacks``.

    Raises:
        ConfigurationError: A setting is unknown or outside its range.
        ModelError: The model cannot be loaded.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    engine: core.PrivateContextLLM = Field(exclude=True, repr=False)
    allow_public: bool = False
    cache: Any = False
    """Always False: a cached answer would be found again whatever the documents are."""

    _refuse_cache = field_validator("cache")(refuse_cache)

    def __init__(self, engine: Any = None, **kwargs: Any) -> None:
        fields = {name: kwargs.pop(name) for name in [*kwargs] if name in type(self).model_fields}
        super().__init__(**{**fields, "engine": engine_from(engine, kwargs)})

    @property
    def _llm_type(self) -> str:
        return "private-context"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return identifying_params(self.engine)

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return trace_params(self.engine, "llm", stop, kwargs)

    def bind(self, **kwargs: Any) -> Runnable[LanguageModelInput, str]:
        """Bind arguments; documents do not show in the result."""
        return super().bind(**seal(kwargs))

    def stream(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> Iterator[str]:
        """Stream the answer; closing early pays for what was released and no more."""
        box = SealedDocuments(unseal(kwargs.pop(DOCUMENTS, None)))
        pieces = super().stream(input, config, stop=stop, documents=box, **kwargs)
        with closing(box), ended(pieces):
            yield from pieces

    async def astream(
        self,
        input: LanguageModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[str]:
        """``stream`` with each draw in a worker thread."""
        box = SealedDocuments(unseal(kwargs.pop(DOCUMENTS, None)))
        pieces = super().astream(input, config, stop=stop, documents=box, **kwargs)
        async with aclosing(box), aended(pieces):
            async for piece in pieces:
                yield piece

    def _call(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> str:
        return self._answer(prompt, stop, kwargs).text

    def _generate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        answers = [self._answer(prompt, stop, kwargs) for prompt in prompts]
        return LLMResult(generations=[[self._generation(answer)] for answer in answers])

    async def _agenerate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        documents = documents_of(kwargs, allow_public=self.allow_public)
        engine = adapted(self.engine, stop)
        answers = [await engine.aanswer(prompt, documents) for prompt in prompts]
        return LLMResult(generations=[[self._generation(answer)] for answer in answers])

    def _stream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[GenerationChunk]:
        drawing = self._draw(prompt, stop, kwargs)
        for piece in drawing:
            chunk = GenerationChunk(text=piece)
            if run_manager is not None:
                run_manager.on_llm_new_token(piece, chunk=chunk)
            yield chunk
        yield self._last(drawing.answer)

    async def _astream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[GenerationChunk]:
        drawing = await asyncio.to_thread(self._draw, prompt, stop, kwargs)
        async for piece in drawing.pieces():
            chunk = GenerationChunk(text=piece)
            if run_manager is not None:
                await run_manager.on_llm_new_token(piece, chunk=chunk)
            yield chunk
        yield self._last(drawing.answer)

    def _answer(self, prompt: str, stop: list[str] | None, kwargs: dict[str, Any]) -> PrivateAnswer:
        documents = documents_of(kwargs, allow_public=self.allow_public)
        return adapted(self.engine, stop).answer(prompt, documents)

    def _draw(self, prompt: str, stop: list[str] | None, kwargs: dict[str, Any]) -> Drawing:
        documents = documents_of(kwargs, allow_public=self.allow_public)
        drawing = Drawing(adapted(self.engine, stop).stream(prompt, documents))
        box = kwargs.get(DOCUMENTS)
        if isinstance(box, SealedDocuments):
            box.keep(drawing)
        return drawing

    def _generation(self, answer: PrivateAnswer) -> Generation:
        return Generation(text=answer.text, generation_info=answer_metadata(self.engine, answer))

    def _last(self, answer: PrivateAnswer) -> GenerationChunk:
        return GenerationChunk(text="", generation_info=answer_metadata(self.engine, answer))
