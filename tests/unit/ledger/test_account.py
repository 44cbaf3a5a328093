"""What each unit of an account is charged, to the last nano-rho, and what it has left."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from dpicl_rag.errors import BudgetExceededError, ConfigurationError
from dpicl_rag.ledger import Account, Ledger, open_account

UNITS = ["none", "one", "most"]
COSTS = (0.0, 0.02, 0.06)


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        opened.set_budget(corpus="mail", rho=1.0)
        yield opened


def test_each_unit_pays_for_itself(ledger, tmp_path):
    with open_account(ledger, corpus="mail", rho=0.5, units=UNITS) as account:
        for _ in range(2):
            account.pay(0.06, COSTS)
        account.pay(0.01, [0.01], [1])
    (status,) = ledger.status()
    assert status.spent == pytest.approx(0.13, abs=2e-9)  # public: the most of any unit
    assert status.reserved == 0
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection:
        paid = [rho * 1e-9 for (rho,) in connection.execute("SELECT spent FROM unit ORDER BY id")]
    assert sorted(paid) == pytest.approx([0.0, 0.05, 0.12], abs=2e-9)


def test_all_units_pay_the_same(ledger):
    with open_account(ledger, corpus="mail", rho=0.5) as account:
        account.pay(0.2)
        assert account.remaining == pytest.approx(0.3)
        assert not account.individual
        with pytest.raises(BudgetExceededError):
            account.pay(0.4)
    assert ledger.status()[0].spent == pytest.approx(0.2)


@pytest.mark.parametrize("held", [False, True])
def test_what_is_left_is_what_was_not_paid(ledger, held):
    with open_account(ledger if held else None, corpus="mail", rho=0.12, units=UNITS) as account:
        account.pay(0.06, COSTS)
        assert account.able(0.12) == [True, False, False]
        assert account.able(0.06 - 1e-9) == [True, True, True]
        account.pay(0.06, COSTS)
        assert account.able(1e-9) == [True, True, False]
        assert account.left([2, 0], 0.1) == pytest.approx([0.0, 0.1])


def test_a_unit_has_no_more_than_its_lifetime_leaves_it(ledger):
    for spent in (0.3, 0.6):
        with open_account(ledger, corpus="mail", rho=0.6, units=["a"]) as account:
            account.pay(spent, [spent])
    with open_account(ledger, corpus="mail", rho=0.6, units=["a", "b"]) as account:
        assert account.left([0, 1], 1.0) == pytest.approx([0.1, 0.6])
        assert account.rho == pytest.approx(0.6)


def test_a_price_that_no_unit_could_pay_is_one_sentence(ledger):
    ledger.set_budget(corpus="mail", rho=1.0, unit_rho=0.01)
    with open_account(ledger, corpus="mail", rho=0.5, units=UNITS) as account:
        account.require(0.01, "the search costs", "give it more noise")
        with pytest.raises(ConfigurationError, match=r"^the search costs a unit rho 0\.02, and .*"):
            account.require(0.02, "the search costs", "give it more noise")


def test_nothing_private_is_shown():
    account = Account(0.5, len(UNITS))
    account.pay(0.06, COSTS)
    assert repr(account) == "Account(rho=0.5)"
