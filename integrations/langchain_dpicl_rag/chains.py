"""Chains from a question to a private answer, and tools for agents."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing, closing, contextmanager
from typing import Any, TypeAlias, Unpack, cast

from langchain_core.runnables import RunnableConfig, RunnableSerializable
from langchain_core.runnables.utils import AddableDict
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, ConfigDict, Field

from dpicl_rag import framework_bridge
from dpicl_rag.accounting import Stability
from dpicl_rag.errors import ConfigurationError, DPICLError
from dpicl_rag.framework_bridge import AskedFields, LLMArguments, PrivateCall, refuse, split_fields
from dpicl_rag.loaders.framework_documents import as_library_documents
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.results import PrivateAnswer
from dpicl_rag.retrieval import Documents, GivenDocuments, Retriever, stability_of_list
from dpicl_rag.retrieval.vectors import Where
from langchain_dpicl_rag.conversations import ChainInput, joined, read_input
from langchain_dpicl_rag.private_models import Config, PrivateRunnable, llm_from, with_unit
from langchain_dpicl_rag.vector_stores import private_retriever

Answered: TypeAlias = Any
"""The text; under ``numbers=True`` a dict with the text under ``answer``."""


class _PrivateChain(PrivateRunnable, RunnableSerializable[ChainInput, Answered]):
    """Question in, answer out; LangChain records these two and nothing else."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    llm: PrivateContextLLM = Field(exclude=True, repr=False)
    input_key: str = "input"
    numbers: bool = False

    @abstractmethod
    def _documents(self, input: Any) -> Documents:
        """Documents or retriever that the question is answered from."""

    def invoke(self, input: ChainInput, config: Config = None, **fields: Any) -> Answered:
        """Answer a question.

        Args:
            input: A question, or a dict that holds it under ``input_key``.
            config: LangChain's.
            **fields: ``fresh=True`` asks the documents again where the memory has the answer to the
                same question; ``chain.bind(fresh=True)`` always does. ``kind`` says what to do
                where the question shall not. Nothing else is known.

        Raises:
            BudgetExceededError: A budget of the ledger cannot pay for the first token.
            ConfigurationError: The input holds no question, or what no chain reads, or a setting
                does not fit.
        """
        call = self._call(input, fields)
        return self._call_with_config(
            lambda _: self._answered(call.answer()), call.question, config
        )

    async def ainvoke(self, input: ChainInput, config: Config = None, **fields: Any) -> Answered:
        """``invoke`` in a worker thread."""
        call = self._call(input, fields)

        async def answer(_: ChainInput) -> Answered:
            return self._answered(await call.aanswer())

        return await self._acall_with_config(answer, call.question, config)

    def stream(self, input: ChainInput, config: Config = None, **fields: Any) -> Iterator[Answered]:
        """Stream the answer; closing early pays for what was released and no more."""
        return self.transform(iter([input]), config, **fields)

    def astream(
        self, input: ChainInput, config: Config = None, **fields: Any
    ) -> AsyncGenerator[Answered, None]:
        """``stream`` with each draw in a worker thread."""
        return self.atransform(_one(input), config, **fields)

    def transform(
        self, input: Iterator[ChainInput], config: Config = None, **fields: Any
    ) -> Iterator[Answered]:
        """``stream`` for a question that itself arrives in pieces."""
        call = self._call(joined(list(input)), fields)
        # LangChain may leave what it iterates over to the garbage collector: it is closed here.
        with closing(call.pieces(self._shown)) as answer:
            yield from self._transform_stream_with_config(
                iter([call.question]), lambda _: answer, config
            )

    async def atransform(
        self, input: AsyncIterator[ChainInput], config: Config = None, **fields: Any
    ) -> AsyncGenerator[Answered, None]:
        """``transform`` with the search and each draw in a worker thread."""
        call = self._call(joined([part async for part in input]), fields)
        async with aclosing(call.apieces(self._shown)) as answer:
            pieces = self._atransform_stream_with_config(
                _one(call.question), lambda _: answer, config
            )
            async with aclosing(cast("AsyncGenerator[Answered]", pieces)):
                async for piece in pieces:
                    yield piece

    def _answered(self, answer: PrivateAnswer) -> Answered:
        if not self.numbers:
            return answer.text
        return {"answer": answer.text, **self.llm.public_numbers(answer)}

    def _shown(self, piece: str, answer: PrivateAnswer | None) -> Iterator[Answered]:
        if answer is None:
            yield AddableDict(answer=piece) if self.numbers else piece
        elif self.numbers:
            yield AddableDict(self.llm.public_numbers(answer))

    def _call(self, input: Any, arguments: dict[str, Any]) -> PrivateCall:
        fields, unknown = split_fields(arguments)
        refuse(
            unknown, "not an argument of a private call; settings are given when the chain is made"
        )
        asked = read_input(input, self.input_key, *self._beside())
        llm = self.llm if self.numbers else self.llm.for_strings()
        fields = AskedFields(**asked.fields, **fields)
        return PrivateCall(llm, asked.question, self._documents(input), fields)

    def _beside(self) -> tuple[str, ...]:
        """Keys of the input beside the question and the turns before it."""
        return ()


