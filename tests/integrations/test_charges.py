"""The ledger is charged for what was released through every adapter of both frameworks."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing, closing

import pytest
from langchain_core.vectorstores import InMemoryVectorStore

from dpicl_rag import BudgetExceededError
from dpicl_rag.accounting import DIRECT, Adjacency
from dpicl_rag.documents import as_documents
from dpicl_rag.retrieval import ExactRetriever, PrivateThresholdRetriever
from langchain_dpicl_rag.vector_stores import private_retriever
from tests.integrations.charges import FIXED, TOKEN, check_settled, ended, reserved
from tests.integrations.doors import DOCUMENTS, DOORS, SEARCHING
from tests.integrations.langchain.support import WordEmbeddings, make_llm, spent
from tests.support.failing_engine import FailingEngine

every_door = pytest.mark.parametrize("name", DOORS)
searching_door = pytest.mark.parametrize("name", SEARCHING)
TELLS = {"LangChain chat": "response_metadata", "LlamaIndex engine": "metadata"}
"""Doors whose answers have numbers beside them, and where."""


@pytest.mark.one_in(4)
@every_door
async def test_whole_answer(name, short_llm, ledger, drawn):
    door = DOORS[name](short_llm, DOCUMENTS)
    door.ask()
    assert drawn.count == 6
    check_settled(ledger, 6)
    list(door.stream())
    check_settled(ledger, 12)
    async for _ in await door.astream():
        pass
    await ended(ledger)
    check_settled(ledger, drawn.count)
    assert drawn.count == 18


@pytest.mark.one_in(5)
@every_door
@pytest.mark.parametrize("calls", [0, 3])
async def test_an_engine_that_stops_answering_ends_the_answer(
    name, calls, endless, ledger, drawn, begun
):
    engine = FailingEngine(endless, calls)
    door = DOORS[name](make_llm(engine, ledger=ledger, max_tokens=6, **FIXED), DOCUMENTS)
    whole = door.ask()
    drawn_at_once = max(0, calls - 1)
    assert drawn.count == drawn_at_once
    if name in TELLS:
        told = getattr(whole, TELLS[name])
        assert (told["stopped_by"], told["output_tokens"]) == ("unavailable", drawn_at_once)
    engine.left = calls
    assert list(door.stream())
    check_settled(ledger, 2 * drawn_at_once)
    engine.left = calls
    assert [piece async for piece in await door.astream()]
    await ended(ledger)
    assert drawn.count == 3 * drawn_at_once
    check_settled(ledger, drawn.count)
    assert [stream.answer.stopped_by for stream in begun] == ["unavailable"] * 3
    assert [stream.answer.tokens for stream in begun] == [drawn_at_once] * 3


@searching_door
def test_private_search_is_paid_for(name, short_llm, ledger, drawn):
    store = InMemoryVectorStore.from_texts(DOCUMENTS, WordEmbeddings())
    vectors = private_retriever(store, unit_field="document").source
    retriever = PrivateThresholdRetriever(vectors, 2, sigma=30.0, thresholds=(-1,))
    DOORS[name](short_llm, retriever).ask()
    assert drawn.count > 0
    search = retriever.rho(Adjacency.ADD_OR_REMOVE_ONE)
    assert spent(ledger) == pytest.approx(search + drawn.count * TOKEN)


@pytest.mark.one_in(4)
@every_door
@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_closed_stream(name, pieces, long_llm, ledger, drawn):
    with closing(DOORS[name](long_llm, DOCUMENTS).stream()) as stream:
        for _ in range(pieces):
            next(stream)
        assert reserved(ledger)
    check_settled(ledger, drawn.count)
    assert (drawn.count == 0) == (pieces == 1), "the first piece is public and free"
    assert drawn.count < 24


@every_door
@pytest.mark.parametrize("pieces", [1, 2])
async def test_closed_async_stream(name, pieces, long_llm, ledger, drawn):
    async with aclosing(await DOORS[name](long_llm, DOCUMENTS).astream()) as stream:
        for _ in range(pieces):
            await anext(stream)
    if name.startswith("LangChain"):
        await ended(ledger)
    check_settled(ledger, drawn.count)
    assert drawn.count < 24


@every_door
async def test_stream_that_is_never_read_holds_nothing(name, short_llm, ledger, begun):
    door = DOORS[name](short_llm, DOCUMENTS)
    stream, astream = door.stream(), await door.astream()
    assert begun == []
    check_settled(ledger, 0)
    stream.close()
    await astream.aclose()


@every_door
async def test_cancelled_stream(name, short_llm, ledger, drawn):
    door = DOORS[name](short_llm, DOCUMENTS)
    first = asyncio.Event()

    async def read():
        async for _ in await door.astream():
            first.set()

    task = asyncio.create_task(read())
    await first.wait()
    task.cancel()
    await asyncio.wait([task])
    await ended(ledger)
    check_settled(ledger, drawn.count)


@searching_door
async def test_stream_cancelled_during_the_search(name, short_llm, ledger):
    searching, found = threading.Event(), threading.Event()

    class Slow(ExactRetriever):
        stability = DIRECT

        def retrieve(self, question):
            searching.set()
            assert found.wait(30)
            return as_documents(DOCUMENTS)

    door = DOORS[name](short_llm, Slow())

    async def read():
        async for _ in await door.astream():
            pass

    task = asyncio.create_task(read())
    await asyncio.to_thread(searching.wait)
    assert reserved(ledger)
    task.cancel()
    await asyncio.sleep(0)
    found.set()
    await asyncio.wait([task])
    await ended(ledger)
    check_settled(ledger, 0)


@pytest.mark.one_in(9)
@every_door
def test_eight_calls_at_once(name, short_llm, ledger, drawn):
    answers = DOORS[name](short_llm, DOCUMENTS).at_once(8)
    assert len(answers) == 8
    assert not [one for one in answers if isinstance(one, Exception)]
    assert drawn.count == 48
    check_settled(ledger, 48)


@pytest.mark.one_in(9)
@every_door
async def test_eight_async_calls_at_once(name, short_llm, ledger, drawn, begun):
    answers = await DOORS[name](short_llm, DOCUMENTS).aat_once(8)
    assert not [one for one in answers if isinstance(one, Exception)]
    assert len(begun) == 8
    assert drawn.count == 48
    check_settled(ledger, 48)


@every_door
def test_eight_calls_share_a_budget_for_ten_tokens(name, short_llm, ledger, drawn):
    ledger.set_budget(corpus="default", rho=10 * TOKEN)
    answers = DOORS[name](short_llm, DOCUMENTS).at_once(8)
    errors = [one for one in answers if isinstance(one, Exception)]
    assert all(isinstance(error, BudgetExceededError) for error in errors)
    assert 0 < drawn.count <= 10
    check_settled(ledger, drawn.count)


@every_door
def test_budget_that_cannot_pay_is_an_error_at_the_first_piece(name, short_llm, ledger):
    ledger.set_budget(corpus="default", rho=TOKEN / 2)
    door = DOORS[name](short_llm, DOCUMENTS)
    with pytest.raises(BudgetExceededError):
        door.ask()
    stream = door.stream()
    with pytest.raises(BudgetExceededError):
        next(stream)
    check_settled(ledger, 0)
