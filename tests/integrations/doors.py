"""Adapters of LangChain and LlamaIndex in one table, each with its ways to ask."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import Runnable
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import ChatMessage

import langchain_dpicl_rag as langchain
import llama_index_dpicl_rag as llama_index
from dpicl_rag import PrivateContextLLM
from dpicl_rag.accounting import DIRECT
from dpicl_rag.documents import as_documents
from dpicl_rag.retrieval import GivenDocuments

QUESTION = "What is the disease?"
DOCUMENTS = ["Ann has zingpocket.", "Bob has zingpocket."]


@dataclass(frozen=True)
class Listeners:
    """Who is told of a door's calls: handlers of LangChain, and a manager of LlamaIndex."""

    handlers: tuple[Any, ...] = ()
    manager: CallbackManager | None = None


NOBODY = Listeners()


class Door(ABC):
    """An adapter and what it is asked."""

    @property
    @abstractmethod
    def held(self) -> dict[str, Any]:
        """What its user holds, by name."""

    @abstractmethod
    def ask(self) -> Any:
        """A whole answer."""

    @abstractmethod
    def stream(self) -> Generator[Any]:
        """An answer in pieces, not begun."""

    @abstractmethod
    async def astream(self) -> AsyncGenerator[Any]:
        """``stream`` for async callers."""

    @abstractmethod
    def at_once(self, count: int) -> list[Any]:
        """Answers asked for at the same time; errors are among them."""

    @abstractmethod
    async def aat_once(self, count: int) -> list[Any]:
        """``at_once`` for async callers."""


@dataclass
class LangChainDoor(Door):
    adapter: Runnable[Any, Any]
    listeners: Listeners = NOBODY
    asked: Any = QUESTION

    @property
    def held(self) -> dict[str, Any]:
        bare = getattr(self.adapter, "bound", self.adapter)
        searched = {"retriever": bare.retriever} if hasattr(bare, "retriever") else {}
        return {"adapter": bare, "bound adapter": self.adapter, **searched}

    @property
    def config(self) -> Any:
        return {"callbacks": [*self.listeners.handlers]}

    def ask(self) -> Any:
        return self.adapter.invoke(self.asked, self.config)

    def stream(self) -> Any:
        return self.adapter.stream(self.asked, self.config)

    async def astream(self) -> Any:
        return self.adapter.astream(self.asked, self.config)

    def at_once(self, count: int) -> list[Any]:
        config = {**self.config, "max_concurrency": count}
        return self.adapter.batch([self.asked] * count, config, return_exceptions=True)

    async def aat_once(self, count: int) -> list[Any]:
        return await self.adapter.abatch([self.asked] * count, self.config, return_exceptions=True)


@dataclass
class LlamaIndexDoor(Door):
    adapter: Any
    whole: Callable[[], Any]
    pieces: Callable[[], Any]
    awhole: Callable[[], Awaitable[Any]]
    apieces: Callable[[], Awaitable[Any]]

    @property
    def held(self) -> dict[str, Any]:
        return {"adapter": self.adapter}

    def ask(self) -> Any:
        return self.whole()

    def stream(self) -> Any:
        made = self.pieces()
        return getattr(made, "response_gen", made)

    async def astream(self) -> Any:
        made = await self.apieces()
        return getattr(made, "response_gen", made)

    def at_once(self, count: int) -> list[Any]:
        with ThreadPoolExecutor(count) as pool:
            asked = [pool.submit(self.whole) for _ in range(count)]
        return [one.exception() or one.result() for one in asked]

    async def aat_once(self, count: int) -> list[Any]:
        return await asyncio.gather(*(self.awhole() for _ in range(count)), return_exceptions=True)


def _retriever(documents: Any) -> Any:
    return GivenDocuments(as_documents(documents)) if isinstance(documents, list) else documents


def _text(llm: PrivateContextLLM, documents: Any, listeners: Listeners = NOBODY) -> Door:
    return LangChainDoor(langchain.PrivateLLM(llm).bind(documents=documents), listeners)


def _chat(llm: PrivateContextLLM, documents: Any, listeners: Listeners = NOBODY) -> Door:
    return LangChainDoor(langchain.ChatPrivateContext(llm).bind(documents=documents), listeners)


def _chain(llm: PrivateContextLLM, documents: Any, listeners: Listeners = NOBODY) -> Door:
    chain = langchain.PrivateRetrievalChain(_retriever(documents), llm=llm)
    return LangChainDoor(chain, listeners)


def _combine(llm: PrivateContextLLM, documents: Any, listeners: Listeners = NOBODY) -> Door:
    combine = langchain.PrivateCombineDocuments(llm, stability=DIRECT)
    return LangChainDoor(combine, listeners, {"input": QUESTION, "context": documents})


def _complete(llm: PrivateContextLLM, documents: Any, listeners: Listeners = NOBODY) -> Door:
    model = llama_index.PrivateLLM(llm, callback_manager=listeners.manager)
    return LlamaIndexDoor(
        model,
        lambda: model.complete(QUESTION, documents=documents),
        lambda: model.stream_complete(QUESTION, documents=documents),
        lambda: model.acomplete(QUESTION, documents=documents),
        lambda: model.astream_complete(QUESTION, documents=documents),
    )


def _messages(llm: PrivateContextLLM, documents: Any, listeners: Listeners = NOBODY) -> Door:
    model = llama_index.PrivateLLM(llm, callback_manager=listeners.manager)
    messages = [ChatMessage(QUESTION)]
    return LlamaIndexDoor(
        model,
        lambda: model.chat(messages, documents=documents),
        lambda: model.stream_chat(messages, documents=documents),
        lambda: model.achat(messages, documents=documents),
        lambda: model.astream_chat(messages, documents=documents),
    )


def _engine(llm: PrivateContextLLM, documents: Any, listeners: Listeners = NOBODY) -> Door:
    whole, streaming = (
        llama_index.PrivateQueryEngine(
            llm, _retriever(documents), streaming=streams, callback_manager=listeners.manager
        )
        for streams in (False, True)
    )
    return LlamaIndexDoor(
        whole,
        lambda: whole.query(QUESTION),
        lambda: streaming.query(QUESTION),
        lambda: whole.aquery(QUESTION),
        lambda: streaming.aquery(QUESTION),
    )


def _synthesizer(
    llm: PrivateContextLLM, documents: list[str], listeners: Listeners = NOBODY
) -> Door:
    whole, streaming = (
        llama_index.PrivateSynthesizer(
            llm,
            unit_field="document",
            stability=DIRECT,
            streaming=streams,
            callback_manager=listeners.manager,
        )
        for streams in (False, True)
    )
    return LlamaIndexDoor(
        whole,
        lambda: whole.get_response(QUESTION, documents),
        lambda: streaming.get_response(QUESTION, documents),
        lambda: whole.aget_response(QUESTION, documents),
        lambda: streaming.aget_response(QUESTION, documents),
    )


SEARCHING: dict[str, Callable[..., Door]] = {
    "LangChain llm": _text,
    "LangChain chat": _chat,
    "LangChain chain": _chain,
    "LangChain combine": _combine,
    "LlamaIndex complete": _complete,
    "LlamaIndex chat": _messages,
    "LlamaIndex engine": _engine,
}
"""Doors that take a retriever in place of documents."""

DOORS = {**SEARCHING, "LlamaIndex synthesizer": _synthesizer}
