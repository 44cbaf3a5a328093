"""Engines of LlamaIndex: queries, chats and tools that own retrieval."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole
from llama_index.core.base.response.schema import (
    RESPONSE_TYPE,
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index.core.callbacks import CallbackManager, trace_method
from llama_index.core.chat_engine.types import (
    AgentChatResponse,
    BaseChatEngine,
    StreamingAgentChatResponse,
)
from llama_index.core.chat_engine.utils import (
    aresponse_gen_from_query_engine,
    response_gen_from_query_engine,
)
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import FunctionTool, QueryEngineTool, ToolMetadata, ToolOutput

from dpicl_rag import framework_bridge
from dpicl_rag.errors import ConfigurationError, DPICLError
from dpicl_rag.framework_bridge import PrivateCall, split_fields
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.retrieval import Documents, Retriever
from dpicl_rag.retrieval.vectors import VectorSource, Where
from llama_index_dpicl_rag.llm import PrivateLLM, llm_from, turns_of
from llama_index_dpicl_rag.recorder import arespond, respond
from llama_index_dpicl_rag.refused_options import options_of, refuse_options, refuse_prompts
from llama_index_dpicl_rag.vector_indexes import private_retriever


class PrivateQueryEngine(BaseQueryEngine):
    """Answers queries about private documents; nodes never cross a LlamaIndex edge.

    Retrieval scans the vectors exactly, inside the guarantee. Responses have no source nodes, and
    an index without a match is asked like any other, so the answer does not tell. Give agents
    ``as_tool()``, or call it in a Workflow step. ``retrieve`` raises NotImplementedError.

    An answer that the documents do not support is replaced by a fixed sentence, as people print a
    response and its text does not say it; ``unsupported="mark"`` in the llm's settings keeps the
    answer, and streams as it is drawn. ``response.metadata`` says ``supported`` in any case.

    The question is public: what LlamaIndex embeds and records of it is its text. Only
    ``query_str`` of a ``QueryBundle`` is used.

    Args:
        llm: The private language model: ``dpicl_rag.PrivateContextLLM``, or a ``PrivateLLM``.
        retriever: Any retriever of ``dpicl_rag.retrieval``, a ``dpicl_rag.Corpus``, or a
            ``VectorStoreIndex`` on a ``ChromaVectorStore`` or a ``SimpleVectorStore``. Over a
            corpus or an index about as many of the closest units are read as the llm's setting
            ``units`` says, by a private search that the answer's epsilon pays for. LlamaIndex's own
            retrievers are refused: their search is approximate, or cut to the nearest nodes.
        unit_field: For an index: metadata field of the nodes that holds the privacy unit; by
            default the source document of the node (nodes without one are a single unit).
            ``"document"`` makes each node a unit of its own; only right where no document was cut
            into several nodes.
        threshold: In place of that search: least cosine of a unit's best node with the question.
        top_k: In place of that search: the nearest units. Costs twice as much, and individual
            accounting does not apply.
        where: On Chroma: filter on metadata, for example ``{"owner": "ann"}``.
        reader: A chat model that reads each unit in the llm's place, such as ``OpenAI(...)``; see
            ``PrivateContextLLM``.
        streaming: Respond with ``StreamingResponse``, or ``AsyncStreamingResponse`` to ``aquery``.
            The answer begins, and budgets are asked, with the first piece.
        callback_manager: LlamaIndex's callbacks.
        **fields: ``fresh=True`` asks the documents again where the memory has the answer to the
            same question. Others are refused; the message names what stands in the place of
            LlamaIndex's options.

    Raises:
        ConfigurationError: The retriever is refused, or an option does not go with it, or the
            llm's ``privacy_unit`` is not ``unit_field``.
    """

    def __init__(
        self,
        llm: PrivateContextLLM | PrivateLLM,
        retriever: Retriever | VectorSource | VectorStoreIndex,
        *,
        unit_field: str | None = None,
        threshold: float | None = None,
        top_k: int | None = None,
        where: Where | None = None,
        reader: Any = None,
        streaming: bool = False,
        callback_manager: CallbackManager | None = None,
        **fields: Any,
    ) -> None:
        self._fields, unknown = split_fields(fields)
        refuse_options(unknown, options_of(PrivateQueryEngine))
        super().__init__(callback_manager)
        self._llm = llm_from(llm, unit_field).with_settings(reader=reader)
        self._streaming = streaming
        self._retriever = private_retriever(
            retriever,
            unit_field=unit_field,
            threshold=threshold,
            top_k=top_k,
            where=where,
            units=self._llm.config.units,
        )

    def as_tool(
        self, *, name: str = "ask_private_documents", description: str | None = None
    ) -> QueryEngineTool:
        """A tool for agents. An error of this library is said to the agent in place of an answer.

        Args:
            name: Name of the tool.
            description: For the agent. Public.
        """
        said = description or "Answers one self-contained question from private documents."
        # LlamaIndex would ask, and pay for, the words of any other argument.
        metadata = ToolMetadata(name=name, description=said)
        return _PrivateTool(self, metadata, resolve_input_errors=False)

    @property
    def llm(self) -> PrivateContextLLM:
        """The private language model, as this engine asks it."""
        return self._llm

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}

    _update_prompts = refuse_prompts

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        return respond(self._call(query_bundle), streaming=self._streaming)

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        return await arespond(self._call(query_bundle), streaming=self._streaming)

    def _call(self, query: QueryBundle) -> PrivateCall:
        return PrivateCall(self._llm, query.query_str, self._retriever, self._fields)


class _PrivateTool(QueryEngineTool):
    """A query engine as a tool whose errors are sentences."""

    def call(self, *args: Any, **kwargs: Any) -> ToolOutput:
        try:
            return super().call(*args, **kwargs)
        except DPICLError as error:
            return self._told(error, *args, **kwargs)

    async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
        try:
            return await super().acall(*args, **kwargs)
        except DPICLError as error:
            return self._told(error, *args, **kwargs)

    def _told(self, error: DPICLError, *args: Any, **kwargs: Any) -> ToolOutput:
        name, words = self.metadata.get_name(), str(error)
        question = {"input": self._get_query_str(*args, **kwargs)}
        return ToolOutput(name, words, raw_input=question, raw_output=words, is_error=True)


_REMEMBERED = 3000  # tokens of turns

History = list[ChatMessage] | None


class PrivateChatEngine(BaseChatEngine):
    """Chats about private documents; each message is an answer that is paid for.

    A message that leans on those before it is put into a whole question first, by the public model
    (or the ``reader``), from the turns alone, which are public. Only that question is asked, so
    nodes never cross a LlamaIndex edge, and no turn but the last one is paid for again.

    ``response.sources[0].raw_output.metadata`` has the question as it was asked, and what stands
    beside its answer. A stream is drawn as it is read: ``response.chat_stream.close()`` ends it,
    and only what was released is paid for.

    Args:
        llm: The private language model: ``dpicl_rag.PrivateContextLLM``, or a ``PrivateLLM``.
        retriever: As for `PrivateQueryEngine`.
        chat_history: Turns of an earlier conversation. Public.
        memory: Where turns are kept; by default in this object.
        **options: Options of `PrivateQueryEngine` but ``streaming``: ``stream_chat`` streams.

    Raises:
        ConfigurationError: As for `PrivateQueryEngine`.
    """

    def __init__(
        self,
        llm: PrivateContextLLM | PrivateLLM,
        retriever: Retriever | VectorSource | VectorStoreIndex,
        *,
        chat_history: History = None,
        memory: BaseMemory | None = None,
        **options: Any,
    ) -> None:
        if "streaming" in options:
            raise ConfigurationError("leave streaming out: chat answers whole, stream_chat streams")
        if memory is None:
            # LlamaIndex's newer Memory leaves connections to a database open.
            turns = [*(chat_history or ())]
            memory = ChatMemoryBuffer.from_defaults(turns, token_limit=_REMEMBERED)
        elif chat_history is not None:
            raise ConfigurationError("give chat_history or memory, not both")
        self._memory = memory
        self._whole = PrivateQueryEngine(llm, retriever, **options)
        self._streaming = PrivateQueryEngine(llm, retriever, streaming=True, **options)
        self.callback_manager = self._whole.callback_manager

    @trace_method("chat")
    def chat(self, message: str, chat_history: History = None) -> AgentChatResponse:
        """Answer a message; turns that are given take the place of those in memory."""
        question = self._question(message, chat_history)
        response = self._whole.query(question)
        self._memory.put_messages(_turns(message, str(response)))
        return AgentChatResponse(str(response), [_source(question, response)])

    @trace_method("chat")
    async def achat(self, message: str, chat_history: History = None) -> AgentChatResponse:
        """``chat`` in a worker thread."""
        question = await self._aquestion(message, chat_history)
        response = await self._whole.aquery(question)
        await self._memory.aput_messages(_turns(message, str(response)))
        return AgentChatResponse(str(response), [_source(question, response)])

    @trace_method("chat")
    def stream_chat(self, message: str, chat_history: History = None) -> StreamingAgentChatResponse:
        """Answer a message piece by piece."""
        question = self._question(message, chat_history)
        response = self._streaming.query(question)
        assert isinstance(response, StreamingResponse)

        def pieces() -> Generator[ChatResponse, None, None]:
            said = ""
            try:
                for piece in response_gen_from_query_engine(response.response_gen):
                    said = piece.message.content or ""
                    yield piece
            finally:
                response.response_gen.close()
                self._memory.put_messages(_turns(message, said))

        return StreamingAgentChatResponse(
            sources=[_source(question, response)], chat_stream=pieces(), is_writing_to_memory=False
        )

    @trace_method("chat")
    async def astream_chat(
        self, message: str, chat_history: History = None
    ) -> StreamingAgentChatResponse:
        """``stream_chat`` with each piece drawn in a worker thread."""
        question = await self._aquestion(message, chat_history)
        response = await self._streaming.aquery(question)
        assert isinstance(response, AsyncStreamingResponse)

        async def pieces() -> AsyncGenerator[ChatResponse, None]:
            said, drawn = "", response.async_response_gen()
            try:
                async for piece in aresponse_gen_from_query_engine(drawn):
                    said = piece.message.content or ""
                    yield piece
            finally:
                await drawn.aclose()
                await self._memory.aput_messages(_turns(message, said))

        return StreamingAgentChatResponse(
            sources=[_source(question, response)], achat_stream=pieces(), is_writing_to_memory=False
        )

    def reset(self) -> None:
        """Forget the turns. What they have spent stays spent."""
        self._memory.reset()

    @property
    def chat_history(self) -> list[ChatMessage]:
        """The turns."""
        return self._memory.get_all()

    def _question(self, message: str, turns: History) -> str:
        if turns is not None:  # an empty list is a conversation that begins
            self._memory.set([*turns])
        return self._whole.llm.whole_question(message, turns_of(self._memory.get(message)))

    async def _aquestion(self, message: str, turns: History) -> str:
        if turns is not None:
            await self._memory.aset([*turns])
        before = turns_of(await self._memory.aget(message))
        return await asyncio.to_thread(self._whole.llm.whole_question, message, before)


def _turns(message: str, answer: str) -> list[ChatMessage]:
    """Turns of a message and its answer; none where the stream was left before its first piece."""
    turns = [ChatMessage(message), ChatMessage(answer, role=MessageRole.ASSISTANT)]
    return turns if answer else []


def _source(question: str, response: Any) -> ToolOutput:
    # Of a stream the words are to come.
    words = str(response) if isinstance(response, Response) else ""
    return ToolOutput("query_engine", words, raw_input={"query": question}, raw_output=response)


def counting_tools(llm: PrivateContextLLM, documents: Documents) -> list[FunctionTool]:
    """Tools for agents that count private documents: ``count``, ``tally`` and ``survey``.

    Give them to a public model beside ``llm.as_query_engine(index).as_tool()``, which answers one
    fact. A tool says to the agent when the budget is used up.

    Args:
        llm: Counts, and pays from its ledger.
        documents: A corpus, a Chroma collection, or a list of documents.
    """
    return [
        FunctionTool.from_defaults(
            fn=tool.call, async_fn=tool.acall, name=tool.name, description=tool.description
        )
        for tool in framework_bridge.counting_tools(llm, documents)
    ]
