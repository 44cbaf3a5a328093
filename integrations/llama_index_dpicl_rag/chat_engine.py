"""A LlamaIndex chat engine: a conversation with private documents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.callbacks import trace_method
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
from llama_index.core.tools import ToolOutput

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.retrieval import Retriever
from dpicl_rag.retrieval.vectors import VectorSource
from llama_index_dpicl_rag.chat_messages import turns_of
from llama_index_dpicl_rag.llm import PrivateLLM
from llama_index_dpicl_rag.query_engine import OPTIONS, PrivateQueryEngine
from llama_index_dpicl_rag.refused_options import refuse_options

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
        refuse_options({name: options[name] for name in options if name not in OPTIONS}, OPTIONS)
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
        """Answer a message."""
        question = self._question(message, chat_history or self._memory.get(message))
        response = self._whole.query(question)
        for turn in _turns(message, str(response)):
            self._memory.put(turn)
        return AgentChatResponse(str(response), [_source(question, response)])

    @trace_method("chat")
    async def achat(self, message: str, chat_history: History = None) -> AgentChatResponse:
        """``chat`` in a worker thread."""
        turns = chat_history or await self._memory.aget(message)
        question = await asyncio.to_thread(self._question, message, turns)
        response = await self._whole.aquery(question)
        for turn in _turns(message, str(response)):
            await self._memory.aput(turn)
        return AgentChatResponse(str(response), [_source(question, response)])

    @trace_method("chat")
    def stream_chat(self, message: str, chat_history: History = None) -> StreamingAgentChatResponse:
        """Answer a message piece by piece."""
        question = self._question(message, chat_history or self._memory.get(message))
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
                for turn in _turns(message, said):
                    self._memory.put(turn)

        return StreamingAgentChatResponse(
            sources=[_source(question, response)], chat_stream=pieces(), is_writing_to_memory=False
        )

    @trace_method("chat")
    async def astream_chat(
        self, message: str, chat_history: History = None
    ) -> StreamingAgentChatResponse:
        """``stream_chat`` with each piece drawn in a worker thread."""
        turns = chat_history or await self._memory.aget(message)
        question = await asyncio.to_thread(self._question, message, turns)
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
                for turn in _turns(message, said):
                    await self._memory.aput(turn)

        return StreamingAgentChatResponse(
            sources=[_source(question, response)],
            achat_stream=pieces(),
            is_writing_to_memory=False,
        )

    def reset(self) -> None:
        """Forget the turns. What they have spent stays spent."""
        self._memory.reset()

    @property
    def chat_history(self) -> list[ChatMessage]:
        """The turns."""
        return self._memory.get_all()

    def _question(self, message: str, before: list[ChatMessage]) -> str:
        return self._whole.llm.whole_question(message, turns_of(before))


def _turns(message: str, answer: str) -> list[ChatMessage]:
    """What is said next time; nothing where the stream was left before its first piece."""
    if not answer:
        return []
    return [ChatMessage(message), ChatMessage(answer, role=MessageRole.ASSISTANT)]


def _source(question: str, response: Any) -> ToolOutput:
    # Of a stream the words are to come.
    words = "" if isinstance(response, (StreamingResponse, AsyncStreamingResponse)) else response
    return ToolOutput(
        str(words), "query_engine", raw_input={"query": question}, raw_output=response
    )
