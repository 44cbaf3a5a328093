"""The ledger is charged for what was released: streams cut short, retries, calls at once."""

from __future__ import annotations

import asyncio
import math
import threading
from contextlib import aclosing, closing

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore

from dpicl_rag import BudgetExceededError, Ledger
from dpicl_rag.accounting import DIRECT, Adjacency, Stability
from dpicl_rag.documents import as_documents
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval import ExactRetriever, GivenDocuments, PrivateThresholdRetriever
from langchain_dpicl_rag import (
    ChatPrivateContext,
    PrivateCombineDocuments,
    PrivateLLM,
    PrivateRetrievalChain,
)
from langchain_dpicl_rag.store_retrievers import private_retriever
from tests.integrations.langchain.support import QUESTION, WordEmbeddings, make_llm, spent
from tests.support.around import Around
from tests.support.failing_engine import FailingEngine

DOCUMENTS = ["Ann has zingpocket.", "Bob has zingpocket."]

# One token costs (strength * clip * factor)^2 / 8 of rho, 1/128 where a unit adds an expert, and
# nothing is paid beside tokens.
FIXED = {
    "accounting": "fixed",
    "utility": "log_prob",
    "clip": 4.0,
    "strength": 1 / 16,
    "unsupported": "ignore",
}
TOKEN = 1 / 128


class Failing(Around):
    """The tiny model, failing once after some draws."""

    def __init__(self, model, draws: int) -> None:
        super().__init__(model)
        self._left = draws

    def read(self, *args, **kwargs):
        return _FailingRows(self, self._model.read(*args, **kwargs))


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
def llm(tiny_model, ledger):
    return make_llm(tiny_model, ledger=ledger, max_tokens=6, **FIXED)


def adapters(llm, documents=DOCUMENTS):
    """Each adapter with the input that asks it; ``documents`` may be a retriever."""
    combined = {"input": QUESTION, "context": documents}
    retriever = GivenDocuments(documents) if isinstance(documents, list) else documents
    combine = PrivateCombineDocuments(llm, stability=DIRECT)
    return {
        "llm": (PrivateLLM(llm).bind(documents=documents), QUESTION),
        "chat": (ChatPrivateContext(llm).bind(documents=documents), QUESTION),
        "chain": (PrivateRetrievalChain(retriever, llm=llm), QUESTION),
        "combine": (combine, combined),
    }


NAMES = ["llm", "chat", "chain", "combine"]


class Drawn:
    """Counts the tokens drawn, at the one place where they are."""

    def __init__(self, monkeypatch) -> None:
        self.count = 0
        draw = Randomness.draw

        def counted(*args, **kwargs):
            self.count += 1
            return draw(*args, **kwargs)

        monkeypatch.setattr(Randomness, "draw", counted)


@pytest.fixture
def drawn(monkeypatch):
    return Drawn(monkeypatch)


@pytest.mark.parametrize("name", NAMES)
def test_whole_answer(name, llm, ledger, drawn):
    adapter, asked = adapters(llm)[name]
    adapter.invoke(asked)
    assert drawn.count > 0
    assert spent(ledger) == pytest.approx(drawn.count * TOKEN)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("calls", [0, 3])
def test_an_engine_that_stops_answering_ends_the_answer(
    name, calls, tiny_model, ledger, drawn, monkeypatch
):
    monkeypatch.setattr(tiny_model.tokenizer, "stop_tokens", frozenset())
    settings = {**FIXED, "ledger": ledger, "max_tokens": 6}
    engine = FailingEngine(tiny_model, calls)
    adapter, asked = adapters(make_llm(engine, **settings))[name]
    whole = adapter.invoke(asked)
    drawn_at_once = max(0, calls - 1)
    assert drawn.count == drawn_at_once
    assert spent(ledger) == pytest.approx(drawn.count * TOKEN)
    if name == "chat":
        assert whole.response_metadata["stopped_by"] == "unavailable"
        assert whole.response_metadata["output_tokens"] == drawn_at_once
    engine.left = calls
    assert list(adapter.stream(asked))
    assert drawn.count == 2 * drawn_at_once
    _check_settled(ledger, drawn.count)


