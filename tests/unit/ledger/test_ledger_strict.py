"""Strict budgets refuse at the public bound, whatever units have spent."""

from __future__ import annotations

import random

import pytest

from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.errors import BudgetExceededError
from dpicl_rag.ledger import Ledger
from dpicl_rag.ledger.budgets import standing

PRICE = 0.25


def answer(ledger: Ledger, units: list[str], share: float, **who: str) -> float | None:
    """What an answer may spend that costs each unit a share of the bound; None if refused."""
    try:
        held = ledger.reserve(corpus="mail", rho=PRICE, at_least=0.01, units=units, **who)
    except BudgetExceededError:
        return None
    with held:
        held.commit(held.rho, [min(limit, share * held.rho) for limit in held.limits or ()])
        return held.rho


def test_answers_end_where_the_public_bound_reaches_the_budget(tmp_path):
    with Ledger(tmp_path / "lenient.sqlite") as ledger:
        ledger.set_budget(corpus="mail", rho=2.5 * PRICE)
        assert all(answer(ledger, ["one"], 0.1) for _ in range(6))
    with Ledger(tmp_path / "strict.sqlite") as ledger:
        ledger.set_budget(corpus="mail", rho=2.5 * PRICE, strict=True)
        bounds = [answer(ledger, ["one"], 0.1) for _ in range(6)]
        assert bounds == [PRICE, PRICE, PRICE / 2, None, None, None]
        (status,) = ledger.status()
        assert (status.spent, status.strict, status.room) == (2.5 * PRICE, True, 0.0)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_refused_follows_from_public_numbers_alone(tmp_path, seed):
    """Neighbours: a unit more, which takes part in some answers and pays what it will."""
    coins = random.Random(seed)
    told = []
    plan = [(coins.random(), coins.random() < 0.3) for _ in range(12)]
    for newcomer in (False, True):
        with Ledger(tmp_path / f"{newcomer}.sqlite", key=b"0" * 16) as ledger:
            ledger.set_budget(corpus="mail", rho=0.9, unit_rho=0.8, strict=True)
            seen = []
            for share, among in plan:
                units = ["one", "two"] + (["newcomer"] if newcomer and among else [])
                seen.append(answer(ledger, units, share))
            (status,) = ledger.status()
            told.append((seen, status, standing(status, PRICE, 1e-5)))
    assert told[0] == told[1]
    assert told[0][0].count(None) > 5


def test_a_lowered_strict_budget_refuses_at_once_and_a_raised_one_goes_on(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="mail", rho=10 * PRICE)
        answer(ledger, ["one"], 0.1)
        ledger.set_budget(corpus="mail", rho=PRICE / 2, strict=True)
        assert answer(ledger, ["one"], 0.1) is None
        ledger.set_budget(corpus="mail", rho=2 * PRICE, strict=True)
        assert answer(ledger, ["one"], 0.1) == PRICE
        assert answer(ledger, ["one"], 0.1) is None


def test_it_is_kept_and_set_anew_with_every_budget(tmp_path):
    path = tmp_path / "ledger.sqlite"
    with Ledger(path) as ledger:
        ledger.set_budget(corpus="mail", rho=1.0, period="month", strict=True)
        ledger.set_budget(caller="ann", rho=1.0)
    with Ledger(path) as ledger:
        corpus, caller = ledger.status()
        assert (corpus.strict, caller.strict) == (True, True)  # a caller has no units to go on
        ledger.set_budget(corpus="mail", rho=1.0, period="month")
        assert not ledger.status()[0].strict


def test_a_refusal_speaks_of_epsilon_first_and_says_when_the_budget_renews(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite", clock=lambda: 1_000_000) as ledger:
        ledger.set_budget(corpus="mail", epsilon=2, period="month")
        with pytest.raises(BudgetExceededError) as refused:
            ledger.reserve(corpus="mail", rho=epsilon_to_rho(8, SHARES.beside_pool(1e-5)))
    assert str(refused.value) == (
        "the budget of corpus 'mail' cannot pay: epsilon 8 was asked for and 2 can be paid (at "
        "delta 1e-05; zCDP rho 1.2 and 0.105); ask with a smaller epsilon, or raise the budget "
        "with `dpicl-rag budget set`, or wait until it renews on 1970-02-01"
    )
