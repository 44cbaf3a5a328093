"""A text of LlamaIndex is one that the documents support, unless its user wanted it otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core.llms import ChatMessage
from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import QueryEngineTool

from dpicl_rag import PrivateContextLLM
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.results import UNSUPPORTED
from dpicl_rag.retrieval import GivenDocuments
from llama_index_dpicl_rag import PrivateLLM, PrivateQueryEngine, PrivateSynthesizer
from tests.integrations.llama_index.support import nodes_of
from tests.integrations.test_support import AGREEING, QUESTION, SILENT, SIZE, Coins, speech

MESSAGES = [ChatMessage(QUESTION)]


def made(**settings: Any) -> PrivateContextLLM:
    model = SyntheticModel(SIZE, speech)
    return PrivateContextLLM(model, max_tokens=3, randomness=Coins(), **settings)


def engine(llm: Any, texts: list[str], **options: Any) -> PrivateQueryEngine:
    return PrivateQueryEngine(llm, GivenDocuments(texts), **options)


def synthesizer(llm: Any) -> PrivateSynthesizer:
    # 40 nodes at the charge of top-k would agree on nothing.
    from dpicl_rag.accounting import Stability

    return PrivateSynthesizer(llm, unit_field="document", stability=Stability(added=1, changed=0))


async def _aquery(llm: Any, texts: list[str]) -> str:
    return str(await engine(llm, texts).aquery(QUESTION))


async def _acomplete(llm: Any, texts: list[str]) -> str:
    return (await PrivateLLM(llm).acomplete(QUESTION, documents=texts)).text


async def _astream(llm: Any, texts: list[str]) -> str:
    response = await engine(llm, texts, streaming=True).aquery(QUESTION)
    return "".join([piece async for piece in response.async_response_gen()])


def _scored(texts: list[str]) -> list[NodeWithScore]:
    return [NodeWithScore(node=node, score=0.9) for node in nodes_of(texts)]


DOORS: dict[str, Callable[[Any, list[str]], Any]] = {
    "complete": lambda llm, texts: PrivateLLM(llm).complete(QUESTION, documents=texts).text,
    "acomplete": _acomplete,
    "chat": lambda llm, texts: str(PrivateLLM(llm).chat(MESSAGES, documents=texts).message.content),
    "stream of a model": lambda llm, texts: "".join(
        one.delta or "" for one in PrivateLLM(llm).stream_complete(QUESTION, documents=texts)
    ),
    "engine": lambda llm, texts: str(engine(llm, texts).query(QUESTION)),
    "async engine": _aquery,
    "as_query_engine": lambda llm, texts: str(
        llm.as_query_engine(GivenDocuments(texts)).query(QUESTION)
    ),
    "stream of an engine": lambda llm, texts: "".join(
        engine(llm, texts, streaming=True).query(QUESTION).response_gen
    ),
    "async stream of an engine": _astream,
    "tool": lambda llm, texts: (
        QueryEngineTool.from_defaults(engine(llm, texts), name="n", description="d")
        .call(QUESTION)
        .content
    ),
    "engine around the adapter": lambda llm, texts: str(
        engine(PrivateLLM(llm), texts).query(QUESTION)
    ),
    "synthesizer": lambda llm, texts: str(synthesizer(llm).synthesize(QUESTION, _scored(texts))),
    "response of a synthesizer": lambda llm, texts: synthesizer(llm).get_response(
        QUESTION, texts, units=texts
    ),
}


@pytest.fixture(params=DOORS)
def ask(request):
    async def ask(texts: list[str], **settings: Any) -> str:
        found = DOORS[request.param](made(**settings), texts)
        return found if isinstance(found, str) else await found

    return ask


async def test_what_documents_do_not_support_is_refused(ask) -> None:
    assert await ask(SILENT) == UNSUPPORTED


async def test_what_they_support_is_said(ask) -> None:
    assert await ask(AGREEING) == "abc"


@pytest.mark.parametrize("wanted", ["mark", "ignore"])
async def test_a_user_who_wants_it_otherwise_has_it(ask, wanted: str) -> None:
    assert UNSUPPORTED not in await ask(SILENT, unsupported=wanted)


def test_the_metadata_say_it_too() -> None:
    assert engine(made(), SILENT).query(QUESTION).metadata["supported"] is False
    assert engine(made(), AGREEING).query(QUESTION).metadata["supported"] is True


def test_a_stream_that_is_marked_comes_as_it_is_drawn() -> None:
    def pieces(**settings: Any) -> list[str]:
        return list(engine(made(**settings), AGREEING, streaming=True).query(QUESTION).response_gen)

    assert pieces(unsupported="mark") == ["a", "b", "c"]
    assert pieces() == ["abc"]
