"""What LangChain's own ways to ask are charged: retries, handlers, combined lists, tools.

What every adapter keeps is in `tests.integrations.test_charges`.
"""

from __future__ import annotations

from contextlib import closing

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda

from dpicl_rag import BudgetExceededError
from dpicl_rag.accounting import DIRECT, Stability
from dpicl_rag.documents import as_documents
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.retrieval import GivenDocuments
from langchain_dpicl_rag import (
    ChatPrivateContext,
    PrivateCombineDocuments,
    PrivateLLM,
    PrivateRetrievalChain,
)
from langchain_dpicl_rag.private_models import PrivateModel
from tests.integrations.charges import FIXED, TOKEN, check_settled
from tests.integrations.doors import DOCUMENTS, DOORS, QUESTION
from tests.integrations.langchain.support import make_llm, spent
from tests.support.around import Around

NAMES = [name for name in DOORS if name.startswith("LangChain")]


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


def test_combined_list_is_charged_as_top_k_and_a_retriever_as_it_says(short_llm, ledger, drawn):
    combine = PrivateCombineDocuments(short_llm)
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


@pytest.mark.parametrize("model", [PrivateLLM, ChatPrivateContext])
async def test_closed_async_stream_of_a_model_is_settled_at_once(model, short_llm, ledger, drawn):
    stream = model(short_llm).astream(QUESTION, documents=DOCUMENTS)
    await anext(stream)
    await anext(stream)
    await stream.aclose()
    check_settled(ledger, drawn.count)


@pytest.mark.parametrize("name", ["LangChain llm", "LangChain chat"])
def test_stream_closed_while_a_handler_keeps_the_error(name, short_llm, ledger, drawn):
    class Keeper(BaseCallbackHandler):
        errors: list = []  # noqa: RUF012

        def on_llm_error(self, error, **kwargs):
            self.errors.append(error)  # and with it the frames of its traceback

    door = DOORS[name](short_llm, DOCUMENTS)
    with closing(door.adapter.stream(door.asked, {"callbacks": [Keeper()]})) as stream:
        next(stream)
        next(stream, None)
    assert Keeper.errors
    check_settled(ledger, drawn.count)


@pytest.mark.filterwarnings("ignore::dpicl_rag.mechanisms.randomness.NotPrivateWarning")
@pytest.mark.parametrize("name", NAMES)
def test_retry_pays_for_both_attempts(name, tiny_model, ledger, drawn):
    # Seeded: one answer in thirty of a random model ends before it fails.
    llm = make_llm(Failing(tiny_model, 3), ledger=ledger, max_tokens=6, seed=1, **FIXED)
    door = DOORS[name](llm, DOCUMENTS)
    retrying = door.adapter.with_retry(
        retry_if_exception_type=(RuntimeError,), wait_exponential_jitter=False
    )
    retrying.invoke(door.asked)
    assert drawn.count > 3
    check_settled(ledger, drawn.count)


@pytest.mark.parametrize("name", NAMES)
def test_retry_of_a_failure_before_the_first_token_is_free(name, tiny_model, ledger, drawn):
    llm = make_llm(Failing(tiny_model, 0), ledger=ledger, max_tokens=6, **FIXED)
    door = DOORS[name](llm, DOCUMENTS)
    door.adapter.with_retry(stop_after_attempt=2, wait_exponential_jitter=False).invoke(door.asked)
    assert 0 < drawn.count <= 6
    check_settled(ledger, drawn.count)


@pytest.mark.parametrize("name", NAMES)
def test_retry_cannot_overspend(name, tiny_model, ledger):
    ledger.set_budget(corpus="default", rho=2 * TOKEN)
    llm = make_llm(Failing(tiny_model, 1), ledger=ledger, max_tokens=6, **FIXED)
    door = DOORS[name](llm, DOCUMENTS)
    retrying = door.adapter.with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
    retrying.invoke(door.asked)
    assert spent(ledger) <= 2 * TOKEN * (1 + 1e-6)
    ledger.set_budget(corpus="default", rho=spent(ledger))
    with pytest.raises(BudgetExceededError):
        retrying.invoke(door.asked)
    assert spent(ledger) <= 2 * TOKEN * (1 + 1e-6)


class Public(FakeListChatModel):
    """A model that remembers what it was handed."""

    handed: list = []  # noqa: RUF012

    def _call(self, messages, stop=None, run_manager=None, **kwargs):
        self.handed.append((messages, kwargs))
        return super()._call(messages, stop, run_manager)


FALLING_BACK = {
    "llm": PrivateLLM,
    "chat": ChatPrivateContext,
    "chain": lambda llm: PrivateRetrievalChain(GivenDocuments(as_documents(DOCUMENTS)), llm=llm),
    "combined": lambda llm: PrivateCombineDocuments(llm, unit_field="document"),
}


@pytest.mark.parametrize("name", FALLING_BACK)
def test_a_spent_budget_hands_no_document_to_another_model(name, short_llm, ledger):
    ledger.set_budget(corpus="default", rho=1e-9)
    private, public = FALLING_BACK[name](short_llm), Public(responses=["It is public."])
    given = {"documents": DOCUMENTS} if isinstance(private, PrivateModel) else {}
    asked = {"input": QUESTION, "context": DOCUMENTS} if name == "combined" else QUESTION
    other = public if given else RunnableLambda(lambda _: public.invoke(str(asked)))
    with pytest.raises(ConfigurationError, match="BudgetExceededError"):
        private.with_fallbacks([other]).invoke(asked, **given)
    assert not public.handed
    with pytest.raises(BudgetExceededError):
        private.with_fallbacks([private.with_retry(stop_after_attempt=1)]).invoke(asked, **given)


def test_metadata_of_an_answer(short_llm, ledger, drawn):
    ledger.set_budget(corpus="default", rho=1.0)
    answer = ChatPrivateContext(short_llm).invoke(QUESTION, documents=DOCUMENTS)
    assert set(answer.response_metadata) == {
        "kind",
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
        "parts",
    }
    assert answer.response_metadata["output_tokens"] == drawn.count
    assert answer.response_metadata["budget_left"] == pytest.approx(1 - drawn.count * TOKEN)
    assert answer.usage_metadata is None


def test_tool_tells_the_agent_that_the_budget_is_used_up(short_llm, ledger):
    ledger.set_budget(corpus="default", rho=TOKEN / 2)
    tool = PrivateRetrievalChain(GivenDocuments(DOCUMENTS), llm=short_llm).as_tool()
    assert "the budget of corpus 'default' cannot pay" in tool.invoke({"question": QUESTION})
    assert spent(ledger) == 0
