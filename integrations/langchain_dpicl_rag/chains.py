"""Chains from a question to a private answer."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from typing import Any, TypeAlias

from langchain_core.runnables import RunnableConfig, RunnableSerializable
from langchain_core.runnables.utils import AddableDict
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, ConfigDict, Field

from dpicl_rag import private_context_llm as core
from dpicl_rag.accounting.stability import Stability
from dpicl_rag.errors import BudgetExceededError, ConfigurationError
from dpicl_rag.gathering import Documents
from dpicl_rag.retrieval.corpus import Where
from langchain_dpicl_rag.documents import Given, SealedDocuments
from langchain_dpicl_rag.drawing import Drawing, aended
from langchain_dpicl_rag.engines import engine_from
from langchain_dpicl_rag.stores import private_retriever

Question: TypeAlias = str | dict[str, Any]
"""A question, or a dict that holds it under the chain's ``input_key``."""


class _PrivateChain(RunnableSerializable[Question, str]):
    """Question in, answer out; LangChain records these two and nothing else."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    engine: core.PrivateContextLLM = Field(exclude=True, repr=False)
    input_key: str = "input"

    @abstractmethod
    def _documents(self, input: Question) -> Documents:
        """Where the answer comes from."""

    def invoke(self, input: Question, config: RunnableConfig | None = None, **kwargs: Any) -> str:
        """Answer a question.

        Raises:
            BudgetExceededError: A budget of the ledger cannot pay for the first token.
            ConfigurationError: The input holds no question, or a setting does not fit.
        """
        documents = self._documents(input)

        def answer(question: Question) -> str:
            return self.engine.answer(self._question(question), documents).text

        return self._call_with_config(answer, self._question(input), config)

    async def ainvoke(
        self, input: Question, config: RunnableConfig | None = None, **kwargs: Any
    ) -> str:
        """``invoke`` in a worker thread."""
        documents = self._documents(input)

        async def answer(question: Question) -> str:
            return (await self.engine.aanswer(self._question(question), documents)).text

        return await self._acall_with_config(answer, self._question(input), config)

    def stream(
        self, input: Question, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[str]:
        """Stream the answer; closing early pays for what was released and no more."""
        yield from self.transform(iter([input]), config)

    async def astream(
        self, input: Question, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[str]:
        """``stream`` with each draw in a worker thread."""
        async with aended(self.atransform(_one(input), config)) as pieces:
            async for piece in pieces:
                yield piece

    def transform(
        self, input: Iterator[Question], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[str]:
        """``stream`` for a question that itself arrives in pieces."""
        whole = _joined(list(input))
        documents = self._documents(whole)
        with closing(SealedDocuments(documents)) as box:

            def pieces(questions: Iterator[Question]) -> Iterator[str]:
                for question in questions:
                    drawing = Drawing(self.engine.stream(self._question(question), documents))
                    box.keep(drawing)
                    yield from drawing

            asked: Iterator[Question] = iter([self._question(whole)])
            yield from self._transform_stream_with_config(asked, pieces, config)

    async def atransform(
        self, input: AsyncIterator[Question], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[str]:
        """``transform`` with each draw in a worker thread."""
        whole = _joined([part async for part in input])
        documents = self._documents(whole)

        async def pieces(questions: AsyncIterator[Question]) -> AsyncIterator[str]:
            async for question in questions:
                asked = self._question(question)
                stream = await asyncio.to_thread(self.engine.stream, asked, documents)
                async with aended(Drawing(stream).pieces()) as drawing:
                    async for piece in drawing:
                        yield piece

        traced = self._atransform_stream_with_config(_one(self._question(whole)), pieces, config)
        async with aended(traced):
            async for piece in traced:
                yield piece

    def _question(self, input: Question) -> str:
        question = input.get(self.input_key) if isinstance(input, dict) else input
        if not isinstance(question, str):
            raise ConfigurationError(
                f"the input must be a question, or a dict with one under {self.input_key!r}"
            )
        return question


class PrivateRetrievalChain(_PrivateChain):
    """Answers questions from a vector store; documents never cross an edge between Runnables.

    Invoke it with a question, or with a dict that holds one under ``input_key``. The store is read
    whole and scanned exactly: its own search is approximate, and what it returns would pass through
    callbacks.

    Args:
        retriever: A ``langchain_chroma.Chroma``, an ``InMemoryVectorStore``, what
            ``as_retriever()`` makes of these, or a ``dpicl_rag`` retriever.
        unit_field: For stores, the metadata field that names the privacy unit, such as
            ``"source"``. Records that share its value are protected together. ``"document"``
            protects each record by itself: only right where no document was split.
        threshold: For stores, the least cosine of a unit with the question. Choose it without
            looking at the corpus.
        k: For stores, the most units, in place of a threshold; costs twice as much.
        where: For Chroma stores, a metadata filter. Public.
        engine: A ``dpicl_rag.PrivateContextLLM``, or an adapter around one.
        input_key: Key of the question in a dict.
        name: Name of the chain in traces.
        **settings: Without an engine, arguments of ``dpicl_rag.PrivateContextLLM``: ``model``,
            ``epsilon``, ``max_tokens``, ``ledger`` and so on.

    Raises:
        ConfigurationError: The store searches approximately and cannot be scanned, the privacy
            unit is not named, or a setting is outside its range.
        ModelError: The model cannot be loaded.
    """

    retriever: Any = Field(exclude=True, repr=False)

    def __init__(
        self,
        retriever: Any,
        *,
        unit_field: str | None = None,
        threshold: float | None = None,
        k: int | None = None,
        where: Where | None = None,
        engine: Any = None,
        input_key: str = "input",
        name: str | None = None,
        **settings: Any,
    ) -> None:
        answering = engine_from(engine, settings)
        unit = answering.config.privacy_unit
        if unit != "document":
            # The engine regroups what was retrieved. If units were others during retrieval, the
            # retriever's stability would not be that of the engine's units.
            if unit_field not in (None, unit):
                raise ConfigurationError(
                    f"unit_field is {unit_field!r} and the engine's privacy_unit is {unit!r}; "
                    "leave one out"
                )
            unit_field = unit
        fields: dict[str, Any] = {
            "engine": answering,
            "retriever": private_retriever(
                retriever, unit_field=unit_field, threshold=threshold, k=k, where=where
            ),
            "input_key": input_key,
            "name": name,
        }
        super().__init__(**fields)

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> BaseTool:
        """A tool for agents, with one argument, ``question``.

        When the budget is used up the tool says so to the agent in place of an answer.

        Args:
            args_schema: None; the argument is fixed.
            name: Name of the tool.
            description: What the agent is told about it. Public.
            arg_types: None; the argument is fixed.
        """
        if args_schema is not None or arg_types is not None:
            raise ConfigurationError("the tool has one argument, question")

        def ask(question: str, config: RunnableConfig) -> str:
            try:
                return self.invoke(question, config)
            except BudgetExceededError as error:
                raise ToolException(str(error)) from None

        async def aask(question: str, config: RunnableConfig) -> str:
            try:
                return await self.ainvoke(question, config)
            except BudgetExceededError as error:
                raise ToolException(str(error)) from None

        return StructuredTool.from_function(
            func=ask,
            coroutine=aask,
            name=name or "ask_private_documents",
            description=description
            or "Answers one self-contained question from private documents, in a sentence.",
            args_schema=_ToolInput,
            handle_tool_error=True,
        )

    def _documents(self, input: Question) -> Documents:
        return self.retriever  # type: ignore[no-any-return]


class PrivateCombineDocuments(_PrivateChain):
    """Takes the place of ``create_stuff_documents_chain(llm, prompt)`` in a retrieval chain.

    Its own run records the question and the answer. **The chain around it still shows the
    documents**: ``create_retrieval_chain`` returns them under ``context``, and the retriever's
    results go to callbacks, tracers and ``stream``. Where that matters, use
    `PrivateRetrievalChain`.

    Which documents arrive was decided by a retriever. ``stability`` says how far one unit reaches
    into that decision; the guarantee is for the corpus only if it is true. It is not true of any
    stability if the store's search is approximate, as HNSW is.

    Args:
        engine: A ``dpicl_rag.PrivateContextLLM``, or an adapter around one.
        stability: The default is that of exact top-k: a newcomer displaces one unit.
            ``Stability(added=1, changed=0)`` is for lists that are fixed, and for thresholds.
        document_variable_name: Key of the documents in the input.
        input_key: Key of the question in the input.
        name: Name of the chain in traces.
        **settings: Without an engine, arguments of ``dpicl_rag.PrivateContextLLM``.

    Raises:
        ConfigurationError: A setting is unknown or outside its range.
        ModelError: The model cannot be loaded.
    """

    stability: Stability
    document_variable_name: str

    def __init__(
        self,
        engine: Any = None,
        *,
        stability: Stability = Stability(added=0, changed=1),  # noqa: B008 - frozen
        document_variable_name: str = "context",
        input_key: str = "input",
        name: str | None = None,
        **settings: Any,
    ) -> None:
        fields: dict[str, Any] = {
            "engine": engine_from(engine, settings),
            "stability": stability,
            "document_variable_name": document_variable_name,
            "input_key": input_key,
            "name": name,
        }
        super().__init__(**fields)

    def _documents(self, input: Question) -> Documents:
        key = self.document_variable_name
        if not isinstance(input, dict) or input.get(key) is None:
            raise ConfigurationError(f"the input must be a dict with documents under {key!r}")
        return Given(input[key], self.stability)


class _ToolInput(BaseModel):
    question: str = Field(description="One self-contained question.")


async def _one(input: Question) -> AsyncIterator[Question]:
    yield input


def _joined(parts: list[Question]) -> Any:
    """Input that came in parts, as LangChain streams it."""
    whole: Any = None
    for part in parts:
        if isinstance(part, dict):
            part = AddableDict(part)
        whole = part if whole is None else whole + part
    return whole
