"""A budget of an epsilon pays for one answer of that epsilon, and as many as its rho divides."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpicl_rag import BudgetExceededError, Ledger, PrivateContextLLM
from dpicl_rag.accounting import DIRECT, epsilon_to_rho, rho_to_epsilon
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.answering.answer_plan import answer_plan
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.ledger.fixed_point import NANO, allowance, charge, exact

DELTAS = (1e-3, 1e-5, 1e-6, 3.7e-9, 1e-12)
EPSILONS = (0.03, 0.1, 1 / 3, 0.5, 1.0, 2.0, 3.3, 4.0, 7.1, 8.0, 12.0, 16.0, 50.0)


def price(epsilon: float, delta: float, **settings: object) -> float:
    """What an answer asks a ledger for."""
    config = PrivacyConfig.create(epsilon=epsilon, delta=delta, agreement="auto", **settings)
    return answer_plan(config, DIRECT, 0.0, booked=True).rho


@pytest.mark.one_in(6)
@pytest.mark.parametrize("delta", DELTAS)
def test_a_budget_of_epsilon_is_the_price_of_one_answer_of_epsilon(delta):
    for epsilon in (*EPSILONS, *(0.05 + 0.0817 * n for n in range(150))):
        rho = price(epsilon, delta)
        nano = charge(exact("rho", rho))
        rest = SHARES.beside_pool(delta)
        assert nano == allowance(exact("rho", epsilon_to_rho(epsilon, rest)))
        # The answer and the budget are within epsilon; a nano-rho more would not be.
        assert rho_to_epsilon(float(Fraction(nano, NANO)), rest) <= epsilon
        assert rho_to_epsilon((nano + 1) / NANO, rest) > epsilon


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        yield ledger


def granted(ledger, rho, **request) -> int:
    """How many answers of a price are granted and spent, before one is refused."""
    count = 0
    while True:
        try:
            with ledger.reserve(rho=rho, **request) as held:
                assert held.rho == rho
                held.commit(rho, None if "units" not in request else [rho])
        except BudgetExceededError:
            return count
        count += 1
        assert all(s.spent <= s.budget for s in ledger.status() if s.budget is not None)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("delta", DELTAS)
def test_a_ledger_grants_exactly_one(ledger, delta):
    for epsilon in EPSILONS:
        rho = price(epsilon, delta)
        name = f"{epsilon} {delta}"
        ledger.set_budget(corpus=name, epsilon=epsilon, delta=delta)
        assert granted(ledger, rho, corpus=name) == 1
        [status] = [status for status in ledger.status() if status.name == name]
        assert (status.spent, status.remaining) == (status.budget, 0.0)
        # A caller is charged the bound of an individual answer too.
        ledger.set_budget(caller=name, epsilon=epsilon, delta=delta)
        ledger.set_budget(corpus="free", rho=1e6)
        assert granted(ledger, rho, corpus="free", caller=name, units=["u"]) == 1


@pytest.mark.heavy
@pytest.mark.parametrize("count", [2, 3, 10, 16, 99])
def test_a_budget_that_an_answers_rho_divides_grants_as_many(ledger, count):
    for number, epsilon in enumerate((0.5, 1.0, 2.0, 7.1)):
        rho = price(epsilon, 1e-5)
        ledger.set_budget(corpus=f"whole {number}", rho=count * rho)
        assert granted(ledger, rho, corpus=f"whole {number}") == count
        ledger.set_budget(corpus=f"less {number}", rho=count * rho - 1 / NANO)
        assert granted(ledger, rho, corpus=f"less {number}") == count - 1


def test_a_lifetime_of_epsilon_8_in_answers_of_epsilon_2(ledger):
    ledger.set_budget(corpus="mail", epsilon=8)
    assert granted(ledger, price(2.0, 1e-5), corpus="mail") == 11


def say(text: str, history: tuple[int, ...]) -> list[float]:
    return [0.0, 1.0] if "/" in text else [1.0, 0.0]


@pytest.mark.parametrize("unsupported", ["mark", "ignore"])
@pytest.mark.parametrize("max_tokens", [1, 3, 7, 32])
@pytest.mark.parametrize("epsilon", [0.5, 3.3, 8.0])
def test_an_answer_of_the_whole_budget_runs_to_its_last_token(
    ledger, epsilon, max_tokens, unsupported
):
    """At a fixed price no token is lost to rounding, and then nothing is left for another."""
    # Where all units pay the same, nobody is asked for whole sentences.
    ledger.set_budget(corpus="mail", epsilon=epsilon, thresholds=0)
    llm = PrivateContextLLM(
        SyntheticModel(2, say, frozenset()),
        ledger=ledger,
        corpus="mail",
        epsilon=epsilon,
        accounting="fixed",
        max_tokens=max_tokens,
        unsupported=unsupported,
    )
    answer = llm.answer("q", ["a note"] * 3)
    assert (answer.tokens, answer.stopped_by) == (max_tokens, "length")
    [status] = ledger.status()
    assert status.spent <= status.budget
    with pytest.raises(BudgetExceededError):
        llm.answer("q", ["a note"] * 3)


def test_an_individual_answer_of_the_whole_budget_is_given_all_of_it(ledger):
    ledger.set_budget(corpus="mail", epsilon=8, unit_epsilon=8)
    with ledger.reserve(corpus="mail", rho=price(8.0, 1e-5), units=["u"]) as held:
        assert held.limits == [held.rho] == [price(8.0, 1e-5)]


@pytest.mark.parametrize("agreement", ["auto", "off"])
@pytest.mark.parametrize("unit_epsilon", [None, 4.0])
def test_a_budget_pays_for_one_answer_of_its_own_epsilon(ledger, agreement, unit_epsilon):
    """A part of its delta is for thresholds, whether the answer has some or not."""
    ledger.set_budget(corpus="mail", epsilon=8.0, unit_epsilon=unit_epsilon)
    llm = PrivateContextLLM(
        SyntheticModel(2, say, frozenset()),
        ledger=ledger,
        corpus="mail",
        epsilon=8.0,
        max_tokens=3,
        agreement=agreement,
    )
    assert llm.answer("q", ["a note"] * 3).tokens == 3
    [status] = ledger.status()
    assert 0 < status.spent <= status.budget
