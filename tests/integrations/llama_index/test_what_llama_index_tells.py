"""The table of docs/llama_index.md: what LlamaIndex tells by itself, and what is left of it.

These tests also show that the handlers and the probe of the leak test are awake.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from llama_index.core import Document, Settings, VectorStoreIndex
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata, MockLLM
from llama_index.core.llms.callbacks import llm_completion_callback

from llama_index_dpicl_rag import PrivateEmbedding, PrivateLLM, PrivateQueryEngine
from tests.integrations.leak_probe import SECRET, LeakProbe
from tests.integrations.llama_index.support import (
    QUESTION,
    HashEmbedding,
    chroma_index,
    instrumented,
    nodes_of,
    private_llm,
)

TEXTS = [f"Patient {number} has {SECRET}." for number in range(3)]
PARSER = {
    "span SentenceSplitter.__call__",
    "end of span SentenceSplitter.__call__",
    "log llama_index.core.node_parser.node_utils",
}
EMBEDDING = {
    "event EmbeddingEndEvent",
    "end of callback embedding",
    "span HashEmbedding.get_text_embedding_batch",
}


@pytest.fixture
def no_global_callbacks() -> Iterator[None]:
    before = Settings._callback_manager
    yield
    Settings._callback_manager = before


def places_told(run: Callable[[], Any]) -> set[str]:
    """Where the secret shows while something runs under observation."""
    probe = LeakProbe()
    with instrumented(probe.see) as callbacks, probe.listening():
        Settings.callback_manager = CallbackManager([callbacks])
        probe.see("output", run())
    return set(probe.findings)


@pytest.fixture
def index(tmp_path) -> VectorStoreIndex:
    return chroma_index(tmp_path, nodes_of(TEXTS, [{"diagnosis": SECRET}] * len(TEXTS)))


@pytest.mark.usefixtures("no_global_callbacks")
def test_stock_engine_tells_everyone(index) -> None:
    told = places_told(lambda: index.as_query_engine(llm=MockLLM(max_tokens=3)).query(QUESTION))
    assert told >= {
        "output",
        "end of span VectorIndexRetriever.retrieve",
        "span CompactAndRefine.synthesize",
        "span CompactAndRefine.get_response",
        "end of span RetrieverQueryEngine.query",
        "event RetrievalEndEvent",
        "event GetResponseStartEvent",
        "event LLMPredictStartEvent",
        "event LLMCompletionStartEvent",
        "event QueryEndEvent",
        "callback templating",
        "callback llm",
        "end of callback synthesize",
        "log llama_index.core.indices.utils",
        "log llama_index.vector_stores.chroma.base",
    }


@pytest.mark.usefixtures("no_global_callbacks")
def test_private_engine_tells_no_one(index, tiny_model) -> None:
    engine = PrivateQueryEngine(private_llm(tiny_model), index, threshold=-1)
    assert places_told(lambda: engine.query(QUESTION)) == set()


def test_stock_response_holds_nodes_and_metadata(index) -> None:
    response = index.as_query_engine(llm=MockLLM(max_tokens=3)).query(QUESTION)
    assert SECRET in response.source_nodes[0].text
    assert {"diagnosis": SECRET} in response.metadata.values()


def test_stock_engine_puts_metadata_before_the_text(index) -> None:
    response = index.as_query_engine(llm=MockLLM()).query(QUESTION)  # echoes its prompt
    assert f"diagnosis: {SECRET}\n\nPatient" in response.response


def test_stock_engine_answers_zero_nodes_with_a_fixed_text() -> None:
    empty = VectorStoreIndex(nodes=[], embed_model=HashEmbedding())
    response = empty.as_query_engine(llm=MockLLM(max_tokens=3)).query(QUESTION)
    assert response.response == "Empty Response"


class Refuses(MockLLM):
    """Raises a ValueError."""

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        raise ValueError("no")


def test_stock_engine_swallows_a_value_error(index) -> None:
    response = index.as_query_engine(llm=Refuses()).query(QUESTION)
    assert response.response == "Empty Response"
    assert response.source_nodes


class Decorated(CustomLLM):
    """A language model as LlamaIndex's documentation has it."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata()

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=threading.current_thread().name)

    stream_complete = complete


@pytest.mark.usefixtures("no_global_callbacks")
def test_stock_decorator_tells_keyword_arguments(tiny_model) -> None:
    def with_documents(llm: CustomLLM) -> Callable[[], Any]:
        def run() -> Any:
            llm.callback_manager = Settings.callback_manager
            return llm.complete(QUESTION, documents=TEXTS).text

        return run

    assert places_told(with_documents(Decorated())) >= {
        "event LLMCompletionStartEvent",
        "callback llm",
        "span Decorated.complete",
    }
    private = PrivateLLM(private_llm(tiny_model))
    assert places_told(with_documents(private)) == set()


async def test_stock_async_calls_block_the_event_loop(tiny_model, monkeypatch) -> None:
    response = await Decorated().acomplete(QUESTION)
    assert response.text == threading.main_thread().name
    llm = private_llm(tiny_model)
    begin, threads = llm.begin, []

    def watched(*args: Any, **kwargs: Any) -> Any:
        threads.append(threading.current_thread())
        return begin(*args, **kwargs)

    monkeypatch.setattr(llm, "begin", watched)
    await PrivateLLM(llm).acomplete(QUESTION, documents=TEXTS)
    await asyncio.sleep(0)
    assert threads
    assert threading.main_thread() not in threads


class Ones:
    """An embedder of the library."""

    fingerprint = "ones"
    dimension = 4

    def embed(self, texts: list[str], *, query: bool = False) -> Any:
        return np.full((len(texts), 4), 0.5, dtype=np.float32)


@pytest.mark.usefixtures("no_global_callbacks")
def test_building_an_index_tells_every_text() -> None:
    def build(embed_model: Any) -> Callable[[], Any]:
        def run() -> None:
            VectorStoreIndex.from_documents(
                [Document(text=text) for text in TEXTS], embed_model=embed_model
            )

        return run

    assert places_told(build(HashEmbedding())) >= PARSER | EMBEDDING
    told = places_told(build(PrivateEmbedding(Ones())))
    assert told >= PARSER
    assert not {place for place in told if "Splitter" not in place} - PARSER


async def test_private_embedding_is_the_embedder(tiny_model) -> None:
    model = PrivateEmbedding(Ones())
    assert model.model_name == "ones"
    assert model.get_text_embedding("a") == [0.5] * 4
    assert await model.aget_text_embedding("a") == [0.5] * 4
    assert model.get_text_embedding_batch(["a", "b"]) == [[0.5] * 4] * 2
    assert await model.aget_text_embedding_batch(["a", "b"]) == [[0.5] * 4] * 2
    assert model.get_query_embedding("q") == [0.5] * 4
    assert await model.aget_query_embedding("q") == [0.5] * 4
