"""An engine that stops answering ends an answer: paid for what it released, the rest refunded."""

from __future__ import annotations

import asyncio
import math
import warnings

import pytest
import torch

from dpicl_rag import (
    Document,
    EngineUnavailableError,
    Ledger,
    ModelError,
    PrivateContextLLM,
    PromptTemplate,
)
from dpicl_rag.answering import answers
from dpicl_rag.answering.decoding import decode
from dpicl_rag.answering.support import Support, SupportCount
from dpicl_rag.knowledge import AnswerMemory
from dpicl_rag.mechanisms.privacy_filters import FixedFilter
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, SeededRandomness
from dpicl_rag.mechanisms.selection import ExponentialMechanism
from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.mechanisms.utilities import Surplus
from dpicl_rag.retrieval import PrivateThresholdRetriever
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.failing_engine import FailingEngine
from tests.support.scored_units import ScoredUnits

DOCUMENTS = ["The code is 4471.", "The code is 4471, says Ida.", "Lunch is at noon."]
QUESTION = "What is the code?"
TOKENS = 6
# One token costs (strength * clip)^2 / 8 of rho.
FIXED = {"accounting": "fixed", "utility": "log_prob", "clip": 4.0, "strength": 1 / 16}
TOKEN = 1 / 128
UNPAID = {"unsupported": "ignore", "max_tokens": TOKENS}


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="default", rho=math.inf)
        yield ledger


@pytest.fixture
def endless(monkeypatch, tiny_model):
    """No token ends an answer."""
    monkeypatch.setattr(tiny_model.tokenizer, "stop_tokens", frozenset())


@pytest.fixture
def make(tiny_model, ledger):
    """A private language model whose engine answers so many calls; reading is the first."""

    def make(calls, **settings):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotPrivateWarning)
            given = {"agreement": "off", **settings}
            return PrivateContextLLM(
                FailingEngine(tiny_model, calls), ledger=ledger, seed=3, **given
            )

    return make


def status(ledger):
    (found,) = (s for s in ledger.status() if s.kind == "corpus")
    return found


@pytest.mark.one_in(9)
@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize("released", range(TOKENS + 1))
def test_what_was_released_is_paid_for_and_nothing_else(make, ledger, released):
    whole = make(1 + TOKENS, **FIXED, **UNPAID).answer(QUESTION, DOCUMENTS)
    assert (whole.tokens, whole.stopped_by) == (TOKENS, "length")
    before = status(ledger).spent
    answer = make(1 + released, **FIXED, **UNPAID).answer(QUESTION, DOCUMENTS)
    assert answer.tokens == released
    assert answer.stopped_by == ("length" if released == TOKENS else "unavailable")
    assert whole.text.startswith(answer.text.rstrip("\ufffd"))  # half a character is bytes here
    assert answer.supported is None
    assert answer.rho == pytest.approx(released * TOKEN)
    assert status(ledger).spent - before == pytest.approx(released * TOKEN, rel=1e-6)
    assert status(ledger).reserved == 0


@pytest.mark.usefixtures("endless")
def test_documents_that_cannot_be_read_cost_nothing(make, ledger):
    answer = make(0, **FIXED, **UNPAID).answer(QUESTION, DOCUMENTS)
    assert (answer.text, answer.tokens, answer.stopped_by) == ("", 0, "unavailable")
    assert answer.rho == status(ledger).spent == status(ledger).reserved == 0


@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize("block_tokens", [0, 3])
@pytest.mark.parametrize("unsupported", ["mark", "refuse", "ignore"])
@pytest.mark.parametrize("accounting", ["individual", "fixed"])
def test_every_way_of_asking_ends_so(make, ledger, accounting, unsupported, block_tokens):
    asked = {"accounting": accounting, "unsupported": unsupported, "block_tokens": block_tokens}
    for calls in range(5):
        answer = make(calls, max_tokens=TOKENS, **asked).answer(QUESTION, DOCUMENTS)
        assert answer.stopped_by == "unavailable"
        assert answer.tokens < TOKENS
        # Nobody asked whether the documents support it.
        assert answer.supported is None
        if unsupported == "refuse":
            assert answer.text == ""
    assert status(ledger).reserved == 0


@pytest.mark.usefixtures("endless")
def test_a_stream_ends_with_what_it_had_and_brings_its_answer(make):
    pieces = make(3, **UNPAID).stream(QUESTION, DOCUMENTS)
    assert "".join(list(pieces)).strip() == pieces.answer.text
    assert (pieces.answer.tokens, pieces.answer.stopped_by) == (2, "unavailable")
    assert list(pieces) == []
    pieces.close()
    assert pieces.answer.stopped_by == "unavailable"


@pytest.mark.usefixtures("endless")
def test_public_words_and_held_answers_end_without_an_empty_piece(make):
    words = PromptTemplate(answer_prefix="The code is")
    assert list(make(0, **UNPAID, template=words).stream(QUESTION, DOCUMENTS)) == ["The code is"]
    held = make(0, unsupported="refuse", template=words).stream(QUESTION, DOCUMENTS)
    assert list(held) == []
    assert held.answer.text == ""