class PrivateRetrievalChain(_PrivateChain):
    """Answers questions from a vector store; documents never cross an edge between Runnables.

    Invoke it with a question, or with a dict that holds one under ``input_key``. The store is read
    whole and scanned exactly: its own search is approximate, and what it returns would pass through
    callbacks.

    Args:
        retriever: A ``langchain_chroma.Chroma``, an ``InMemoryVectorStore``, what
            ``as_retriever()`` makes of these, a ``dpicl_rag.Corpus``, or any ``dpicl_rag``
            retriever, exact, sampled or private. Over a store or a corpus about as many of the
            closest units are read as the setting ``units`` says, by a private search that the
            answer's epsilon pays for.
        unit_field: For stores, the metadata field that names the privacy unit, such as
            ``"source"``. Records that share its value are protected together. ``"document"``
            protects each record by itself: only right where no document was split. By default the
            ``privacy_unit`` of the settings.
        threshold: In place of that search, the least cosine of a unit with the question. Choose it
            without looking at the corpus.
        top_k: In place of that search, the most units; costs twice as much.
        where: For Chroma stores and corpora, a metadata filter. Public.
        llm: A ``dpicl_rag.PrivateContextLLM``, or a model around one.
        input_key: Key of the question in a dict.
        numbers: Answer with a dict: the text under ``answer``, and beside it what may be known of
            it, such as ``supported`` and ``epsilon``. A stream ends with them.
        name: Name of the chain in traces.
        **settings: Without an ``llm``, arguments of ``dpicl_rag.PrivateContextLLM``: ``model``,
            ``epsilon``, ``max_tokens``, ``ledger`` and so on.

    Raises:
        ConfigurationError: The store searches approximately and cannot be scanned, the privacy
            unit is not named, or a setting is outside its range.
        ModelError: The model cannot be loaded.
    """

    retriever: Retriever = Field(exclude=True, repr=False)

    def __init__(
        self,
        retriever: Any,
        *,
        unit_field: str | None = None,
        threshold: float | None = None,
        top_k: int | None = None,
        where: Where | None = None,
        llm: Any = None,
        input_key: str = "input",
        numbers: bool = False,
        name: str | None = None,
        **settings: Unpack[LLMArguments],
    ) -> None:
        # The store is read by the protected unit: the retriever's stability is then of that unit.
        llm, unit_field = with_unit(llm_from(llm, settings), unit_field)
        found = private_retriever(
            retriever,
            unit_field=unit_field,
            threshold=threshold,
            top_k=top_k,
            where=where,
            units=llm.config.units,
        )
        fields: dict[str, Any] = {"retriever": found}
        super().__init__(llm=llm, input_key=input_key, numbers=numbers, name=name, **fields)

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> BaseTool:
        """A tool for agents, with one argument, ``question``.

        An error of this library is said to the agent in place of an answer: a budget that is used
        up, say.

        Args:
            args_schema: None; the argument is fixed.
            name: Name of the tool.
            description: The tool's description for the agent. Public.
            arg_types: None; the argument is fixed.
        """
        if args_schema is not None or arg_types is not None:
            raise ConfigurationError("the tool has one argument, question")

        def ask(question: str, config: RunnableConfig) -> Answered:
            with _told():
                return self.invoke(question, config)

        async def aask(question: str, config: RunnableConfig) -> Answered:
            with _told():
                return await self.ainvoke(question, config)

        return StructuredTool.from_function(
            func=ask,
            coroutine=aask,
            name=name or "ask_private_documents",
            description=description
            or "Answers one self-contained question from private documents, in a sentence.",
            args_schema=_ToolInput,
            handle_tool_error=True,
        )

    def _documents(self, input: Any) -> Documents:
        return self.retriever