@pytest.mark.parametrize("name", NAMES)
def test_private_search_is_paid_for(name, llm, ledger, drawn):
    store = InMemoryVectorStore.from_texts(DOCUMENTS, WordEmbeddings())
    vectors = private_retriever(store, unit_field="document").source
    retriever = PrivateThresholdRetriever(vectors, 2, sigma=30.0, thresholds=(-1,))
    adapter, asked = adapters(llm, retriever)[name]
    adapter.invoke(asked)
    assert drawn.count > 0
    search = retriever.rho(Adjacency.ADD_OR_REMOVE_ONE)
    assert spent(ledger) == pytest.approx(search + drawn.count * TOKEN)


def test_combined_list_is_charged_as_top_k_and_a_retriever_as_it_says(llm, ledger, drawn):
    combine = PrivateCombineDocuments(llm)
    combine.invoke({"input": QUESTION, "context": DOCUMENTS})
    as_top_k = drawn.count * TOKEN * 4  # twice the reach
    assert spent(ledger) == pytest.approx(as_top_k)
    drawn.count = 0
    combine.invoke({"input": QUESTION, "context": GivenDocuments(DOCUMENTS)})
    assert spent(ledger) == pytest.approx(as_top_k + drawn.count * TOKEN)


@pytest.mark.parametrize(
    ("stability", "factor"), [(Stability(0, 1), 2), (DIRECT, 1), (Stability(0, 2), 4)]
)
def test_combined_chunks_of_one_unit_are_charged_as_declared(
    stability, factor, tiny_model, ledger, drawn
):
    settings = {**FIXED, "privacy_unit": "source"}
    llm = make_llm(tiny_model, ledger=ledger, max_tokens=6, **settings)
    chunks = [Document(text, metadata={"source": "a"}) for text in DOCUMENTS]
    asked = {"input": QUESTION, "context": chunks}
    PrivateCombineDocuments(llm, stability=stability).invoke(asked)
    assert drawn.count > 0
    # The conversion is exact, a little below the square.
    assert spent(ledger) == pytest.approx(drawn.count * TOKEN * factor**2, rel=0.02)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_closed_stream(name, pieces, llm, ledger, drawn):
    adapter, asked = adapters(llm)[name]
    with closing(adapter.stream(asked)) as stream:
        for _ in range(pieces):
            next(stream, None)
    _check_settled(ledger, drawn.count)
    assert (drawn.count == 0) == (pieces == 1), "the first piece is public and free"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pieces", [1, 2])
async def test_closed_async_stream(name, pieces, llm, ledger, drawn):
    adapter, asked = adapters(llm)[name]
    async with aclosing(adapter.astream(asked)) as stream:
        for _ in range(pieces):
            await anext(stream, None)
    await _ended(ledger)
    _check_settled(ledger, drawn.count)


@pytest.mark.parametrize("model", [PrivateLLM, ChatPrivateContext])
async def test_closed_async_stream_of_a_model_is_settled_at_once(model, llm, ledger, drawn):
    stream = model(llm).astream(QUESTION, documents=DOCUMENTS)
    await anext(stream)
    await anext(stream)
    await stream.aclose()
    _check_settled(ledger, drawn.count)


@pytest.mark.parametrize("name", ["llm", "chat"])
def test_stream_closed_while_a_handler_keeps_the_error(name, llm, ledger, drawn):
    class Keeper(BaseCallbackHandler):
        errors: list = []  # noqa: RUF012

        def on_llm_error(self, error, **kwargs):
            self.errors.append(error)  # and with it the frames of its traceback

    adapter, asked = adapters(llm)[name]
    with closing(adapter.stream(asked, {"callbacks": [Keeper()]})) as stream:
        next(stream)
        next(stream, None)
    assert Keeper.errors
    _check_settled(ledger, drawn.count)


@pytest.mark.parametrize("name", NAMES)
async def test_cancelled_stream(name, llm, ledger, drawn):
    adapter, asked = adapters(llm)[name]
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
async def test_stream_cancelled_during_the_search(name, llm, ledger, drawn):
    searching, found = threading.Event(), threading.Event()

    class Slow(ExactRetriever):
        stability = DIRECT

        def retrieve(self, question):
            searching.set()
            assert found.wait(30)
            return as_documents(DOCUMENTS)

    adapter, asked = adapters(llm, Slow())[name]

    async def read():
        async for _ in adapter.astream(asked):
            pass

    task = asyncio.create_task(read())
    await asyncio.to_thread(searching.wait)
    assert _reserved(ledger)
    task.cancel()
    await asyncio.sleep(0)
    found.set()
    await asyncio.wait([task])
    await _ended(ledger)
    _check_settled(ledger, 0)


