"""The ledger is charged for what was released: streams cut short, retries, calls at once."""

from __future__ import annotations

import asyncio
import math
from contextlib import aclosing, closing

import pytest
from langchain_core.callbacks import BaseCallbackHandler

from dpicl_rag import BudgetExceededError, Document, Ledger, decoding
from dpicl_rag.accounting.stability import DIRECT
from dpicl_rag.documents import as_documents
from langchain_dpicl_rag import (
    ChatPrivateContext,
    PrivateCombineDocuments,
    PrivateContextLLM,
    PrivateRetrievalChain,
)
from tests.integrations.langchain.support import QUESTION, make_engine, spent

DOCUMENTS = ["Ann has zingpocket.", "Bob has zingpocket."]

# One token costs (strength * clip * factor)^2 / 8 of rho: 1/128 where a unit adds an expert.
FIXED = {"accounting": "fixed", "utility": "log_prob", "clip": 4.0, "strength": 1 / 16}
TOKEN = 1 / 128


class Documents:
    """A retriever with the stability of a fixed list."""

    stability = DIRECT

    def retrieve(self, question: str) -> list[Document]:
        return as_documents(DOCUMENTS)


class Failing:
    """The tiny model, failing once after some draws."""

    def __init__(self, model, draws: int) -> None:
        self._model = model
        self._left = draws

    def __getattr__(self, name):
        return getattr(self._model, name)

    def prefix(self, *args, **kwargs):
        return _FailingRows(self, self._model.prefix(*args, **kwargs))


class _FailingRows:
    def __init__(self, owner, rows) -> None:
        self._owner = owner
        self._rows = rows

    def extend(self, token_ids):
        self._owner._left -= 1
        if self._owner._left == -1:
            raise RuntimeError("the device is gone")
        return self._rows.extend(token_ids)


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="default", rho=math.inf)
        yield ledger


@pytest.fixture
def engine(tiny_model, ledger):
    return make_engine(tiny_model, ledger=ledger, max_tokens=6, **FIXED)


def adapters(engine):
    """Each adapter with the input that asks it."""
    combined = {"input": QUESTION, "context": DOCUMENTS}
    combine = PrivateCombineDocuments(engine, stability=Documents.stability)
    return {
        "llm": (PrivateContextLLM(engine).bind(documents=DOCUMENTS), QUESTION),
        "chat": (ChatPrivateContext(engine).bind(documents=DOCUMENTS), QUESTION),
        "chain": (PrivateRetrievalChain(Documents(), engine=engine), QUESTION),
        "combine": (combine, combined),
    }


NAMES = ["llm", "chat", "chain", "combine"]


class Drawn:
    """Counts the tokens drawn, at the one place where they are."""

    def __init__(self, monkeypatch) -> None:
        self.count = 0
        draw = decoding.draw

        def counted(*args, **kwargs):
            self.count += 1
            return draw(*args, **kwargs)

        monkeypatch.setattr(decoding, "draw", counted)


@pytest.fixture
def drawn(monkeypatch):
    return Drawn(monkeypatch)


@pytest.mark.parametrize("name", NAMES)
def test_whole_answer(name, engine, ledger, drawn):
    adapter, asked = adapters(engine)[name]
    adapter.invoke(asked)
    assert drawn.count > 0
    assert spent(ledger) == pytest.approx(drawn.count * TOKEN)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_closed_stream(name, pieces, engine, ledger, drawn):
    adapter, asked = adapters(engine)[name]
    with closing(adapter.stream(asked)) as stream:
        for _ in range(pieces):
            next(stream, None)
    _check_settled(ledger, drawn.count)
    assert (drawn.count == 0) == (pieces == 1), "the first piece is public and free"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pieces", [1, 2])
async def test_closed_async_stream(name, pieces, engine, ledger, drawn):
    adapter, asked = adapters(engine)[name]
    async with aclosing(adapter.astream(asked)) as stream:
        for _ in range(pieces):
            await anext(stream, None)
    await _ended(ledger)
    _check_settled(ledger, drawn.count)


@pytest.mark.parametrize("model", [PrivateContextLLM, ChatPrivateContext])
async def test_closed_async_stream_of_a_model_is_settled_at_once(model, engine, ledger, drawn):
    stream = model(engine).astream(QUESTION, documents=DOCUMENTS)
    await anext(stream)
    await anext(stream)
    await stream.aclose()
    _check_settled(ledger, drawn.count)


@pytest.mark.parametrize("name", ["llm", "chat"])
def test_stream_closed_while_a_handler_keeps_the_error(name, engine, ledger, drawn):
    class Keeper(BaseCallbackHandler):
        errors: list = []  # noqa: RUF012

        def on_llm_error(self, error, **kwargs):
            self.errors.append(error)  # and with it the frames of its traceback

    adapter, asked = adapters(engine)[name]
    with closing(adapter.stream(asked, {"callbacks": [Keeper()]})) as stream:
        next(stream)
        next(stream, None)
    assert Keeper.errors
    _check_settled(ledger, drawn.count)


