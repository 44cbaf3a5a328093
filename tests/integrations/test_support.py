"""Whether documents support an answer reaches callers through every door, streams at their end."""

from __future__ import annotations

import asyncio
import inspect
import json
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from httpx import Response
from llama_index.core.llms import ChatMessage

from dpicl_rag import Ledger, PrivateContextLLM
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.results import UNSUPPORTED
from dpicl_rag.retrieval import GivenDocuments
from dpicl_rag.server.service import ServedCorpus, Service
from langchain_dpicl_rag import (
    ChatPrivateContext,
    PrivateCombineDocuments,
    PrivateLLM,
    PrivateRetrievalChain,
)
from llama_index_dpicl_rag import PrivateLLM as LlamaIndexLLM
from llama_index_dpicl_rag import PrivateQueryEngine
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.served_in_process import called, chat, events, posted

QUESTION = "Which letters?"
AGREEING = [f"agrees {number}: abc" for number in range(40)]
SILENT = [f"is silent {number}" for number in range(40)]
SIZE = 8

Answer = tuple[list[str], Any]
"""Pieces of the text, and what is told beside it of the documents' support."""


def speech(text: str, history: tuple[int, ...]) -> list[float]:
    """Documents that agree are sure of a, b, c and so on; all others find all letters alike."""
    sure = 12.0 * text.startswith("agrees")
    return [sure * (token == len(history)) for token in range(SIZE)]


class Coins(Randomness):
    """The same in every run: noise alone would pass the line once in a thousand."""

    def __init__(self) -> None:
        self._random = random.Random(1)

    def uniform(self) -> float:
        return self._random.random()

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


def langchain_model(llm: PrivateContextLLM, texts: list[str]) -> Answer:
    [[one]] = PrivateLLM(llm).generate([QUESTION], documents=texts).generations
    return [one.text], one.generation_info["supported"]


def langchain_chat(llm: PrivateContextLLM, texts: list[str]) -> Answer:
    message = ChatPrivateContext(llm).invoke(QUESTION, documents=texts)
    return [message.content], message.response_metadata["supported"]


def langchain_chat_stream(llm: PrivateContextLLM, texts: list[str]) -> Answer:
    *chunks, end = ChatPrivateContext(llm).stream(QUESTION, documents=texts)
    assert not any(chunk.response_metadata.keys() & {"supported"} for chunk in chunks)
    return [chunk.content for chunk in chunks], end.response_metadata["supported"]


def langchain_chain(llm: PrivateContextLLM, texts: list[str]) -> Answer:
    found = PrivateRetrievalChain(GivenDocuments(texts), llm=llm, numbers=True).invoke(QUESTION)
    return [found["answer"]], found["supported"]


def langchain_chain_stream(llm: PrivateContextLLM, texts: list[str]) -> Answer:
    chain = PrivateRetrievalChain(GivenDocuments(texts), llm=llm, numbers=True)
    *pieces, end = chain.stream(QUESTION)
    return [piece["answer"] for piece in pieces], end["supported"]


async def langchain_chain_astream(llm: PrivateContextLLM, texts: list[str]) -> Answer:
    chain = PrivateRetrievalChain(GivenDocuments(texts), llm=llm, numbers=True)
    *pieces, end = await read(chain.astream(QUESTION))
    return [piece["answer"] for piece in pieces], end["supported"]


def langchain_combine(llm: PrivateContextLLM, texts: list[str]) -> Answer:
    asked = {"input": QUESTION, "context": GivenDocuments(texts)}
    found = PrivateCombineDocuments(llm, numbers=True).invoke(asked)
    return [found["answer"]], found["supported"]


def llama_index_complete(llm: PrivateContextLLM, texts: list[str]) -> Answer:
    response = LlamaIndexLLM(llm).complete(QUESTION, documents=texts)
    return [response.text], response.additional_kwargs["supported"]


def llama_index_stream(llm: PrivateContextLLM, texts: list[str]) -> Answer:
    *responses, end = LlamaIndexLLM(llm).stream_complete(QUESTION, documents=texts)
    return [response.delta for response in responses], end.additional_kwargs["supported"]


async def llama_index_astream_chat(llm: PrivateContextLLM, texts: list[str]) -> Answer:
    stream = await LlamaIndexLLM(llm).astream_chat([ChatMessage(QUESTION)], documents=texts)
    *responses, end = await read(stream)
    return [response.delta for response in responses], end.message.additional_kwargs["supported"]


def llama_index_engine(llm: PrivateContextLLM, texts: list[str]) -> Answer:
    response = PrivateQueryEngine(llm, GivenDocuments(texts)).query(QUESTION)
    return [response.response], response.metadata["supported"]


def llama_index_engine_stream(llm: PrivateContextLLM, texts: list[str]) -> Answer:
    response = PrivateQueryEngine(llm, GivenDocuments(texts), streaming=True).query(QUESTION)
    return list(response.response_gen), response.metadata["supported"]


