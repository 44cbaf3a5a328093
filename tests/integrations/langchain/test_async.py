"""Sync and async are one path: the same seed gives the same answer."""

from __future__ import annotations

import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.randomness import NotPrivateWarning
from langchain_dpicl_rag import (
    ChatPrivateContext,
    PrivateCombineDocuments,
    PrivateLLM,
    PrivateRetrievalChain,
)
from tests.integrations.langchain.support import QUESTION, chroma_store, make_llm

DOCUMENTS = ["Ann has zingpocket.", "Bob has zingpocket.", "Eve has zingpocket."]

MODELS = {
    "llm": lambda llm, folder: (PrivateLLM(llm).bind(documents=DOCUMENTS), QUESTION),
    "chat": lambda llm, folder: (ChatPrivateContext(llm).bind(documents=DOCUMENTS), QUESTION),
    "chain": lambda llm, folder: (
        PrivateRetrievalChain(
            chroma_store(folder, DOCUMENTS), unit_field="patient", threshold=-1, llm=llm
        ),
        QUESTION,
    ),
    "combine": lambda llm, folder: (
        PrivateCombineDocuments(llm),
        {"input": QUESTION, "context": DOCUMENTS},
    ),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", MODELS)
async def test_all_ways_give_the_same_answer(name, tiny_model, tmp_path):
    def fresh(way: str):
        with pytest.warns(NotPrivateWarning):
            llm = make_llm(tiny_model, seed=7, max_tokens=12)
        return MODELS[name](llm, tmp_path / way)

    adapter, asked = fresh("invoke")
    expected = _text(adapter.invoke(asked))
    assert expected.startswith("It is")

    adapter, asked = fresh("ainvoke")
    assert _text(await adapter.ainvoke(asked)) == expected

    adapter, asked = fresh("stream")
    pieces = [_text(piece) for piece in adapter.stream(asked)]
    assert "".join(pieces).strip() == expected

    adapter, asked = fresh("astream")
    apieces = [_text(piece) async for piece in adapter.astream(asked)]
    assert apieces == pieces
    assert sum(map(bool, pieces)) > 2, "the stream came in one piece"

    adapter, asked = fresh("batch")
    assert _text(adapter.batch([asked])[0]) == expected

    adapter, asked = fresh("abatch")
    assert _text((await adapter.abatch([asked]))[0]) == expected


@pytest.mark.parametrize("made", [PrivateLLM, ChatPrivateContext])
async def test_a_batch_keeps_what_was_answered_where_another_fails(made, tiny_model):
    model = made(make_llm(tiny_model, max_tokens=2)).bind(documents=[])
    for found in (
        model.batch(["What?", " "], return_exceptions=True),
        await model.abatch(["What?", " "], return_exceptions=True),
    ):
        answered, failed = found
        assert not isinstance(answered, Exception)
        assert isinstance(failed, ConfigurationError)


def _text(output: object) -> str:
    return output if isinstance(output, str) else output.content