@pytest.mark.parametrize("name", NAMES)
async def test_cancelled_stream(name, engine, ledger, drawn):
    adapter, asked = adapters(engine)[name]
    begun = asyncio.Event()

    async def read():
        async for _ in adapter.astream(asked):
            begun.set()

    task = asyncio.create_task(read())
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    await _ended(ledger)
    _check_settled(ledger, drawn.count)


@pytest.mark.parametrize("name", NAMES)
def test_retry_pays_for_both_attempts(name, tiny_model, ledger, drawn):
    engine = make_engine(Failing(tiny_model, 3), ledger=ledger, max_tokens=6, **FIXED)
    adapter, asked = adapters(engine)[name]
    retrying = adapter.with_retry(
        retry_if_exception_type=(RuntimeError,), wait_exponential_jitter=False
    )
    retrying.invoke(asked)
    assert drawn.count > 3
    _check_settled(ledger, drawn.count)


@pytest.mark.parametrize("name", NAMES)
def test_retry_of_a_failure_before_the_first_token_is_free(name, tiny_model, ledger, drawn):
    engine = make_engine(Failing(tiny_model, 0), ledger=ledger, max_tokens=6, **FIXED)
    adapter, asked = adapters(engine)[name]
    adapter.with_retry(stop_after_attempt=2, wait_exponential_jitter=False).invoke(asked)
    assert 0 < drawn.count <= 6
    _check_settled(ledger, drawn.count)


@pytest.mark.parametrize("name", NAMES)
def test_retry_cannot_overspend(name, tiny_model, ledger):
    ledger.set_budget(corpus="default", rho=2 * TOKEN)
    engine = make_engine(Failing(tiny_model, 1), ledger=ledger, max_tokens=6, **FIXED)
    adapter, asked = adapters(engine)[name]
    retrying = adapter.with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
    retrying.invoke(asked)
    assert spent(ledger) <= 2 * TOKEN * (1 + 1e-6)
    ledger.set_budget(corpus="default", rho=spent(ledger))
    with pytest.raises(BudgetExceededError):
        retrying.invoke(asked)
    assert spent(ledger) <= 2 * TOKEN * (1 + 1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_eight_calls_at_once(name, engine, ledger, drawn):
    adapter, asked = adapters(engine)[name]
    answers = adapter.batch([asked] * 8, {"max_concurrency": 8})
    assert len(answers) == 8
    assert drawn.count >= 8
    _check_settled(ledger, drawn.count)


@pytest.mark.parametrize("name", NAMES)
async def test_eight_async_calls_at_once(name, engine, ledger, drawn):
    adapter, asked = adapters(engine)[name]
    await adapter.abatch([asked] * 8)
    _check_settled(ledger, drawn.count)


@pytest.mark.parametrize("name", NAMES)
def test_eight_calls_share_a_budget_for_ten_tokens(name, tiny_model, ledger, drawn):
    ledger.set_budget(corpus="default", rho=10 * TOKEN)
    engine = make_engine(tiny_model, ledger=ledger, max_tokens=6, **FIXED)
    adapter, asked = adapters(engine)[name]
    adapter.batch([asked] * 8, {"max_concurrency": 8}, return_exceptions=True)
    assert 0 < drawn.count <= 10
    _check_settled(ledger, drawn.count)


def test_metadata_of_an_answer(engine, ledger, drawn):
    ledger.set_budget(corpus="default", rho=1.0)
    answer = ChatPrivateContext(engine).invoke(QUESTION, documents=DOCUMENTS)
    assert set(answer.response_metadata) == {
        "epsilon",
        "delta",
        "budget_left",
        "output_tokens",
        "stopped_by",
    }
    assert answer.response_metadata["output_tokens"] == drawn.count
    assert answer.response_metadata["budget_left"] == pytest.approx(1 - drawn.count * TOKEN)
    assert answer.usage_metadata is None


def test_tool_tells_the_agent_that_the_budget_is_used_up(engine, ledger):
    ledger.set_budget(corpus="default", rho=TOKEN / 2)
    tool = PrivateRetrievalChain(Documents(), engine=engine).as_tool()
    assert "the budget of corpus 'default' cannot pay" in tool.invoke({"question": QUESTION})
    assert spent(ledger) == 0


async def _ended(ledger: Ledger) -> None:
    """Wait for answers that LangChain's bindings leave to the event loop to end."""
    for _ in range(500):
        if not _reserved(ledger):
            return
        await asyncio.sleep(0.01)


def _check_settled(ledger: Ledger, drawn: int) -> None:
    assert spent(ledger) == pytest.approx(drawn * TOKEN)
    assert not _reserved(ledger)


def _reserved(ledger: Ledger) -> float:
    return sum(status.reserved for status in ledger.status())
