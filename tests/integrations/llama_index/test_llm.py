"""The language model behaves like a LlamaIndex LLM, and like the private one inside."""

from __future__ import annotations

from dataclasses import replace

import pytest
from llama_index.core import PromptTemplate
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.llms import ChatMessage, CustomLLM, DocumentBlock, TextBlock
from llama_index.core.response_synthesizers import ResponseMode
from pydantic import BaseModel

from dpicl_rag.errors import ConfigurationError, MissingDocumentsError
from llama_index_dpicl_rag import PrivateLLM, PromptContextError
from tests.integrations.llama_index.support import (
    QUESTION,
    TEXTS,
    chroma_index,
    nodes_of,
    private_llm,
)

TEMPLATE = PromptTemplate("{context_str} {query_str}")


@pytest.fixture
def make(tiny_model):
    """Adapters over private language models of one seed; each starts with the same randomness."""

    def made(**options):
        return PrivateLLM(private_llm(tiny_model, seed=3), **options)

    return made


def test_class_is_a_llama_index_llm() -> None:
    names = [base.__name__ for base in PrivateLLM.__mro__]
    assert BaseLLM.__name__ in names
    assert CustomLLM.__name__ in names
    assert PrivateLLM.class_name() == "PrivateLLM"


def test_metadata_tells_public_facts(make) -> None:
    metadata = make().metadata
    assert metadata.num_output == 6
    assert not metadata.is_function_calling_model


def test_answer_is_that_of_the_library(tiny_model, make) -> None:
    answer = private_llm(tiny_model, seed=3).answer(QUESTION, TEXTS)
    response = make().complete(QUESTION, documents=TEXTS)
    assert response.text == answer.text
    assert response.raw is None
    assert response.additional_kwargs == {
        "kind": "answer",
        "epsilon": 8.0,
        "delta": 1e-5,
        "budget_left": None,
        "question": QUESTION,
        "output_tokens": answer.tokens,
        "stopped_by": answer.stopped_by,
        "supported": False,
        "from_memory": False,
        "by": "tokens",
        "agreeing": None,
        "agreeing_within": None,
    }


async def test_sync_and_async_agree(make) -> None:
    chat = [ChatMessage(QUESTION)]
    complete = make().complete(QUESTION, documents=TEXTS)
    assert await make().acomplete(QUESTION, documents=TEXTS) == complete
    streamed = list(make().stream_complete(QUESTION, documents=TEXTS))
    stream = await make().astream_complete(QUESTION, documents=TEXTS)
    assert [response async for response in stream] == streamed
    assert make().chat(chat, documents=TEXTS) == await make().achat(chat, documents=TEXTS)
    chats = list(make().stream_chat(chat, documents=TEXTS))
    astream = await make().astream_chat(chat, documents=TEXTS)
    assert [response async for response in astream] == chats


def test_streams_add_up_to_the_answer(make) -> None:
    text = make().complete(QUESTION, documents=TEXTS).text
    completions = list(make().stream_complete(QUESTION, documents=TEXTS))
    assert len(completions) > 1
    assert "".join(response.delta for response in completions).strip() == text
    assert completions[-1].text.strip() == text
    chats = list(make().stream_chat([ChatMessage(QUESTION)], documents=TEXTS))
    assert [response.delta for response in chats] == [r.delta for r in completions]
    assert chats[-1].message.content == completions[-1].text


def test_the_end_of_a_stream_brings_the_public_numbers(make) -> None:
    numbers = make().complete(QUESTION, documents=TEXTS).additional_kwargs
    assert numbers["output_tokens"] > 0
    *middle, last = make().stream_complete(QUESTION, documents=TEXTS)
    assert (last.delta, last.additional_kwargs) == ("", numbers)
    assert not any(response.additional_kwargs for response in middle)
    *_, last = make().stream_chat([ChatMessage(QUESTION)], documents=TEXTS)
    assert last.message.additional_kwargs == numbers


def test_chat_asks_a_lone_message_as_it_is(make) -> None:
    chat = make().chat([ChatMessage(QUESTION)], documents=TEXTS)
    assert chat.message.role == "assistant"
    assert chat.message.content == make().complete(QUESTION, documents=TEXTS).text


def asked(response) -> str:
    """The question as it was asked."""
    return response.message.additional_kwargs["question"]


