"""What an answer may cost is known before it is asked for, and is what it then costs at most."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dpicl_rag import Ledger, PrivateContextLLM, PrivateThresholdRetriever
from dpicl_rag.answering.answer_plan import planned_answer, with_agreement
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.results import UNSUPPORTED
from dpicl_rag.retrieval import GivenDocuments, Search
from tests.support.scored_units import ScoredUnits

DOCUMENTS = [f"The code is 4471, note {n}." for n in range(5)]
SEARCH = Search(GivenDocuments(DOCUMENTS))
CODE = "What is the code?"


def planned(config, *, booked=False):
    config = with_agreement(config, SEARCH.stability, speaks=True, booked=booked)
    return planned_answer(config, SEARCH, booked=booked)[1]


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0, 8.0])
def test_under_a_ledger_an_answer_that_nobody_gives_costs_a_third_at_most(epsilon):
    plan = planned(PrivacyConfig.create(epsilon=epsilon), booked=True)
    assert plan.only_agreement
    assert 3 * plan.outcomes[0].rho <= plan.rho
    for drawn in (
        planned(PrivacyConfig.create(epsilon=epsilon)),
        planned(PrivacyConfig.create(epsilon=epsilon, agreement="auto"), booked=True),
    ):
        assert not drawn.only_agreement


def test_where_experts_differ_nothing_is_drawn_under_a_ledger(tiny_model, ledger):
    given = {"ledger": ledger, "max_tokens": 4, "strength": 1e-6}
    silent = PrivateContextLLM(tiny_model, **given).answer(CODE, DOCUMENTS)
    assert (silent.text, silent.by, silent.supported) == (UNSUPPORTED, None, False)
    drawn = PrivateContextLLM(tiny_model, agreement="auto", **given).answer(CODE, DOCUMENTS)
    assert drawn.by == "tokens"


class Unsearched(ScoredUnits):
    """Units that nobody may look at."""

    def scan(self, *given, **settings):
        pytest.fail("searched")


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="default", rho=5.0)
        yield ledger


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"accounting": "fixed"},
        {"unsupported": "ignore", "epsilon": 2.0},
        {"accounting": "fixed", "utility": "log_prob", "max_tokens": 3},
        {"groups": 4, "max_tokens": 5},
    ],
    ids=str,
)
def test_the_parts_add_up_to_what_an_answer_costs_at_most(tiny_model, ledger, settings, endless):
    llm = PrivateContextLLM(tiny_model, ledger=ledger, **{"max_tokens": 4, **settings})
    cost = llm.plan(DOCUMENTS)
    parts = [cost.search_rho, cost.support_rho, cost.agreement_rho, cost.tokens_rho]
    assert sum(parts) == pytest.approx(cost.rho)
    assert bool(cost.agreement_rho) == cost.individual == bool(cost.thresholds)
    assert [part.rho for part in cost.parts if part.rho] == [rho for rho in parts if rho]
    assert [name for name, _, _ in cost.rows()] == [*(part.name for part in cost.parts), "whole"]
    assert cost.budget_left == pytest.approx(5.0)
    assert ledger.status()[0].spent == 0
    answer = llm.answer(CODE, DOCUMENTS)
    assert 0 < answer.rho <= cost.rho * (1 + 1e-12)
    if not cost.individual:
        # Every unit pays for every word, and for the count.
        exactly = answer.tokens * cost.token_rho + cost.support_rho
        assert answer.rho == pytest.approx(exactly)
    assert llm.plan(DOCUMENTS).budget_left == pytest.approx(5.0 - answer.rho)


@pytest.fixture
def endless(monkeypatch, tiny_model):
    """No token ends an answer."""
    monkeypatch.setattr(tiny_model.tokenizer, "stop_tokens", frozenset())


def test_nothing_is_searched_and_the_search_has_its_price(tiny_model):
    cost = PrivateContextLLM(tiny_model).plan(PrivateThresholdRetriever(Unsearched({"u": [0.9]})))
    assert 0 < cost.search_rho < cost.rho
    assert cost.individual
    assert cost.units_to_agree == 6
    tokens = PrivateContextLLM(tiny_model, agreement="off")
    assert tokens.plan(PrivateThresholdRetriever(Unsearched({"u": [0.9]}))).units_to_agree == 15
    assert (cost.budget_left, cost.answers_left) == (None, None)


def test_units_to_agree_fall_with_epsilon_and_are_unknown_where_utilities_have_none():
    def units(**settings):
        config = PrivacyConfig.create(**{"agreement": "off", **settings})
        return planned(config).units_to_agree

    assert units(epsilon=8.0) < units(epsilon=4.0) < units(epsilon=2.0)
    assert units(utility="log_prob") is None
    assert units(utility="log_prob", agreement="auto") == units(agreement="auto")
    assert units(epsilon=2.0, agreement="auto") < units(epsilon=2.0)


def test_it_prints_parts_notes_and_numbers():
    config = PrivacyConfig.create(epsilon=8.0, agreement="auto")
    cost = replace(planned(config), budget_left=3.0)
    lines = str(cost).splitlines()
    parts = ["search", "support", "agreement", "words", "whole"]
    assert [line.split()[0] for line in lines[:5]] == parts
    assert lines[2].endswith("released where about 5 or 10 or 17 or 33 say so")
    assert lines[4].endswith("epsilon 8, delta 1e-05")
    assert lines[5] == f"about {cost.units_to_agree} documents must say the same"
    none, enough, _ = cost.outcomes
    assert none.rho == pytest.approx(cost.rho, rel=1e-5)  # tokens take what is left
    assert f"where no two documents say the same, {enough.rho:.4g} where 6 do" in lines[6]
    assert lines[7] == f"the budget has rho 3 left, {cost.answers_left} answers at this price"
    assert cost.answers_left == int(3.0 / cost.rho)
    assert json.loads(json.dumps(cost.as_dict()))["rho"] == cost.rho
    shown = cost._repr_html_()
    assert shown.count("<tr>") == 5
    assert f"{lines[5]}. {lines[6]}. {lines[7]}</p>" in shown


def test_settings_that_fit_no_budget_are_told_as_by_an_answer(tiny_model):
    llm = PrivateContextLLM(tiny_model, accounting="fixed", strength=50.0)
    with pytest.raises(ConfigurationError, match="strength is so high"):
        llm.plan(DOCUMENTS)
