"""Counts and tallies by the language model: what they cost, and what is refused."""

import asyncio
import math

import pytest
import torch

from dpicl_rag import (
    BudgetExceededError,
    ConfigurationError,
    Document,
    Ledger,
    MissingDocumentsError,
    PrivateContextLLM,
    ThresholdRetriever,
)
from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.retrieval import TopKRetriever
from dpicl_rag.surveys import tallies
from dpicl_rag.surveys.opinions import says_yes
from tests.support.readings import GUESSED_LABELS, GUESSING, LABELLING, SEEING
from tests.support.scored_units import ScoredUnits

REFUNDS = [Document(f"refund please {n}", f"r{n}") for n in range(300)]
THANKS = [Document(f"all is well {n}", f"t{n}") for n in range(200)]


@pytest.fixture
def llm(tiny_model):
    return PrivateContextLLM(tiny_model, epsilon=4.0)


def test_an_empty_list_gives_noise_and_no_error(llm):
    assert llm.count("refund?", []).yes.low == 0
    assert llm.tally("what?", ["refund", "praise"], []).total.low == 0


def test_a_tally_counts_every_unit_once(llm):
    found = llm.tally("what?", ["refund", "praise"], REFUNDS[:40])
    assert found.total.low <= 40 <= found.total.high
    assert list(found.counts) == ["refund", "praise"]
    assert (found.epsilon, found.delta) == (4.0, 1e-5)
    assert found.rho <= epsilon_to_rho(4.0, 1e-5)


def test_progress_is_told_and_the_twins_do_the_same(llm):
    seen = []
    llm.count("refund?", REFUNDS[:4], on_progress=lambda done, _: seen.append(done))
    assert seen[-1] == 1.0
    assert asyncio.run(llm.acount("refund?", REFUNDS[:4])).question == "refund?"
    assert asyncio.run(llm.atally("what?", ["a", "b"], REFUNDS[:4])).question == "what?"


def test_all_units_of_a_corpus_are_asked(llm):
    corpus = ScoredUnits({f"u{n}": [-0.9] for n in range(50)})
    found = llm.tally("what?", ["refund", "praise"], corpus)
    assert found.total.low <= 50 <= found.total.high
    few = llm.tally("what?", ["refund", "praise"], ThresholdRetriever(corpus, 0.5))
    assert few.total.low == 0


def test_a_sample_is_scaled(llm):
    found = llm.tally("what?", ["refund", "praise"], [*REFUNDS, *THANKS], sample=0.2)
    assert found.total.low <= 500 <= found.total.high
    assert found.total.high - found.total.low > 60


def test_the_ledger_keeps_the_budget(tiny_model, tmp_path):
    with Ledger(tmp_path / "l.sqlite") as ledger:
        price = epsilon_to_rho(4.0, 1e-5)
        ledger.set_budget(corpus="default", rho=1.5 * price)
        llm = PrivateContextLLM(tiny_model, epsilon=4.0, ledger=ledger, accounting="fixed")
        llm.count("refund?", REFUNDS[:5])
        assert ledger.status()[0].spent == pytest.approx(price)
        with pytest.raises(BudgetExceededError):
            llm.tally("what?", ["a", "b"], REFUNDS[:5])
        assert ledger.status()[0].spent == pytest.approx(price)


def test_where_units_may_have_spent_their_budget_it_is_said(tiny_model, tmp_path):
    with Ledger(tmp_path / "l.sqlite") as ledger:
        ledger.set_budget(corpus="default", rho=1.5 * epsilon_to_rho(4.0, 1e-5))
        llm = PrivateContextLLM(tiny_model, epsilon=4.0, ledger=ledger)
        first = llm.tally("what?", ["a", "b"], REFUNDS[:40])
        assert first.complete
        assert first.total.low > 20
        # All have spent two thirds of their budget, and cannot pay for a second one.
        second = llm.tally("what?", ["a", "b"], REFUNDS[:40])
        assert not second.complete
        assert second.total.low == 0
        assert second.text.endswith("Units that have spent their budget are not counted.")


