"""A bare string is one that the documents support, unless its user wanted it otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate

from dpicl_rag import PrivateContextLLM
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.results import UNSUPPORTED
from dpicl_rag.retrieval import GivenDocuments
from langchain_dpicl_rag import (
    ChatPrivateContext,
    PrivateCombineDocuments,
    PrivateLLM,
    PrivateRetrievalChain,
)
from tests.integrations.test_support import AGREEING, QUESTION, SILENT, SIZE, Coins, speech


def made(**settings: Any) -> PrivateContextLLM:
    model = SyntheticModel(SIZE, speech)
    return PrivateContextLLM(model, max_tokens=3, randomness=Coins(), **settings)


def chain(llm: Any, texts: list[str], **options: Any) -> PrivateRetrievalChain:
    return PrivateRetrievalChain(GivenDocuments(texts), llm=llm, **options)


async def an_async_stream(llm: Any, texts: list[str]) -> list[str]:
    return [piece async for piece in chain(llm, texts).astream(QUESTION)]


def an_lcel_app(llm: Any, texts: list[str]) -> list[str]:
    prompt = ChatPromptTemplate.from_template("{question}")
    app = prompt | ChatPrivateContext(llm).bind(documents=texts) | StrOutputParser()
    return [app.invoke({"question": QUESTION})]


DOORS = {
    "chain": lambda llm, texts: [chain(llm, texts).invoke(QUESTION)],
    "stream of a chain": lambda llm, texts: list(chain(llm, texts).stream(QUESTION)),
    "async stream of a chain": an_async_stream,
    "tool": lambda llm, texts: [chain(llm, texts).as_tool().invoke({"question": QUESTION})],
    "combine": lambda llm, texts: [
        PrivateCombineDocuments(llm).invoke({"input": QUESTION, "context": GivenDocuments(texts)})
    ],
    "text model": lambda llm, texts: [PrivateLLM(llm).invoke(QUESTION, documents=texts)],
    "stream of a text model": lambda llm, texts: list(
        PrivateLLM(llm).stream(QUESTION, documents=texts)
    ),
    "as_langchain": lambda llm, texts: [llm.as_langchain().invoke(QUESTION, documents=texts)],
    "chat": lambda llm, texts: [ChatPrivateContext(llm).invoke(QUESTION, documents=texts).content],
    "LCEL": an_lcel_app,
}


@pytest.fixture(params=DOORS)
def ask(request):
    async def ask(texts: list[str], **settings: Any) -> str:
        found = DOORS[request.param](made(**settings), texts)
        return "".join(found if isinstance(found, list) else await found)

    return ask


async def test_what_documents_do_not_support_is_refused(ask):
    assert await ask(SILENT) == UNSUPPORTED


async def test_what_they_support_is_said(ask):
    assert await ask(AGREEING) == "abc"


@pytest.mark.parametrize("wanted", ["mark", "ignore"])
async def test_a_user_who_wants_it_otherwise_has_it(ask, wanted):
    assert UNSUPPORTED not in await ask(SILENT, unsupported=wanted)


def test_numbers_beside_the_text_say_it_themselves():
    found = chain(made(), SILENT, numbers=True).invoke(QUESTION)
    assert found["supported"] is False
    assert len(found["answer"]) == 3


def test_a_stream_that_is_marked_comes_as_it_is_drawn():
    assert list(chain(made(unsupported="mark"), AGREEING).stream(QUESTION)) == ["a", "b", "c"]
    assert list(chain(made(), AGREEING).stream(QUESTION)) == ["abc"]


def test_what_was_set_stays_known_through_other_settings():
    assert made().with_settings(epsilon=4.0).for_strings().config.unsupported == "refuse"
    kept = made(unsupported="mark").with_settings(epsilon=4.0)
    assert kept.for_strings() is kept
    refusing = made().for_strings()
    assert refusing.for_strings() is refusing
    assert refusing.config.epsilon == 8.0
