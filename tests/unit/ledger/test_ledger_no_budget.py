"""A ledger that bounds nothing says so, once for each corpus."""

from __future__ import annotations

import math
import warnings

import pytest

from dpicl_rag import Ledger, NoBudgetWarning


def warned(ledger: Ledger, corpus: str, times: int = 1) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(times):
            ledger.reserve(corpus=corpus, rho=0.1).close()
    assert all(one.category is NoBudgetWarning for one in caught)
    return [str(one.message) for one in caught]


def test_a_corpus_without_a_budget_warns_once(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="mail", rho=5.0)
        [message] = warned(ledger, "default", times=3)
        assert "no budget for corpus 'default'" in message
        assert "set_budget" in message
        assert len(warned(ledger, "notes")) == 1
        assert warned(ledger, "mail") == []


@pytest.mark.parametrize(("rho", "unit_rho"), [(1.0, None), (math.inf, None), (math.inf, 1.0)])
def test_a_budget_is_enough_even_an_endless_one(tmp_path, rho, unit_rho):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="mail", rho=rho, unit_rho=unit_rho)
        assert warned(ledger, "mail") == []


def test_a_warning_that_is_an_error_holds_nothing(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(NoBudgetWarning):
                ledger.reserve(corpus="mail", rho=0.1)
        ledger.settle_stale()
        [status] = ledger.status()
        assert (status.spent, status.reserved) == (0.0, 0.0)


@pytest.mark.parametrize("own", [{"rho": 0.5}, {"rho": 3.0, "strict": True}, {"rho": math.inf}])
def test_a_first_budget_takes_the_place_of_no_other(tmp_path, own):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert not ledger.has_budget("mail")
        ledger.reserve(corpus="mail", rho=0.1).close()  # known, and without a budget
        assert not ledger.has_budget("mail")
        ledger.set_budget(corpus="mail", **own)
        assert ledger.has_budget("mail")
        assert not ledger.has_budget("notes")
        before = ledger.status()
        ledger.set_budget(corpus="mail", rho=1.0, period="month", only_if_none=True)
        assert ledger.status() == before
        ledger.set_budget(corpus="notes", rho=1.0, period="month", only_if_none=True)
        assert [one.budget for one in ledger.status()] == [
            own["rho"] if own["rho"] < 9 else None,
            1.0,
        ]
