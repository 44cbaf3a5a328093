"""An answer pays for its private threshold too, each unit for the counts that it was part of."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dpicl_rag.accounting import epsilon_to_rho, rho_to_epsilon
from dpicl_rag.accounting.stability import Adjacency
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.ledger import Ledger
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.retrieval import PrivateThresholdRetriever, PrivateTopKRetriever
from tests.support.scored_units import ScoredUnits

SOURCE = ScoredUnits({**{f"near{n}": [0.85] for n in range(6)}, "far": [0.45], "out": [0.1]})
ADD = Adjacency.ADD_OR_REMOVE_ONE


def unit_spend(path: Path) -> list[float]:
    with closing(sqlite3.connect(path)) as connection:
        return sorted(row[0] / 1e9 for row in connection.execute("SELECT spent FROM unit"))


def test_units_pay_for_counts_and_others_nothing(tiny_model, tmp_path: Path) -> None:
    retriever = PrivateThresholdRetriever(SOURCE, 1, sigma=0.7)
    with Ledger(tmp_path / "l.db") as ledger:
        llm = PrivateContextLLM(tiny_model, ledger=ledger, corpus="n", max_tokens=2)
        answer = llm.answer("why?", retriever)
        status = ledger.status()[0]
    spent = unit_spend(tmp_path / "l.db")
    rho = retriever.rho(ADD)
    # Six near units in the first bin; "far" is reserved and, at this noise, hardly ever counted.
    assert len(spent) == 7
    assert all(amount >= rho * (1 - 1e-9) for amount in spent[1:])
    assert max(spent) <= epsilon_to_rho(8, 1e-5)
    assert max(spent) <= status.spent <= answer.rho + 1e-8
    assert answer.rho >= rho


def test_fixed_accounting_charges_everyone(tiny_model, tmp_path: Path) -> None:
    retriever = PrivateTopKRetriever(SOURCE, 4, sigma=7.5)
    with Ledger(tmp_path / "l.db") as ledger:
        llm = PrivateContextLLM(
            tiny_model, ledger=ledger, corpus="n", max_tokens=2, accounting="fixed"
        )
        answer = llm.answer("why?", retriever)
        assert ledger.status()[0].spent == pytest.approx(answer.rho, abs=1e-8)
    assert retriever.rho(ADD) < answer.rho <= epsilon_to_rho(8, 1e-5)


def test_a_unit_never_passes_its_budget_by_searches(tiny_model, tmp_path: Path) -> None:
    retriever = PrivateThresholdRetriever(SOURCE, 1, sigma=0.7)
    rho = retriever.rho(ADD)
    epsilon = rho_to_epsilon(1.2 * rho, 1e-5)
    with Ledger(tmp_path / "l.db") as ledger:
        ledger.set_budget(corpus="n", rho=1.5 * rho)
        llm = PrivateContextLLM(
            tiny_model, ledger=ledger, corpus="n", max_tokens=1, epsilon=epsilon
        )
        for _ in range(3):
            llm.answer("why?", retriever)
    spent = unit_spend(tmp_path / "l.db")
    assert rho <= max(spent) + 1e-8
    assert max(spent) <= 1.5 * rho + 1e-8


@pytest.mark.parametrize("accounting", ["fixed", "individual"])
def test_labels_state_a_delta(tiny_model, accounting: str) -> None:
    retriever = PrivateThresholdRetriever(SOURCE, 4, sigma=3.0)
    llm = PrivateContextLLM(tiny_model, accounting=accounting, epsilon=4)
    label = llm.classify("why?", retriever, ["a", "b"])
    assert (label.epsilon, label.delta) == (4, 1e-5)
    assert retriever.rho(ADD) < label.rho
    assert llm.classify("why?", [], ["a", "b"]).delta == 0


def test_a_search_that_is_too_dear_is_refused(tiny_model) -> None:
    llm = PrivateContextLLM(tiny_model, epsilon=1)
    for ask in (llm.answer, lambda q, d: llm.classify(q, d, ["a", "b"])):
        with pytest.raises(ConfigurationError, match="search costs more"):
            ask("why?", PrivateThresholdRetriever(SOURCE, 4, sigma=0.7))


@pytest.mark.parametrize("share", [0.5, 1.0 - 1e-6])
def test_a_unit_budget_below_the_search_is_a_public_error(
    tiny_model, tmp_path: Path, share
) -> None:
    retriever = PrivateThresholdRetriever(SOURCE, 1, sigma=0.7)
    rho = retriever.rho(ADD)
    said = set()
    with Ledger(tmp_path / "l.db") as ledger:
        ledger.set_budget(corpus="n", rho=10.0, unit_rho=share * rho)
        llm = PrivateContextLLM(tiny_model, ledger=ledger, corpus="n", max_tokens=2)
        # The same words whatever the corpus holds, nothing spent and nothing held.
        for source in (SOURCE, ScoredUnits({"out": [0.1]})):
            with pytest.raises(ConfigurationError, match="the search costs a unit") as refused:
                llm.answer("why?", PrivateThresholdRetriever(source, 1, sigma=0.7))
            said.add(str(refused.value))
            (status,) = ledger.status()
            assert (status.spent, status.reserved) == (0.0, 0.0)
    assert len(said) == 1
    assert not any(unit_spend(tmp_path / "l.db"))


def test_a_unit_budget_that_just_pays_the_search_admits_units(tiny_model, tmp_path: Path) -> None:
    retriever = PrivateThresholdRetriever(SOURCE, 1, sigma=0.7)
    with Ledger(tmp_path / "l.db") as ledger:
        ledger.set_budget(corpus="n", rho=10.0, unit_rho=retriever.rho(ADD) + 1e-8)
        llm = PrivateContextLLM(tiny_model, ledger=ledger, corpus="n", max_tokens=1)
        llm.answer("why?", retriever)
    assert max(unit_spend(tmp_path / "l.db")) >= retriever.rho(ADD) * (1 - 1e-9)
