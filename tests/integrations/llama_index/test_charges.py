"""What LlamaIndex's own ways to ask are charged: handlers, workflows, readers that leave.

What every adapter keeps is in `tests.integrations.test_charges`.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest
from workflows import Workflow, step
from workflows.events import StartEvent, StopEvent
from workflows.retry_policy import retry_policy, stop_after_attempt, wait_fixed

from tests.integrations.charges import FIXED, TOKEN, check_settled, reserved
from tests.integrations.doors import DOCUMENTS, DOORS
from tests.integrations.langchain.support import make_llm
from tests.integrations.llama_index.support import instrumented
from tests.support.around import Around

NAMES = [name for name in DOORS if name.startswith("LlamaIndex")]


def test_an_answer_tells_what_was_charged(short_llm, ledger, drawn) -> None:
    ledger.set_budget(corpus="default", rho=1.0)
    told = DOORS["LlamaIndex engine"](short_llm, DOCUMENTS).ask().metadata
    assert told["output_tokens"] == drawn.count == 6
    assert told["budget_left"] == pytest.approx(1 - drawn.count * TOKEN)
    check_settled(ledger, drawn.count)


@pytest.mark.parametrize("name", NAMES)
def test_watched_stream_closed_early(name, long_llm, ledger, drawn) -> None:
    kept: list[Any] = []  # handlers that keep what they see must not keep a stream open
    with instrumented(lambda place, value: kept.append(value)):
        stream = DOORS[name](long_llm, DOCUMENTS).stream()
        next(stream)
        next(stream)
        assert reserved(ledger)
        stream.close()
        assert 0 < drawn.count < 24
        check_settled(ledger, drawn.count)


@pytest.mark.parametrize("name", NAMES)
async def test_watched_async_stream_closed_early(name, long_llm, ledger, drawn) -> None:
    kept: list[Any] = []
    with instrumented(lambda place, value: kept.append(value)):
        stream = await DOORS[name](long_llm, DOCUMENTS).astream()
        await anext(stream)
        await anext(stream)
        await stream.aclose()
        assert 0 < drawn.count < 24
        check_settled(ledger, drawn.count)


def test_stream_that_is_dropped_is_settled(long_llm, ledger, drawn) -> None:
    stream = DOORS["LlamaIndex engine"](long_llm, DOCUMENTS).stream()
    next(stream)
    next(stream)
    del stream
    gc.collect()
    check_settled(ledger, drawn.count)


def test_error_in_the_reader_ends_the_answer(long_llm, ledger, drawn) -> None:
    def read() -> None:
        for _ in DOORS["LlamaIndex complete"](long_llm, DOCUMENTS).stream():
            if drawn.count:
                raise RuntimeError

    with pytest.raises(RuntimeError):
        read()
    gc.collect()
    check_settled(ledger, drawn.count)


async def test_retries_are_charged_one_by_one(long_llm, ledger, drawn, begun) -> None:
    """A step that fails midway has released its tokens: they are paid for, and so is the retry."""
    engine = DOORS["LlamaIndex engine"](long_llm, DOCUMENTS)
    attempts: list[int] = []

    class Ask(Workflow):
        @step(retry_policy=retry_policy(wait=wait_fixed(0), stop=stop_after_attempt(3)))
        async def ask(self, event: StartEvent) -> StopEvent:
            attempts.append(0)
            text = ""
            stream = await engine.astream()
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
    assert len(begun) == 3
    assert text.strip() == begun[-1].answer.text
    assert drawn.count == sum(stream.answer.tokens for stream in begun) > 24
    check_settled(ledger, drawn.count)


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


async def test_stream_cancelled_while_the_model_reads_is_settled(endless, ledger, drawn) -> None:
    """A draw in a worker thread cannot be stopped; the stream ends when it is done."""
    model = Slow(endless)
    llm = make_llm(model, ledger=ledger, max_tokens=24, **FIXED)
    stream = await DOORS["LlamaIndex complete"](llm, DOCUMENTS).astream()
    await anext(stream)  # is public
    reader = asyncio.ensure_future(anext(stream))
    await asyncio.to_thread(model.reading.wait, 60)
    reader.cancel()
    await asyncio.sleep(0)
    model.go.set()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert drawn.count < 24
    check_settled(ledger, drawn.count)