@pytest.mark.filterwarnings("ignore::dpicl_rag.mechanisms.randomness.NotPrivateWarning")
@pytest.mark.parametrize("name", NAMES)
def test_retry_pays_for_both_attempts(name, tiny_model, ledger, drawn):
    # Seeded: one answer in thirty of a random model ends before it fails.
    llm = make_llm(Failing(tiny_model, 3), ledger=ledger, max_tokens=6, seed=1, **FIXED)
    adapter, asked = adapters(llm)[name]
    retrying = adapter.with_retry(
        retry_if_exception_type=(RuntimeError,), wait_exponential_jitter=False
    )
    retrying.invoke(asked)
    assert drawn.count > 3
    _check_settled(ledger, drawn.count)


@pytest.mark.parametrize("name", NAMES)
def test_retry_of_a_failure_before_the_first_token_is_free(name, tiny_model, ledger, drawn):
    llm = make_llm(Failing(tiny_model, 0), ledger=ledger, max_tokens=6, **FIXED)
    adapter, asked = adapters(llm)[name]
    adapter.with_retry(stop_after_attempt=2, wait_exponential_jitter=False).invoke(asked)
    assert 0 < drawn.count <= 6
    _check_settled(ledger, drawn.count)


@pytest.mark.parametrize("name", NAMES)
def test_retry_cannot_overspend(name, tiny_model, ledger):
    ledger.set_budget(corpus="default", rho=2 * TOKEN)
    llm = make_llm(Failing(tiny_model, 1), ledger=ledger, max_tokens=6, **FIXED)
    adapter, asked = adapters(llm)[name]
    retrying = adapter.with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
    retrying.invoke(asked)
    assert spent(ledger) <= 2 * TOKEN * (1 + 1e-6)
    ledger.set_budget(corpus="default", rho=spent(ledger))
    with pytest.raises(BudgetExceededError):
        retrying.invoke(asked)
    assert spent(ledger) <= 2 * TOKEN * (1 + 1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_eight_calls_at_once(name, llm, ledger, drawn):
    adapter, asked = adapters(llm)[name]
    answers = adapter.batch([asked] * 8, {"max_concurrency": 8})
    assert len(answers) == 8
    assert drawn.count >= 8
    _check_settled(ledger, drawn.count)


@pytest.mark.parametrize("name", NAMES)
async def test_eight_async_calls_at_once(name, llm, ledger, drawn):
    adapter, asked = adapters(llm)[name]
    await adapter.abatch([asked] * 8)
    _check_settled(ledger, drawn.count)


@pytest.mark.parametrize("name", NAMES)
def test_eight_calls_share_a_budget_for_ten_tokens(name, tiny_model, ledger, drawn):
    ledger.set_budget(corpus="default", rho=10 * TOKEN)
    llm = make_llm(tiny_model, ledger=ledger, max_tokens=6, **FIXED)
    adapter, asked = adapters(llm)[name]
    adapter.batch([asked] * 8, {"max_concurrency": 8}, return_exceptions=True)
    assert 0 < drawn.count <= 10
    _check_settled(ledger, drawn.count)


def test_metadata_of_an_answer(llm, ledger, drawn):
    ledger.set_budget(corpus="default", rho=1.0)
    answer = ChatPrivateContext(llm).invoke(QUESTION, documents=DOCUMENTS)
    assert set(answer.response_metadata) == {
        "epsilon",
        "delta",
        "budget_left",
        "question",
        "output_tokens",
        "stopped_by",
        "supported",
        "from_memory",
        "by",
        "agreeing",
        "agreeing_within",
    }
    assert answer.response_metadata["output_tokens"] == drawn.count
    assert answer.response_metadata["budget_left"] == pytest.approx(1 - drawn.count * TOKEN)
    assert answer.usage_metadata is None


def test_tool_tells_the_agent_that_the_budget_is_used_up(llm, ledger):
    ledger.set_budget(corpus="default", rho=TOKEN / 2)
    tool = PrivateRetrievalChain(GivenDocuments(DOCUMENTS), llm=llm).as_tool()
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
