"""Fixed accounting: budgets of corpora and callers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from dpicl_rag.accounting import epsilon_to_rho, rho_to_epsilon
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.errors import BudgetExceededError, ConfigurationError, LedgerError
from dpicl_rag.ledger import Ledger, Period, ScopeStatus


def of(ledger: Ledger, name: str) -> ScopeStatus:
    (status,) = [status for status in ledger.status() if status.name == name]
    return status


def spend(ledger: Ledger, rho: float, **scope: str) -> None:
    with ledger.reserve(rho=rho, **{"corpus": "mail", **scope}) as reservation:
        reservation.commit(rho)


def test_what_is_committed_is_spent_and_the_rest_given_back(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=1.0)
    with ledger.reserve(corpus="mail", rho=0.5) as reservation:
        reservation.commit(0.1)
        reservation.commit(0.1)
        assert reservation.committed == 0.2
        assert reservation.remaining == 0.3
        running = of(ledger, "mail")
        assert (running.spent, running.reserved, running.remaining) == (0.2, 0.3, 0.5)
    closed = of(ledger, "mail")
    assert (closed.spent, closed.reserved, closed.remaining) == (0.2, 0.0, 0.8)
    assert closed.questions == running.questions == 1


def test_the_status_is_complete(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=1.0, unit_rho=0.5)
    ledger.set_budget(caller="ann", rho=2.0, period="month")
    corpus, caller = ledger.status()
    assert corpus == ScopeStatus(
        *("corpus", "mail", 1.0, 0.5, 0.0, 0.0, 1.0, 0.5, Period.LIFETIME, None, 0),
        strict=False,
        room=0.5,
        delta=2.5e-6,
        delta_remaining=2.5e-6,
    )
    assert caller.kind == "caller"
    assert caller.period is Period.MONTH
    assert str(caller.renews_on) == "2026-04-01"


@pytest.mark.parametrize("delta", [1e-5, 1e-9])
def test_a_budget_may_be_given_as_epsilon(ledger: Ledger, delta: float) -> None:
    ledger.set_budget(corpus="mail", epsilon=8, unit_epsilon=4, delta=delta, period="year")
    status = of(ledger, "mail")
    rest = SHARES.beside_pool(delta)
    assert status.budget == pytest.approx(epsilon_to_rho(8, rest), abs=1e-9)
    assert status.unit_budget == pytest.approx(epsilon_to_rho(4, rest), abs=1e-9)
    assert rho_to_epsilon(status.budget, rest) <= 8
    assert rest + status.delta == pytest.approx(delta)
    assert status.period is Period.YEAR


@pytest.mark.parametrize("rho", [1e6, math.nextafter(1e6, 0), 1e6 - 1e-9])
def test_the_largest_budget_is_kept_and_can_be_spent(ledger: Ledger, rho: float) -> None:
    ledger.set_budget(corpus="mail", rho=rho, unit_rho=rho)
    assert of(ledger, "mail").budget == pytest.approx(rho, rel=1e-12)
    spend(ledger, rho)
    assert of(ledger, "mail").remaining == pytest.approx(0.0, abs=1e-6)


def test_ten_tenths_fit_a_budget_of_one_and_nothing_more(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=1.0)
    for _ in range(10):
        spend(ledger, 0.1)
    assert of(ledger, "mail").remaining == 0.0
    with pytest.raises(BudgetExceededError):
        ledger.reserve(corpus="mail", rho=1e-9)


def test_an_answer_of_many_small_tokens_costs_what_was_reserved(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=0.37)
    with ledger.reserve(corpus="mail", rho=0.37) as reservation:
        for _ in range(170):
            reservation.commit(0.37 / 170)
        assert reservation.remaining == 0.0
    assert of(ledger, "mail").spent == 0.37


def test_an_answer_cannot_commit_more_than_it_reserved(ledger: Ledger) -> None:
    with ledger.reserve(corpus="mail", rho=0.3) as reservation:
        reservation.commit(0.2)
        with pytest.raises(BudgetExceededError) as caught:
            reservation.commit(0.2)
        assert (caught.value.requested, caught.value.scope) == (0.2, "this answer")
        assert caught.value.remaining == pytest.approx(0.1)
        reservation.commit(0.1)
    assert of(ledger, "mail").spent == 0.3


def test_a_refusal_names_the_scope_and_leaves_no_trace(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=1.0)
    ledger.set_budget(caller="ann", rho=0.25)
    spend(ledger, 0.2, caller="ann")
    before = ledger.status()
    with pytest.raises(BudgetExceededError) as caught:
        ledger.reserve(corpus="mail", caller="ann", rho=0.1)
    assert caught.value.requested == 0.1
    assert caught.value.remaining == pytest.approx(0.05)
    assert caught.value.scope == "caller 'ann'"
    with pytest.raises(BudgetExceededError, match="corpus 'mail'"):
        ledger.reserve(corpus="mail", rho=0.9)
    assert ledger.status() == before


def test_a_caller_pays_over_all_corpora_and_other_callers_do_not(ledger: Ledger) -> None:
    ledger.set_budget(caller="ann", rho=0.3)
    spend(ledger, 0.2, corpus="mail", caller="ann")
    with pytest.raises(BudgetExceededError):
        spend(ledger, 0.2, corpus="notes", caller="ann")
    spend(ledger, 0.2, corpus="notes", caller="bob")
    spend(ledger, 0.2, corpus="notes")
    assert of(ledger, "ann").spent == 0.2
    assert of(ledger, "notes").spent == 0.4


def test_a_partial_reservation_takes_what_is_left(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=0.3)
    ledger.set_budget(caller="ann", rho=0.2)
    with ledger.reserve(corpus="mail", caller="ann", rho=0.5, at_least=0.1) as reservation:
        assert reservation.rho == 0.2
        reservation.commit(0.15)
    with pytest.raises(BudgetExceededError) as caught:
        ledger.reserve(corpus="mail", caller="ann", rho=0.5, at_least=0.1)
    assert caught.value.remaining == pytest.approx(0.05)


def test_a_running_answer_counts_with_all_it_may_spend(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=1.0)
    with ledger.reserve(corpus="mail", rho=0.6), pytest.raises(BudgetExceededError):
        ledger.reserve(corpus="mail", rho=0.6)
    with ledger.reserve(corpus="mail", rho=0.6):
        pass


def test_without_a_budget_spend_is_recorded_and_counts_once_there_is_one(ledger: Ledger) -> None:
    spend(ledger, 5.0)
    assert of(ledger, "mail").budget is None
    assert of(ledger, "mail").remaining is None
    ledger.set_budget(corpus="mail", rho=6.0)
    assert of(ledger, "mail").remaining == 1.0
    ledger.set_budget(corpus="mail", rho=math.inf)
    spend(ledger, 50.0)
    ledger.set_budget(corpus="mail", rho=6.0)
    assert of(ledger, "mail").remaining == 0.0


def test_an_answer_that_released_nothing_is_no_question(ledger: Ledger) -> None:
    with ledger.reserve(corpus="mail", rho=0.1):
        pass
    assert of(ledger, "mail").questions == 0


def test_a_free_answer_needs_no_budget(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=0.0)
    spend(ledger, 0.0)
    assert of(ledger, "mail").questions == 1
    with pytest.raises(BudgetExceededError):
        spend(ledger, 1e-12)


@pytest.mark.parametrize("period", ["day", "month", "year"])
def test_a_renewing_budget_is_full_again_in_the_next_period(
    ledger: Ledger, clock: Any, period: str
) -> None:
    ledger.set_budget(corpus="mail", rho=0.3, period=period)
    spend(ledger, 0.3)
    with pytest.raises(BudgetExceededError):
        spend(ledger, 0.1)
    clock.pass_days({"day": 1, "month": 31, "year": 365}[period])
    assert of(ledger, "mail").spent == 0.0
    assert of(ledger, "mail").questions == 0
    spend(ledger, 0.3)


def test_an_answer_over_midnight_belongs_to_the_day_it_was_asked(
    ledger: Ledger, clock: Any
) -> None:
    ledger.set_budget(corpus="mail", rho=0.3, period="day")
    with ledger.reserve(corpus="mail", rho=0.2) as reservation:
        clock.pass_days(1)
        reservation.commit(0.2)
        assert of(ledger, "mail").spent == 0.0
    assert of(ledger, "mail").spent == 0.0
    ledger.set_budget(corpus="mail", rho=0.3)
    assert of(ledger, "mail").spent == 0.2


def test_a_longer_period_remembers_the_shorter_ones(ledger: Ledger, clock: Any) -> None:
    ledger.set_budget(corpus="mail", rho=0.3, period="day")
    for _ in range(3):
        spend(ledger, 0.3)
        clock.pass_days(1)
    ledger.set_budget(corpus="mail", rho=1.0, period="month")
    assert of(ledger, "mail").spent == 0.9
    assert of(ledger, "mail").questions == 3


def test_a_small_step_back_of_the_clock_changes_nothing(ledger: Ledger, clock: Any) -> None:
    ledger.set_budget(corpus="mail", rho=0.3, period="day")
    clock.pass_days(0.5)  # midnight
    spend(ledger, 0.3)
    clock.now -= 60
    with pytest.raises(BudgetExceededError):
        spend(ledger, 0.3)


def test_a_clock_that_went_back_stops_renewing_budgets_until_an_owner_acts(
    ledger: Ledger, clock: Any
) -> None:
    ledger.set_budget(corpus="mail", rho=0.3, period="month")
    ledger.set_budget(corpus="notes", rho=0.3)
    clock.pass_days(400)  # a wrong clock
    spend(ledger, 0.2)
    clock.pass_days(-400)
    with pytest.raises(LedgerError, match=r"clock is behind .* set the clock right"):
        spend(ledger, 0.1)
    spend(ledger, 0.1, corpus="notes")  # a lifetime needs no clock
    ledger.set_budget(corpus="mail", rho=0.3, period="month")
    assert of(ledger, "mail").spent == 0.2  # what the wrong clock postponed is paid now
    spend(ledger, 0.1)
    with pytest.raises(BudgetExceededError):
        spend(ledger, 0.1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rho": 1.0},
        {"corpus": "a", "caller": "b", "rho": 1.0},
        {"corpus": "", "rho": 1.0},
        {"corpus": "\ud800", "rho": 1.0},
        {"corpus": 3, "rho": 1.0},
        {"corpus": "a", "rho": -1.0},
        {"corpus": "a", "rho": math.nan},
        {"corpus": "a", "rho": 1.0, "unit_rho": 2.0},
        {"corpus": "a", "rho": 1.0, "unit_rho": math.inf},
        {"caller": "a", "rho": 1.0, "unit_rho": 0.5},
        {"corpus": "a", "rho": 1.0, "period": "week"},
        {"corpus": "a"},
        {"corpus": "a", "unit_rho": 1.0},
        {"corpus": "a", "rho": 1.0, "epsilon": 1.0},
        {"corpus": "a", "rho": 1.0, "unit_rho": 1.0, "unit_epsilon": 1.0},
        {"corpus": "a", "epsilon": 4.0, "unit_epsilon": 8.0},
        {"corpus": "a", "epsilon": 0.0},
        {"corpus": "a", "epsilon": math.inf},
        {"corpus": "a", "epsilon": 1e9},
        {"corpus": "a", "epsilon": 1.0, "delta": 0.0},
        {"caller": "a", "epsilon": 1.0, "unit_epsilon": 0.5},
    ],
)
def test_budgets_outside_their_range_are_refused(ledger: Ledger, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        ledger.set_budget(**wrong)
    assert ledger.status() == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"corpus": "", "rho": 1.0},
        {"corpus": "a", "caller": "", "rho": 1.0},
        {"corpus": "a", "rho": -1.0},
        {"corpus": "a", "rho": 1.0, "at_least": 2.0},
        {"corpus": "a", "rho": 1.0, "at_least": 0.0},
        {"corpus": "a", "rho": 1.0, "units": "abc"},
    ],
)
def test_requests_outside_their_range_are_refused(ledger: Ledger, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        ledger.reserve(**wrong)
    assert ledger.status() == []


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan])
def test_times_outside_their_range_are_refused(path: Path, seconds: float) -> None:
    with pytest.raises(ConfigurationError):
        Ledger(path, stale_after=seconds)
    with pytest.raises(ConfigurationError):
        Ledger(path, busy_timeout=seconds)
