"""The async stream: the same pieces and answer, in worker threads, and every end gives back."""

from __future__ import annotations

import asyncio
import math
import threading

import pytest

from dpicl_rag import DPICLError, Ledger, PrivateContextLLM
from dpicl_rag.answering.private_stream import AsyncPrivateStream
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval import GivenDocuments
from tests.support.stores import seeded as coins

DOCUMENTS = ["The code is 4471.", "The code is 4471, says Ida.", "Lunch is at noon."]


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="default", rho=math.inf)
        yield ledger


@pytest.fixture
def llm(tiny_model, ledger, monkeypatch):
    monkeypatch.setattr(tiny_model.tokenizer, "stop_tokens", frozenset())
    return PrivateContextLLM(
        tiny_model, ledger=ledger, max_tokens=6, accounting="fixed", randomness=coins(3)
    )


def settled(ledger) -> float:
    (status,) = ledger.status()
    assert status.reserved == 0
    return status.spent


async def test_it_has_the_answer_when_it_has_ended(llm, ledger, tiny_model):
    stream = llm.astream("code?", DOCUMENTS)
    with pytest.raises(DPICLError, match="when the stream has ended"):
        _ = stream.answer
    pieces = [piece async for piece in stream]
    assert "".join(pieces).strip() == stream.answer.text
    assert stream.answer.tokens == 6
    assert stream.answer.supported is not None
    assert settled(ledger) == pytest.approx(stream.answer.rho)
    assert [piece async for piece in stream] == []
    same = PrivateContextLLM(
        tiny_model, max_tokens=6, accounting="fixed", randomness=coins(3)
    ).answer("code?", DOCUMENTS)
    assert same.text == stream.answer.text


async def test_nothing_begins_before_it_is_read(llm, ledger):
    class Unsearched(GivenDocuments):
        def retrieve(self, question):
            pytest.fail("searched")

    stream = llm.astream("code?", Unsearched(DOCUMENTS))
    await stream.aclose()
    assert [piece async for piece in stream] == []
    with pytest.raises(DPICLError):
        _ = stream.answer
    assert settled(ledger) == 0


async def test_closing_early_pays_for_what_was_released(llm, ledger):
    async with llm.astream("code?", DOCUMENTS) as stream:
        await anext(stream)
    answer = stream.answer
    assert 0 < answer.tokens < 6
    assert answer.supported is None
    assert settled(ledger) == pytest.approx(answer.rho)
    await stream.aclose()
    assert settled(ledger) == pytest.approx(answer.rho)


async def test_an_error_at_the_beginning_is_raised_where_it_is_read(llm, ledger):
    with pytest.raises(ConfigurationError, match="question is empty"):
        await anext(llm.astream(" ", DOCUMENTS))
    with pytest.raises(ConfigurationError, match="question is empty"):
        async with llm.astream(" ", DOCUMENTS):
            pytest.fail("entered")
    assert ledger.status()[0].reserved == 0


async def test_a_task_that_is_cancelled_while_it_draws_ends_the_answer(llm, ledger):
    stream = llm.astream("code?", DOCUMENTS)

    async def read():
        async for _ in stream:
            pass

    reader = asyncio.ensure_future(read())
    await asyncio.sleep(0)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert [piece async for piece in stream] == []
    settled(ledger)


async def test_a_task_that_is_cancelled_twice_closes_what_has_begun_meanwhile(llm, ledger):
    begin, going = threading.Event(), threading.Event()

    def slow():
        going.set()
        begin.wait(20.0)
        return llm.stream("code?", DOCUMENTS)

    stream = AsyncPrivateStream(slow)
    reader = asyncio.ensure_future(anext(stream))
    await asyncio.to_thread(going.wait, 20.0)
    for _ in range(2):
        reader.cancel()
        await asyncio.sleep(0.05)
    begin.set()
    with pytest.raises(asyncio.CancelledError):
        await reader
    for _ in range(100):  # where the thread was left, it begins later
        if stream._stream is not None:
            break
        await asyncio.sleep(0.05)
    settled(ledger)


async def test_two_readers_share_one_answer(llm, ledger):
    begun = []

    def begin():
        begun.append(1)
        return llm.stream("code?", DOCUMENTS)

    stream = AsyncPrivateStream(begin)
    pieces = await asyncio.gather(*(anext(stream) for _ in range(3)))
    assert len(begun) == 1
    async for piece in stream:
        pieces.append(piece)
    assert stream.answer.tokens == 6
    assert repr(stream) == "AsyncPrivateStream()"
