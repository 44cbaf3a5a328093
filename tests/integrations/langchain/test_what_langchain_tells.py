"""The table of docs/langchain.md: what LangChain tells by itself.

That none of it is left is shown by the leak test. These tests show that its handlers, tracer and
cache are awake.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest
from langchain_chroma import Chroma
from langchain_classic.chains import create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_core.language_models import FakeListChatModel, SimpleChatModel
from langchain_core.messages import AIMessageChunk, HumanMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableSerializable
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_dpicl_rag import PrivateCombineDocuments, PrivateRetrievalChain
from tests.integrations.langchain.recorders import observed, recording_handler
from tests.integrations.langchain.support import (
    QUESTION,
    WordEmbeddings,
    chroma_store,
    make_llm,
)
from tests.integrations.leak_probe import SECRET, LeakProbe

TEXTS = [f"Patient {number} has {SECRET}." for number in range(3)]


def places_told(run: Callable[[LeakProbe], Any]) -> set[str]:
    """Where the secret shows while something runs under observation."""
    probe = LeakProbe()
    with observed(probe), probe.listening():
        probe.see("output", run(probe))
    return set(probe.findings)


def store() -> InMemoryVectorStore:
    return InMemoryVectorStore.from_texts(TEXTS, WordEmbeddings())


def model() -> FakeListChatModel:
    return FakeListChatModel(responses=["Something."])


def rag(combine: Any = None) -> Any:
    prompt = ChatPromptTemplate.from_template("{context} {input}")
    return create_retrieval_chain(
        store().as_retriever(), combine or create_stuff_documents_chain(model(), prompt)
    )


def test_chain_shows_documents_at_every_edge():
    def run(probe: LeakProbe) -> Any:
        return rag().invoke({"input": QUESTION}, {"callbacks": [recording_handler(probe)]})

    assert places_told(run) >= {
        "callback on_retriever_end",
        "callback on_chain_start",
        "callback on_chain_end",
        "callback on_chat_model_start",
        "cache key",
        "trace POST",
        "stdout",
        "output",
    }


def test_no_callbacks_do_not_stop_a_tracer():
    told = places_told(lambda probe: rag().invoke({"input": QUESTION}, {"callbacks": []})["answer"])
    assert {"trace POST", "callback on_retriever_end"} <= told
    assert "output" not in told


def test_chain_around_private_combine_documents_still_shows_them(tiny_model):
    """As its docstring says."""
    combine = PrivateCombineDocuments(make_llm(tiny_model), unit_field="document")
    told = places_told(lambda probe: rag(combine).invoke({"input": QUESTION}))
    assert {"callback on_retriever_end", "output"} <= told
    assert "callback on_chat_model_start" not in told


def test_arguments_of_a_call_go_to_callbacks_and_reprs():
    def run(probe: LeakProbe) -> Any:
        bound = model().bind(documents=TEXTS)
        probe.see("repr", repr(bound))
        return bound.invoke(QUESTION, {"callbacks": [recording_handler(probe)]})

    assert {"repr", "callback on_chat_model_start"} <= places_told(run)


def test_content_blocks_go_to_callbacks_and_cache():
    def run(probe: LeakProbe) -> Any:
        blocks = [{"type": "text-plain", "text": text} for text in TEXTS]
        return model().invoke([HumanMessage(content=[QUESTION, *blocks])])

    assert {"callback on_chat_model_start", "cache key"} <= places_told(run)


def test_retry_runs_again_after_any_error():
    calls = []

    class Unlucky(SimpleChatModel):
        @property
        def _llm_type(self) -> str:
            return "unlucky"

        def _call(self, messages: Any, *args: Any, **kwargs: Any) -> str:
            calls.append(messages)
            raise KeyError("any")

    with pytest.raises(KeyError):
        Unlucky().with_retry(wait_exponential_jitter=False).invoke(QUESTION)
    assert len(calls) == 3


async def test_closed_async_stream_leaves_the_model_open():
    class Streaming(SimpleChatModel):
        @property
        def _llm_type(self) -> str:
            return "streaming"

        def _call(self, *args: Any, **kwargs: Any) -> str:
            return ""

        async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
            try:
                while True:
                    yield ChatGenerationChunk(message=AIMessageChunk(content="a"))
            finally:
                await settled.wait()
                ended.append(True)

    ended: list[bool] = []
    settled = asyncio.Event()
    async with aclosing(Streaming().astream(QUESTION)) as stream:
        await anext(stream)
    assert not ended
    settled.set()
    while not ended:  # the event loop comes upon it
        await asyncio.sleep(0)


async def test_runnable_without_astream_comes_in_one_piece():
    class Pieces(RunnableSerializable[str, str]):
        def invoke(self, input: str, config: Any = None, **kwargs: Any) -> str:
            return "ab"

        def stream(self, input: str, config: Any = None, **kwargs: Any) -> Iterator[str]:
            yield from "ab"

    pieces: AsyncIterator[str] = Pieces().astream(QUESTION)
    assert [piece async for piece in pieces] == ["ab"]


def test_chroma_is_scanned_and_never_searched(tiny_model, tmp_path, monkeypatch):
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the store's own search was used")

    chain = PrivateRetrievalChain(
        chroma_store(tmp_path, TEXTS), unit_field="patient", llm=make_llm(tiny_model)
    )
    for name in dir(Chroma):
        if "search" in name or "query" in name:
            monkeypatch.setattr(Chroma, name, refuse)
    monkeypatch.setattr("chromadb.Collection.query", refuse)
    assert chain.invoke(QUESTION)


def test_filling_a_store_tells_nothing(tmp_path):
    def run(probe: LeakProbe) -> None:
        Chroma("notes", WordEmbeddings(), persist_directory=str(tmp_path)).add_texts(TEXTS)

    assert places_told(run) == set()
