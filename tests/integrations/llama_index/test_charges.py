"""The ledger is charged for the tokens that were released, whatever the caller does."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from llama_index.core.llms import ChatMessage
from workflows import Workflow, step
from workflows.events import StartEvent, StopEvent
from workflows.retry_policy import retry_policy, stop_after_attempt, wait_fixed

from dpicl_rag.accounting.conversion import bounded_range_to_rho
from dpicl_rag.accounting.stability import Stability
from dpicl_rag.answering.answers import PrivateStream
from dpicl_rag.documents import Document
from dpicl_rag.errors import BudgetExceededError
from dpicl_rag.ledger import Ledger, ScopeStatus
from dpicl_rag.retrieval import GivenDocuments
from llama_index_dpicl_rag import PrivateLLM, PrivateQueryEngine, PrivateSynthesizer
from tests.integrations.llama_index.support import (
    FIXED,
    QUESTION,
    TEXTS,
    instrumented,
    private_llm,
)
from tests.support.around import Around
from tests.support.failing_engine import FailingEngine

TOKEN = bounded_range_to_rho(FIXED["strength"] * FIXED["clip"])
MODES = ["complete", "chat", "engine", "synthesizer"]


def given() -> GivenDocuments:
    return GivenDocuments([Document(text, text) for text in TEXTS])


class Account:
    """A private language model on a ledger, which remembers the streams that it made."""

    def __init__(self, model: Any, ledger: Ledger, max_tokens: int) -> None:
        self.ledger = ledger
        self.streams: list[PrivateStream] = []
        self.llm = private_llm(
            model, ledger=ledger, corpus="mail", max_tokens=max_tokens, seed=2, **FIXED
        )
        begin = self.llm.stream

        def stream(*args: Any, **kwargs: Any) -> PrivateStream:
            self.streams.append(begin(*args, **kwargs))
            return self.streams[-1]

        self.llm.stream = stream  # type: ignore[method-assign]

    @property
    def released(self) -> int:
        """Tokens drawn by all streams. Fails for a stream that is still open."""
        return sum(stream.answer.tokens for stream in self.streams)

    def status(self) -> ScopeStatus:
        return next(status for status in self.ledger.status() if status.name == "mail")

    def check(self) -> None:
        """What was spent is what was released, and nothing is held."""
        status = self.status()
        assert status.spent == pytest.approx(self.released * TOKEN, rel=1e-6)
        assert status.reserved == 0

    def stream(self, mode: str) -> Any:
        """A stream of an adapter, not begun."""
        messages = [ChatMessage(QUESTION)]
        stable = {"unit_field": "document", "stability": Stability(1, 0), "streaming": True}
        match mode:
            case "complete":
                return PrivateLLM(self.llm).stream_complete(QUESTION, documents=TEXTS)
            case "chat":
                return PrivateLLM(self.llm).stream_chat(messages, documents=TEXTS)
            case "engine":
                engine = PrivateQueryEngine(self.llm, given(), streaming=True)
                return engine.query(QUESTION).response_gen
            case _:
                return PrivateSynthesizer(self.llm, **stable).get_response(QUESTION, TEXTS)

    async def astream(self, mode: str) -> Any:
        """``stream`` for async callers."""
        messages = [ChatMessage(QUESTION)]
        stable = {"unit_field": "document", "stability": Stability(1, 0), "streaming": True}
        match mode:
            case "complete":
                llm = PrivateLLM(self.llm)
                return await llm.astream_complete(QUESTION, documents=TEXTS)
            case "chat":
                return await PrivateLLM(self.llm).astream_chat(messages, documents=TEXTS)
            case "engine":
                engine = PrivateQueryEngine(self.llm, given(), streaming=True)
                return (await engine.aquery(QUESTION)).response_gen
            case _:
                synthesizer = PrivateSynthesizer(self.llm, **stable)
                return await synthesizer.aget_response(QUESTION, TEXTS)


@pytest.fixture
def ledger(tmp_path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.set_budget(corpus="mail", rho=100.0)
        yield ledger


@pytest.fixture
def account(tiny_model, ledger) -> Account:
    return Account(tiny_model, ledger, max_tokens=8)


def test_whole_answers_are_charged(account) -> None:
    assert account.status().spent == 0
    response = PrivateQueryEngine(account.llm, given()).query(QUESTION)
    assert response.metadata["output_tokens"] == account.released > 1
    account.check()
    assert response.metadata["budget_left"] == pytest.approx(100 - account.released * TOKEN)


@pytest.mark.parametrize("calls", [0, 4])
async def test_an_engine_that_stops_answering_ends_the_answer(tiny_model, ledger, calls) -> None:
    engine = FailingEngine(tiny_model, calls)
    account = Account(engine, ledger, max_tokens=8)
    response = PrivateQueryEngine(account.llm, given()).query(QUESTION)
    assert response.metadata["stopped_by"] == "unavailable"
    assert response.metadata["output_tokens"] == account.released == max(0, calls - 1)
    account.check()
    for mode in MODES:
        engine.left = calls
        list(account.stream(mode))
        engine.left = calls
        async for _ in await account.astream(mode):
            pass
        account.check()
    assert {stream.answer.stopped_by for stream in account.streams} == {"unavailable"}


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_stream_closed_early(account, mode: str, watched: bool) -> None:
    kept: list[Any] = []  # handlers that keep what they see must not keep a stream open
    with instrumented(lambda place, value: kept.append(value) if watched else None):
        stream = account.stream(mode)
        next(stream)
        next(stream)
        assert account.status().reserved > 0
        stream.close()
        assert 2 <= account.released < 8
        account.check()


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("mode", MODES)
async def test_async_stream_closed_early(account, mode: str, watched: bool) -> None:
    kept: list[Any] = []
    with instrumented(lambda place, value: kept.append(value) if watched else None):
        stream = await account.astream(mode)
        await anext(stream)
        await anext(stream)
        await stream.aclose()
        assert 2 <= account.released < 8
        account.check()


@pytest.mark.parametrize("mode", MODES)
async def test_stream_that_is_never_read_holds_nothing(account, mode: str) -> None:
    stream, astream = account.stream(mode), await account.astream(mode)
    assert account.status().reserved == 0
    assert account.streams == []
    stream.close()
    await astream.aclose()


def test_stream_that_is_dropped_is_settled(account) -> None:
    stream = account.stream("engine")
    next(stream)
    del stream
    gc.collect()
    account.check()


def test_error_in_the_reader_ends_the_answer(account) -> None:
    def read() -> None:
        for _ in account.stream("complete"):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        read()
    gc.collect()
    account.check()


async def test_retries_are_charged_one_by_one(account) -> None:
    """A step that fails midway has released its tokens: they are paid for, and so is the retry."""
    engine = PrivateQueryEngine(account.llm, given(), streaming=True)
    attempts: list[int] = []

    class Ask(Workflow):
        @step(retry_policy=retry_policy(wait=wait_fixed(0), stop=stop_after_attempt(3)))
        async def ask(self, event: StartEvent) -> StopEvent:
            attempts.append(0)
            text = ""
            stream = (await engine.aquery(QUESTION)).response_gen
            try:
                async for piece in stream:
                    attempts[-1] += 1
                    text += piece
                    if len(attempts) < 3 and attempts[-1] == 2:
                        raise RuntimeError("the network is away")
            finally:
                await stream.aclose()
            return StopEvent(result=text)

    text = await Ask(timeout=60).run()
    assert attempts[:2] == [2, 2]
    assert len(account.streams) == 3
    assert text.strip() == account.streams[-1].answer.text
    account.check()


@pytest.mark.parametrize("budget", [100.0, 3.3])
def test_eight_threads(tiny_model, ledger, budget: float) -> None:
    ledger.set_budget(corpus="mail", rho=budget)
    account = Account(tiny_model, ledger, max_tokens=6)
    engine = PrivateQueryEngine(account.llm, given())

    def ask(_: int) -> int:
        try:
            return engine.query(QUESTION).metadata["output_tokens"]
        except BudgetExceededError:
            return 0

    with ThreadPoolExecutor(8) as pool:
        tokens = sum(pool.map(ask, range(8)))
    assert tokens == account.released
    assert tokens * TOKEN <= budget * (1 + 1e-9)
    account.check()


async def test_eight_tasks(account) -> None:
    engine = PrivateQueryEngine(account.llm, given())
    llm = PrivateLLM(account.llm)
    calls = [engine.aquery(QUESTION) for _ in range(4)]
    calls += [llm.acomplete(QUESTION, documents=TEXTS) for _ in range(4)]
    await asyncio.gather(*calls)
    assert len(account.streams) == 8
    account.check()


def test_budget_that_cannot_pay_is_an_error_at_the_first_piece(tiny_model, ledger) -> None:
    ledger.set_budget(corpus="mail", rho=TOKEN / 2)
    account = Account(tiny_model, ledger, max_tokens=4)
    with pytest.raises(BudgetExceededError):
        PrivateQueryEngine(account.llm, given()).query(QUESTION)
    stream = PrivateQueryEngine(account.llm, given(), streaming=True).query(QUESTION)
    with pytest.raises(BudgetExceededError):
        next(stream.response_gen)
    assert account.status().spent == 0


class Slow(Around):
    """A language model that waits before it reads, and tells that it is about to.

    Args:
        model: The model that does the work.
    """

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.reading, self.go = threading.Event(), threading.Event()

    def read(self, *args: Any, **kwargs: Any) -> Any:
        self.reading.set()
        assert self.go.wait(60)
        return self._model.read(*args, **kwargs)


async def test_cancelled_stream_is_settled(tiny_model, ledger) -> None:
    """A draw in a worker thread cannot be stopped; the stream ends when it is done."""
    model = Slow(tiny_model)
    account = Account(model, ledger, max_tokens=8)
    stream = await account.astream("complete")
    reader = asyncio.ensure_future(anext(stream))
    await asyncio.to_thread(model.reading.wait, 60)
    reader.cancel()
    await asyncio.sleep(0)
    model.go.set()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert account.released < 8
    account.check()