async def test_the_last_message_is_the_question_in_whole_words(make) -> None:
    follow_up = "And on Fridays?"
    chat = [ChatMessage(QUESTION), ChatMessage("In Elm.", role="assistant"), ChatMessage(follow_up)]
    whole = f"{QUESTION.rstrip('?')} on Fridays?"
    answer = make().complete(whole, documents=TEXTS)
    responses = [
        make().chat(chat, documents=TEXTS),
        await make().achat(chat, documents=TEXTS),
        [*make().stream_chat(chat, documents=TEXTS)][-1],
        [one async for one in await make().astream_chat(chat, documents=TEXTS)][-1],
    ]
    assert [asked(one) for one in responses] == [whole] * 4
    assert {one.message.content.strip() for one in responses} == {answer.text}


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_system_message_takes_the_place_of_the_instruction(tiny_model, make, role) -> None:
    messages = [ChatMessage("Be brief.", role=role), ChatMessage(QUESTION)]
    llm = private_llm(tiny_model, seed=3)
    brief = llm.with_settings(template=replace(llm.template, system="Be brief."))
    response = make().chat(messages, documents=TEXTS)
    assert response.message.content == brief.answer(QUESTION, TEXTS).text
    assert response.message.content != make().complete(QUESTION, documents=TEXTS).text
    assert asked(response) == QUESTION


def test_without_documents_all_messages_are_one_prompt(make) -> None:
    """Agents say in other messages what is to be done."""
    messages = [ChatMessage("Be brief.", role="system"), ChatMessage(QUESTION)]
    llm = make(allow_public=True)
    prompt = llm.messages_to_prompt(messages)
    assert "Be brief." in prompt
    assert QUESTION in prompt
    assert asked(llm.chat(messages)) == prompt


def test_message_with_a_document_block_is_refused(make) -> None:
    message = ChatMessage(blocks=[TextBlock(text=QUESTION), DocumentBlock(data=b"text")])
    with pytest.raises(ConfigurationError, match="documents="):
        make().chat([message], documents=TEXTS)


async def test_missing_documents_are_an_error(make) -> None:
    llm, chat = make(), [ChatMessage(QUESTION)]
    for call in (llm.complete, llm.stream_complete):
        with pytest.raises(MissingDocumentsError, match="allow_public"):
            call(QUESTION)
    for call in (llm.chat, llm.stream_chat):
        with pytest.raises(MissingDocumentsError):
            call(chat)
    for acall in (llm.acomplete, llm.astream_complete):
        with pytest.raises(MissingDocumentsError):
            await acall(QUESTION)
    for acall in (llm.achat, llm.astream_chat):
        with pytest.raises(MissingDocumentsError):
            await acall(chat)


def test_public_model_answers_where_that_is_allowed(make) -> None:
    public = make().complete(QUESTION, documents=[])
    assert make(allow_public=True).complete(QUESTION) == public
    assert make(allow_public=True).predict(PromptTemplate("{query_str}"), query_str=QUESTION)


def test_sampling_parameters_are_refused(make) -> None:
    with pytest.raises(ConfigurationError, match="temperature"):
        make().complete(QUESTION, documents=TEXTS, temperature=0.5)
    with pytest.raises(ConfigurationError, match="top_p"):
        make().stream_chat([ChatMessage(QUESTION)], documents=TEXTS, top_p=0.5)


class Street(BaseModel):
    name: str


@pytest.mark.parametrize("allow_public", [False, True])
@pytest.mark.parametrize("name", ["predict", "stream", "apredict", "astream"])
def test_context_in_a_prompt_is_refused(make, name: str, allow_public: bool) -> None:
    llm = make(allow_public=allow_public)
    with pytest.raises(PromptContextError, match="PrivateQueryEngine"):
        getattr(llm, name)(TEMPLATE, context_str=TEXTS[0], query_str=QUESTION)


@pytest.mark.parametrize("prefix", ["", "a", "stream_", "astream_"])
def test_structured_context_in_a_prompt_is_refused(make, prefix: str) -> None:
    call = getattr(make(), f"{prefix}structured_predict")
    with pytest.raises(PromptContextError):
        call(Street, TEMPLATE, context_str=TEXTS[0], query_str=QUESTION)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(
    "mode",
    [
        ResponseMode.COMPACT,
        ResponseMode.REFINE,
        ResponseMode.SIMPLE_SUMMARIZE,
        ResponseMode.TREE_SUMMARIZE,
    ],
)
def test_stock_query_engine_is_refused(make, tmp_path, mode, streaming) -> None:
    """Not with "Empty Response", which LlamaIndex makes of a ValueError."""
    index = chroma_index(tmp_path, nodes_of(TEXTS))
    engine = index.as_query_engine(llm=make(), response_mode=mode, streaming=streaming)

    def ask() -> None:
        response = engine.query(QUESTION)
        list(response.response_gen)

    with pytest.raises(PromptContextError):
        ask()


def test_subclass_is_not_recorded_either(make) -> None:
    class Mine(PrivateLLM):
        def complete(self, prompt, formatted=False, *, documents=None, **kwargs):
            return super().complete(prompt, formatted, documents=documents, **kwargs)

    from tests.integrations.llama_index.support import instrumented

    seen: list[str] = []
    llm = Mine(make().llm)
    with instrumented(lambda place, value: seen.append(f"{place} {value!r}")):
        llm.complete(QUESTION, documents=TEXTS)
    assert seen
    assert not [text for text in seen if "Elm" in text]
