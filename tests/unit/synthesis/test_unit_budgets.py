"""What each unit of a run is charged, to the last nano-rho."""

from __future__ import annotations

import sqlite3

import pytest

from dpicl_rag.ledger import Ledger
from dpicl_rag.mechanisms.gaussian import DiscreteGaussian
from dpicl_rag.synthesis.unit_budgets import UnitBudgets

SIGMA, MOST = 5.0, 3
COUNTS = (0, 1, MOST)  # of three units
ONE = 1 / (2 * SIGMA**2)


def test_a_unit_pays_for_the_counts_it_is_in(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="mail", rho=1.0)
        units = ["none", "one", "most"]
        with ledger.reserve(corpus="mail", rho=0.5, units=units) as reservation:
            budgets = UnitBudgets(units, 0.5, reservation)
            for _ in range(2):
                budgets.pay_counts(COUNTS, DiscreteGaussian(SIGMA), MOST)
        (status,) = ledger.status()
    assert status.spent == pytest.approx(2 * MOST * ONE, abs=2e-9)  # public: the most of any unit
    with sqlite3.connect(tmp_path / "ledger.sqlite") as connection:
        paid = [rho * 1e-9 for (rho,) in connection.execute("SELECT spent FROM unit ORDER BY id")]
    assert sorted(paid) == pytest.approx([2 * count * ONE for count in COUNTS], abs=2e-9)


def test_what_is_left_is_what_was_not_paid():
    budgets = UnitBudgets(["none", "one", "most"], 2 * MOST * ONE, None)
    budgets.pay_counts(COUNTS, DiscreteGaussian(SIGMA), MOST)
    assert budgets.able(2 * MOST * ONE) == [True, False, False]
    assert budgets.able(MOST * ONE * (1 - 1e-9)) == [True, True, True]
    budgets.pay_counts(COUNTS, DiscreteGaussian(SIGMA), MOST)
    assert budgets.able(1e-9) == [True, True, False]
