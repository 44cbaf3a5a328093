"""The chat engine: a follow-up is asked as a whole question, and turns are kept."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.memory import ChatMemoryBuffer

from dpicl_rag.errors import BudgetExceededError, ConfigurationError
from dpicl_rag.ledger import Ledger
from llama_index_dpicl_rag import PrivateChatEngine, PrivateLLM
from tests.integrations.llama_index.support import (
    FIXED,
    QUESTION,
    TEXTS,
    TOKEN_RHO,
    chroma_index,
    nodes_of,
    private_llm,
)

FOLLOW_UP = "And where is it on Fridays?"
WHOLE = "Where is the office on Fridays?"


@pytest.fixture
def index(tmp_path):
    return chroma_index(tmp_path, nodes_of(TEXTS))


@pytest.fixture
def chat(tiny_model, index):
    return private_llm(tiny_model).as_chat_engine(index, threshold=-1)


def asked(response: Any) -> str:
    """The question as it was asked."""
    return response.sources[0].raw_output.metadata["question"]


def test_it_is_a_chat_engine_of_llama_index(chat) -> None:
    assert isinstance(chat, PrivateChatEngine)
    assert isinstance(chat, BaseChatEngine)


def test_a_follow_up_is_asked_as_a_whole_question(chat) -> None:
    first = chat.chat(QUESTION)
    second = chat.chat(FOLLOW_UP)
    assert (asked(first), asked(second)) == (QUESTION, WHOLE)
    assert [one.content for one in chat.chat_history] == [
        *(QUESTION, str(first)),
        *(FOLLOW_UP, str(second)),
    ]
    assert second.source_nodes == []
    chat.reset()
    assert asked(chat.chat(FOLLOW_UP)) == FOLLOW_UP


async def test_in_every_way_to_ask(chat) -> None:
    turns = [ChatMessage(QUESTION), ChatMessage("In Elm Street.", role="assistant")]
    assert asked(await chat.achat(FOLLOW_UP, turns)) == WHOLE
    streamed = chat.stream_chat(FOLLOW_UP, turns)
    said = "".join(streamed.response_gen)
    assert asked(streamed) == WHOLE
    assert chat.chat_history[-1].content == said
    astreamed = await chat.astream_chat(FOLLOW_UP, turns)
    assert "".join([piece async for piece in astreamed.async_response_gen()])
    assert asked(astreamed) == WHOLE


def test_turns_that_are_given_take_the_place_of_those_in_memory(chat) -> None:
    turns = [ChatMessage(QUESTION), ChatMessage("In Elm Street.", role="assistant")]
    first = chat.chat(FOLLOW_UP, turns)
    assert [one.content for one in chat.chat_history] == [
        *(QUESTION, "In Elm Street."),
        *(FOLLOW_UP, str(first)),
    ]
    assert len(turns) == 2  # the caller's own
    # Somebody else's conversation begins: no turn of the one before is in it.
    assert asked(chat.chat(FOLLOW_UP, [])) == FOLLOW_UP
    assert len(chat.chat_history) == 2


async def test_an_empty_history_begins_a_conversation_in_every_way_to_ask(chat) -> None:
    chat.chat(QUESTION)
    assert asked(await chat.achat(FOLLOW_UP, [])) == FOLLOW_UP
    streamed = chat.stream_chat(FOLLOW_UP, [])
    assert "".join(streamed.response_gen)
    assert asked(streamed) == FOLLOW_UP
    astreamed = await chat.astream_chat(FOLLOW_UP, [])
    assert "".join([piece async for piece in astreamed.async_response_gen()])
    assert asked(astreamed) == FOLLOW_UP


def test_the_source_is_the_query_engine_and_says_the_answer(chat) -> None:
    response = chat.chat(QUESTION)
    (source,) = response.sources
    assert (source.tool_name, source.content) == ("query_engine", str(response))
    (source,) = chat.stream_chat(QUESTION).sources
    assert (source.tool_name, source.content) == ("query_engine", "")


def test_an_earlier_conversation_goes_on(tiny_model, index) -> None:
    turns = [ChatMessage(QUESTION), ChatMessage("In Elm Street.", role="assistant")]
    llm = PrivateLLM(private_llm(tiny_model))
    for given in (
        {"chat_history": turns},
        {"memory": ChatMemoryBuffer.from_defaults(chat_history=turns)},
    ):
        engine = PrivateChatEngine(llm, index, threshold=-1, **given)
        assert asked(engine.chat(FOLLOW_UP)) == WHOLE


def test_only_the_answer_is_paid_for(tiny_model, index, tmp_path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget(corpus="office", rho=TOKEN_RHO)
    llm = private_llm(tiny_model, ledger=ledger, corpus="office", **{**FIXED, "max_tokens": 1})
    chat = llm.as_chat_engine(index, threshold=-1)
    chat.chat(QUESTION)
    with pytest.raises(BudgetExceededError):
        chat.chat(FOLLOW_UP)
    assert [one.content for one in chat.chat_history][2:] == []  # no turn without an answer
    assert next(one for one in ledger.status() if one.kind == "corpus").spent == TOKEN_RHO


def test_a_stream_that_is_left_pays_for_what_was_released(tiny_model, index, tmp_path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    llm = private_llm(tiny_model, ledger=ledger, corpus="office", **{**FIXED, "max_tokens": 4})
    chat = llm.as_chat_engine(index, threshold=-1)
    response = chat.stream_chat(QUESTION)
    first = next(response.response_gen)
    response.chat_stream.close()
    assert [one.content for one in chat.chat_history] == [QUESTION, first]
    spent = next(one for one in ledger.status() if one.kind == "corpus").spent
    assert TOKEN_RHO <= spent < 4 * TOKEN_RHO


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"streaming": True}, "stream_chat streams"),
        ({"llm": None}, "leave llm out"),
        ({"similarity_top_k": 3}, "top_k=3"),
        ({"chat_history": [], "memory": ChatMemoryBuffer.from_defaults()}, "not both"),
        ({"condense_question_prompt": "x"}, "no such option"),
    ],
)
def test_options_without_effect_are_refused(tiny_model, index, options, remedy) -> None:
    with pytest.raises(ConfigurationError, match=remedy):
        private_llm(tiny_model).as_chat_engine(index, **options)