@pytest.mark.usefixtures("endless")
def test_the_async_twins_end_so_too(make):
    async def ask():
        pieces = [piece async for piece in make(2, **UNPAID).astream(QUESTION, DOCUMENTS)]
        return pieces, await make(2, **UNPAID).aanswer(QUESTION, DOCUMENTS)

    pieces, answer = asyncio.run(ask())
    assert "".join(pieces).strip() == answer.text
    assert answer.stopped_by == "unavailable"


def test_a_label_is_one_error_and_costs_nothing(make, ledger):
    for calls in range(3):
        with pytest.raises(EngineUnavailableError) as caught:
            make(calls).classify(QUESTION, DOCUMENTS, ["4471", "noon"])
        assert str(caught.value) == str(EngineUnavailableError())
        assert caught.value.__cause__ is caught.value.__context__ is None
    assert status(ledger).spent == status(ledger).reserved == 0
    assert make(3).classify(QUESTION, DOCUMENTS, ["4471", "noon"]).rho > 0


def test_it_is_an_error_of_the_model():
    assert issubclass(EngineUnavailableError, ModelError)


def test_a_search_that_was_done_stays_paid(make, ledger):
    documents = ScoredUnits({f"unit {n}": [0.78] for n in range(20)})
    llm = make(0, max_tokens=TOKENS, epsilon=8.0, unsupported="ignore", corpus="default")
    with llm.stream(QUESTION, PrivateThresholdRetriever(documents, 16)) as stream:
        list(stream)
    assert stream.answer.stopped_by == "unavailable"
    assert stream.answer.rho > 0
    assert status(ledger).spent == pytest.approx(stream.answer.rho, rel=1e-6)
    assert status(ledger).reserved == 0


@pytest.mark.usefixtures("endless")
def test_an_engine_that_is_gone_when_support_is_asked_leaves_the_text(
    make, ledger, tmp_path, monkeypatch
):
    monkeypatch.setattr(answers, "proposal_for", lambda asked, *_: (None, asked.text))
    # With knowledge, the bare model is asked again after the last token.
    with AnswerMemory(tmp_path / "memory", "default", embedder=BucketEmbedder()) as memory:
        given = {"max_tokens": TOKENS, "knowledge": memory, "corpus": "default"}
        known = [Document("The code is 17.", "handbook")]
        llm = make(10_000, **given)
        llm._knowledge.recall = lambda question: [d.text for d in known]
        whole = llm.answer(QUESTION, DOCUMENTS)
        assert whole.supported is not None
        spent = status(ledger).spent
        llm.model.left = 1 + TOKENS  # to the last token
        answer = llm.answer(QUESTION, DOCUMENTS)
    assert (answer.tokens, answer.stopped_by, answer.supported) == (TOKENS, "unavailable", None)
    assert answer.recalled == 1
    # The count was not drawn, and not paid for.
    assert answer.rho < whole.rho
    assert status(ledger).spent - spent == pytest.approx(answer.rho, rel=1e-6)
    assert status(ledger).reserved == 0


def test_an_engine_that_is_gone_before_the_search_is_an_error_and_free(make, ledger):
    llm = make(0, max_tokens=TOKENS)
    llm._knowledge.recall = lambda question: ["The code is 17."]
    documents = ScoredUnits({"unit": [0.9]})
    documents.search = lambda question: pytest.fail("searched")
    with pytest.raises(EngineUnavailableError):
        llm.answer(QUESTION, documents)
    assert status(ledger).spent == status(ledger).reserved == 0


def test_a_token_that_was_paid_for_is_released_before_the_answer_ends(tiny_model):
    class Deaf(Support):
        def record(self, step, token):
            raise EngineUnavailableError

    rows = torch.log_softmax(torch.randn(4, 8, generator=torch.Generator().manual_seed(0)), -1)

    class Rows:
        def extend(self, token_ids):
            return DenseStep(rows[0], rows[1:])

    with pytest.warns(NotPrivateWarning):
        coins = SeededRandomness(0)
    spend = FixedFilter(1.0, 0.1)
    tokens = decode(
        *(Rows(), [1], ExponentialMechanism(Surplus(), 1.0), spend, coins),
        max_tokens=5,
        stop_tokens=frozenset(),
        support=Deaf(SupportCount.within(0.1, 1), spend, coins),
    )
    assert next(tokens) in range(8)
    with pytest.raises(EngineUnavailableError):
        next(tokens)
    assert spend.rho == pytest.approx(0.1)


@pytest.mark.parametrize("agreement", ["auto", "only"])
def test_an_engine_that_is_gone_while_experts_answer_costs_nothing(make, ledger, agreement):
    answer = make(1, agreement=agreement, max_tokens=TOKENS).answer(QUESTION, DOCUMENTS)
    assert (answer.text, answer.tokens, answer.stopped_by) == ("", 0, "unavailable")
    assert (answer.by, answer.agreeing, answer.supported) == (None, None, None)
    found = status(ledger)
    assert answer.rho == found.spent == found.reserved == found.delta_spent == 0