class PrivateCombineDocuments(_PrivateChain):
    """Takes the place of ``create_stuff_documents_chain(llm, prompt)`` in a retrieval chain.

    Its own run records the question and the answer. **The chain around it still shows the
    documents**: ``create_retrieval_chain`` returns them under ``context``, and the retriever's
    results go to callbacks, tracers and ``stream``. Where that matters, use
    `PrivateRetrievalChain`.

    LangChain's splitters cut a file into several documents, and tell by none of them which belong
    together. So the field that names the privacy unit must be said: documents that share its value
    are read by one expert and protected together. Loaders write the file to ``source``.

    Which documents arrive was decided by a retriever. ``stability`` says how far one unit reaches
    into that decision; the guarantee is for the corpus only if it is true. It is not true of any
    stability if the store's search is approximate, as HNSW is. A retriever of ``dpicl_rag`` may
    stand in the place of the documents: it knows its own stability and its units.

    Args:
        llm: A ``dpicl_rag.PrivateContextLLM``, or a model around one.
        unit_field: The metadata field that names the privacy unit, such as ``"source"``;
            ``"document"`` protects each document by itself: only right where none was split. By
            default the ``privacy_unit`` of the settings. LangChain documents need it; strings are a
            unit each, and a retriever of ``dpicl_rag`` knows its units.
        stability: What one unit's arrival does to the documents. Under ``unit_field="document"``
            the default is that of exact top-k, where a newcomer displaces one. By any other field a
            newcomer can displace as many as it brings: say ``Stability(added=0, changed=k)``.
            ``Stability(added=1, changed=0)`` is for lists that are fixed, and for thresholds.
        document_variable_name: Key of the documents in the input.
        **settings: These, and others that are not named here, are as of `PrivateRetrievalChain`.

    Raises:
        ConfigurationError: A setting is unknown or outside its range, or units may have several
            documents and ``stability`` is not said.
        ModelError: The model cannot be loaded.
    """

    unit_field: str | None
    stability: Stability | None
    document_variable_name: str

    def __init__(
        self,
        llm: Any = None,
        *,
        unit_field: str | None = None,
        stability: Stability | None = None,
        document_variable_name: str = "context",
        input_key: str = "input",
        numbers: bool = False,
        name: str | None = None,
        **settings: Unpack[LLMArguments],
    ) -> None:
        llm, unit_field = with_unit(llm_from(llm, settings), unit_field)
        if unit_field is not None:
            stability = stability_of_list(stability, unit_field)
        fields: dict[str, Any] = {
            "unit_field": unit_field,
            "stability": stability,
            "document_variable_name": document_variable_name,
        }
        super().__init__(llm=llm, input_key=input_key, numbers=numbers, name=name, **fields)

    def _beside(self) -> tuple[str, ...]:
        return (self.document_variable_name,)

    def _documents(self, input: Any) -> Documents:
        key = self.document_variable_name
        if not isinstance(input, dict) or input.get(key) is None:
            raise ConfigurationError(f"the input must be a dict with documents under {key!r}")
        given = input[key]
        if isinstance(given, (str, Retriever)) or not isinstance(given, Iterable):
            if self.unit_field is not None:
                raise ConfigurationError(
                    "leave privacy_unit and unit_field out: a retriever knows its units"
                )
            return cast("Documents", given)  # what is neither, the core refuses
        unit_field = self.unit_field or "document"
        stability = stability_of_list(self.stability, unit_field)
        return GivenDocuments(
            list(as_library_documents(given, self.unit_field)), stability, unit_field
        )


def counting_tools(llm: PrivateContextLLM, documents: Documents) -> list[BaseTool]:
    """Tools for agents that count private documents: ``count``, ``tally`` and ``survey``.

    Give them to a public model beside ``PrivateRetrievalChain(...).as_tool()``, which answers one
    fact: ``create_agent(model, tools=[chain.as_tool(), *counting_tools(llm, corpus)])``. A tool
    says to the agent when the budget is used up.

    Args:
        llm: Counts, and pays from its ledger.
        documents: A corpus, a Chroma collection, or a list of documents.
    """
    return [
        StructuredTool.from_function(
            func=tool.call,
            coroutine=tool.acall,
            name=tool.name,
            description=tool.description,
        )
        for tool in framework_bridge.counting_tools(llm, documents)
    ]


class _ToolInput(BaseModel):
    question: str = Field(description="One self-contained question.")


@contextmanager
def _told() -> Iterator[None]:
    """Let an agent know of an error of this library."""
    try:
        yield
    except DPICLError as error:
        raise ToolException(str(error)) from None


async def _one(input: ChainInput) -> AsyncIterator[ChainInput]:
    yield input