def test_a_unit_budget_below_the_price_is_refused(tiny_model, tmp_path):
    with Ledger(tmp_path / "l.sqlite") as ledger:
        ledger.set_budget(corpus="default", rho=10.0, unit_rho=1e-3)
        llm = PrivateContextLLM(tiny_model, epsilon=4.0, ledger=ledger)
        with pytest.raises(ConfigurationError, match="budget set"):
            llm.count("refund?", REFUNDS[:5])
        assert ledger.status()[0].spent == 0


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (["refund"], {}, "at least two labels"),
        (["refund", "refund"], {}, "cannot be told apart"),
        ("refund", {}, "not one string"),
        (["a", "b"], {"most": 3}, "cannot say 3 of 2"),
        (["a", "b"], {"most": 0}, "most"),
        (["a", "b"], {"sample": 0.0}, "sample"),
    ],
)
def test_what_cannot_be_tallied_is_said_before_anything_is_paid(llm, labels, options, message):
    with pytest.raises(ConfigurationError, match=message):
        llm.tally("what?", labels, REFUNDS[:2], **options)


def test_other_settings_that_do_not_fit(tiny_model, llm):
    grouped = PrivateContextLLM(tiny_model, groups=2)
    with pytest.raises(ConfigurationError, match="one by one"):
        grouped.count("refund?", REFUNDS[:2])
    with pytest.raises(MissingDocumentsError):
        llm.count("refund?", None)
    corpus = ScoredUnits({"u": [0.9]})
    individual = PrivateContextLLM(tiny_model, accounting="individual")
    with pytest.raises(ConfigurationError, match="individual"):
        individual.count("refund?", TopKRetriever(corpus, 20))


def test_a_model_that_cannot_count_is_refused_before_anything_is_paid(
    tiny_model, tmp_path, monkeypatch
):
    monkeypatch.setattr(tallies, "yes_or_no_of", lambda _: GUESSING)
    with Ledger(tmp_path / "l.sqlite") as ledger:
        ledger.set_budget(corpus="default", rho=10.0)
        llm = PrivateContextLLM(tiny_model, ledger=ledger)
        with pytest.raises(ConfigurationError, match=r"by='vectors'.*reader.*anyway=True") as said:
            llm.count("refund?", REFUNDS[:5])
        assert "50 in 100" in str(said.value)
        assert "\n" not in str(said.value)
        assert ledger.status()[0].spent == 0
        assert llm.count("refund?", REFUNDS[:5], anyway=True).reading is None
        assert ledger.status()[0].spent > 0


def test_a_model_that_cannot_label_is_refused_before_anything_is_paid(
    tiny_model, tmp_path, monkeypatch
):
    monkeypatch.setattr(tallies, "labelling_of", lambda _: GUESSED_LABELS)
    with Ledger(tmp_path / "l.sqlite") as ledger:
        ledger.set_budget(corpus="default", rho=10.0)
        llm = PrivateContextLLM(tiny_model, ledger=ledger)
        with pytest.raises(ConfigurationError, match=r"by='vectors'.*reader.*anyway=True") as said:
            llm.tally("what?", ["a", "b"], REFUNDS[:5])
        assert "\n" not in str(said.value)
        assert ledger.status()[0].spent == 0
        assert llm.tally("what?", ["a", "b"], REFUNDS[:5], anyway=True).labelling is None


def test_a_tally_of_a_model_that_can_is_corrected_and_says_so(llm):
    found = llm.tally("what?", ["a", "b"], REFUNDS[:40])
    assert found.labelling == LABELLING
    assert "noise and misreading: on public documents the model gives 90 in 100" in found.text
    assert "noise alone" in llm.tally("what?", ["a", "b"], REFUNDS[:4], most=2).text


def test_a_question_without_words_is_refused_before_a_model_is_rehearsed(llm, monkeypatch):
    monkeypatch.setattr(tallies, "yes_or_no_of", None)
    with pytest.raises(ConfigurationError):
        llm.count("  ", REFUNDS[:2])


def test_a_model_that_can_is_corrected_whatever_else_is_asked(llm):
    found = llm.count("refund?", REFUNDS[:40])
    assert found.reading == SEEING.clear
    assert llm.count("refund?", REFUNDS[:40], anyway=True).reading == SEEING.clear
    assert found.yes.high - found.yes.units > 4


def test_a_unit_says_yes_where_its_own_odds_are_above_the_bar():
    rows = torch.tensor([[0.2, 0.8], [0.9, 0.1], [0.6, 0.4], [math.nan, math.nan]]).log()
    step = DenseStep(rows[0], rows[1:])
    assert says_yes(step, 0.0).tolist() == [[True], [True], [False]]
    assert says_yes(step, 1.0).tolist() == [[True], [False], [False]]
    alone = DenseStep(rows[0], rows[2:3])
    assert says_yes(alone, 0.0).tolist() == [[True]]
