"""A released count too low for any answer: the public answer comes out, and draws cost nothing."""

from __future__ import annotations

import asyncio
import itertools
import random

import pytest
import torch

from dpicl_rag import Document, Ledger, PrivateContextLLM
from dpicl_rag.accounting import DIRECT
from dpicl_rag.answering.answer_plan import answer_plan
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.retrieval import Candidates, Retrieved
from dpicl_rag.retrieval.base import NoisyCount

SEARCH_RHO = 0.001
SETTINGS = (
    {},
    {"utility": "vote"},
    {"public_top_k": 5},
    {"block_tokens": 2},
    {"copy_bias": 2.0},
    {"unsupported": "ignore"},
)


class Counted:
    """Three units that are found, beside a count that says hardly any is."""

    corpus_name = "notes"
    stability = DIRECT
    units = ("a", "b", "c")

    def __init__(self, *values: float) -> None:
        self.values = itertools.cycle(values)

    def rho(self, adjacency):
        return SEARCH_RHO

    def search(self, question):
        found = {unit: [Document(f"document {unit} xyzzy", unit)] for unit in self.units}
        count = NoisyCount(next(self.values), 0.5)
        units = list(found)
        return Candidates(units, lambda *_: Retrieved(found, [SEARCH_RHO] * len(units), count))


class NoUnits(Counted):
    units = ()


class Coins(Randomness):
    """The same coins in every run."""

    def __init__(self):
        self.random = random.Random(5)

    def uniform(self):
        return self.random.random()

    def below(self, bound):
        return self.random.randrange(bound)


def private_llm(model, **settings):
    given = {"epsilon": 2.0, "max_tokens": 6, "agreement": "off", **settings}
    return PrivateContextLLM(model, randomness=Coins(), **given)


def silent(**settings):
    config = PrivacyConfig(epsilon=2.0, agreement="off", **settings)
    plan = answer_plan(config, DIRECT, SEARCH_RHO)
    mechanism = plan.mechanism_for(NoisyCount(0.0, 0.5))
    assert mechanism.strength == 0.0
    return mechanism


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_silent_experts_add_nothing_to_the_last_bit_and_cost_nothing(settings):
    """Rows of any kind: sure ones, impossible tokens, and what is no row."""
    mechanism = silent(**settings)
    public = torch.log_softmax(torch.tensor([3.0, 1.0, 0.0, -2.0, -9.0, -torch.inf]), -1)
    sure = torch.full((6,), -torch.inf)
    sure[5] = 0.0
    rows = torch.stack([public, sure, public.flip(0), torch.full((6,), torch.nan)])
    for experts in (rows, rows[:0], rows.half()):
        step = DenseStep(public, experts)
        assert mechanism.ranges(step).tolist() == [0.0] * len(experts)
        alone = mechanism.utility.base(public).double()
        assert mechanism.scores(step).tolist() == alone.tolist()
        assert not mechanism.distribution(step).isnan().any()
    assert mechanism.rho == 0.0


@pytest.mark.one_in(5)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("value", [-7.0, 0.0])
def test_the_public_answer_comes_out_as_usual(tiny_model, settings, value):
    answer = private_llm(tiny_model, **settings).answer("q?", Counted(value))
    public = private_llm(tiny_model, **settings).answer("q?", NoUnits(value))
    assert answer == public
    assert answer.tokens > 0
    assert answer.supported in (None, False)
    heard = private_llm(tiny_model, **settings).answer("q?", Counted(3e3))
    assert heard.rho > answer.rho


def test_streams_and_twins_say_the_same(tiny_model):
    answer = private_llm(tiny_model).answer("q?", Counted(0.0))
    with private_llm(tiny_model).stream("q?", Counted(0.0)) as stream:
        assert "".join(stream).strip() == answer.text
    assert stream.answer == answer
    assert asyncio.run(private_llm(tiny_model).aanswer("q?", Counted(0.0))) == answer


@pytest.mark.parametrize("unsupported", ["mark", "ignore"])
def test_units_pay_for_the_counts_and_for_no_draw(tiny_model, tmp_path, unsupported):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="notes", epsilon=2.0, thresholds=0)
        llm = private_llm(tiny_model, ledger=ledger, unsupported=unsupported)
        answer = llm.answer("q?", Counted(0.0))
        support = answer_plan(llm.config, DIRECT, SEARCH_RHO).support_rho
        assert answer.rho == pytest.approx(SEARCH_RHO + support, abs=1e-12)
        [status] = ledger.status()
        assert status.spent == pytest.approx(answer.rho, abs=2e-9)
        with ledger.reserve(corpus="notes", rho=status.budget, units=["a", "new"]) as hold:
            paid, nothing = (status.budget - limit for limit in hold.limits)
        # A unit may or may not have to pay for a count of support that it is not part of.
        assert nothing == 0.0
        assert pytest.approx(paid, abs=2e-9) in (SEARCH_RHO, SEARCH_RHO + support)