async def llama_index_engine_astream(llm: PrivateContextLLM, texts: list[str]) -> Answer:
    engine = PrivateQueryEngine(llm, GivenDocuments(texts), streaming=True)
    response = await engine.aquery(QUESTION)
    pieces = await read(response.async_response_gen())
    return pieces, response.metadata["supported"]


def over_http(llm: PrivateContextLLM, texts: list[str], path: str, **body: Any) -> Response:
    [response] = served(llm, texts, posted, path, body)
    return response


def http_chat(llm: PrivateContextLLM, texts: list[str]) -> Answer:
    found = over_http(llm, texts, "/v1/chat/completions", **chat(QUESTION)).json()
    return [found["choices"][0]["message"]["content"]], found["privacy"]["supported"]


def http_chat_stream(llm: PrivateContextLLM, texts: list[str]) -> Answer:
    found = events(over_http(llm, texts, "/v1/chat/completions", **chat(QUESTION, stream=True)))
    said = [one["choices"][0]["delta"].get("content") for one in found]
    [supported] = [one["privacy"]["supported"] for one in found if "privacy" in one]
    return [piece for piece in said if piece], supported


def http_responses(llm: PrivateContextLLM, texts: list[str]) -> Answer:
    found = over_http(llm, texts, "/v1/responses", input=QUESTION).json()
    return [found["output"][0]["content"][0]["text"]], found["privacy"]["supported"]


def http_responses_stream(llm: PrivateContextLLM, texts: list[str]) -> Answer:
    found = events(over_http(llm, texts, "/v1/responses", input=QUESTION, stream=True))
    said = [one["delta"] for one in found if one["type"] == "response.output_text.delta"]
    return said, found[-1]["response"]["privacy"]["supported"]


def tool_of_agents(llm: PrivateContextLLM, texts: list[str]) -> Answer:
    [result] = served(llm, texts, called, "ask", {"question": QUESTION})
    [told] = result.content  # many clients read the text alone
    assert json.loads(told.text) == result.structuredContent
    return [result.structuredContent["text"]], result.structuredContent["supported"]


def served(llm: PrivateContextLLM, texts: list[str], ask: Callable[..., Any], *given: Any) -> Any:
    """What a server says that has the settings of a model, by whatever asks it."""
    # A ledger books it, so that nothing would be drawn by default.
    settings = {"agreement": "auto", **llm.config.model_dump(exclude_unset=True)}
    with TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.sqlite")
        ledger.set_budget(corpus="notes", rho=100.0)
        corpora = {"notes": ServedCorpus(GivenDocuments(texts), settings)}
        coins = {"randomness": Coins()}
        return ask(Service(llm.model, corpora, ledger, embedder=BucketEmbedder(), **coins), *given)


async def read(pieces: AsyncIterator[Any]) -> list[Any]:
    return [piece async for piece in pieces]


DOORS: list[Callable[..., Any]] = [
    langchain_model,
    langchain_chat,
    langchain_chat_stream,
    langchain_chain,
    langchain_chain_stream,
    langchain_chain_astream,
    langchain_combine,
    llama_index_complete,
    llama_index_stream,
    llama_index_astream_chat,
    llama_index_engine,
    llama_index_engine_stream,
    llama_index_engine_astream,
    http_chat,
    http_chat_stream,
    http_responses,
    http_responses_stream,
    tool_of_agents,
]


@pytest.fixture(params=DOORS, ids=lambda door: door.__name__)
def door(request):
    return request.param


@pytest.fixture
def ask(door):
    async def ask(texts: list[str], **settings: Any) -> Answer:
        model = SyntheticModel(SIZE, speech)
        llm = PrivateContextLLM(model, max_tokens=3, randomness=Coins(), **settings)
        # Apart from this loop: a server has its own.
        found = await asyncio.to_thread(door, llm, texts)
        return found if isinstance(found, tuple) else await found

    return ask


@pytest.mark.one_in(3)
@pytest.mark.parametrize("unsupported", ["mark", "refuse"])
async def test_what_documents_agree_on_is_supported(ask, unsupported):
    pieces, supported = await ask(AGREEING, unsupported=unsupported)
    assert "".join(pieces) == "abc"
    assert supported is True


async def test_what_they_do_not_is_marked(ask):
    pieces, supported = await ask(SILENT, unsupported="mark")
    assert len("".join(pieces)) == 3
    assert supported is False


async def test_or_a_sentence_takes_its_place_and_nothing_of_it_is_shown(ask):
    assert await ask(SILENT, unsupported="refuse") == ([UNSUPPORTED], False)


async def test_where_nobody_chose_a_text_that_is_read_alone_is_no_guess(ask, door):
    pieces, supported = await ask(SILENT)
    told_beside = "numbers=True" in inspect.getsource(door)
    assert supported is False
    assert (pieces == [UNSUPPORTED]) != told_beside


async def test_what_is_not_asked_is_not_said(ask):
    pieces, supported = await ask(SILENT, unsupported="ignore")
    assert len("".join(pieces)) == 3
    assert supported is None
