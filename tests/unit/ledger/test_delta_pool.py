"""The delta of a budget: held whole or not at all, spent when committed, and never lost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError, LedgerError
from dpicl_rag.ledger import Ledger, open_account

DAY = 86_400


def delta_of(ledger: Ledger, name: str = "mail") -> tuple[float | None, float, float | None]:
    status = next(one for one in ledger.status() if one.name == name)
    return status.delta, status.delta_spent, status.delta_remaining


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger(path) as book:
        book.set_budget(corpus="mail", epsilon=4.0, delta=1e-5, thresholds=0.5)
        yield book


def test_epsilon_is_converted_at_the_rest(ledger: Ledger) -> None:
    status = ledger.status()[0]
    assert status.budget == pytest.approx(epsilon_to_rho(4.0, 5e-6), abs=1e-8)
    assert delta_of(ledger) == (5e-6, 0.0, 5e-6)


def test_what_is_committed_is_spent_and_the_rest_given_back(ledger: Ledger) -> None:
    with ledger.reserve(corpus="mail", rho=0.01, delta=1e-6) as reservation:
        assert reservation.delta == 1e-6
        assert delta_of(ledger) == (5e-6, 0.0, 4e-6)
        reservation.commit(0.001, delta=2e-7)
        reservation.commit(0.001, delta=1e-7)
        reservation.commit(0.001)
        assert delta_of(ledger)[1] == 3e-7
    assert delta_of(ledger) == (5e-6, 3e-7, 4.7e-6)


def test_a_pool_holds_all_or_nothing_and_refuses_nobody(ledger: Ledger) -> None:
    with ledger.reserve(corpus="mail", rho=0.01, delta=3e-6) as first:
        first.commit(0.001, delta=3e-6)
        with ledger.reserve(corpus="mail", rho=0.01, delta=3e-6) as second:
            assert (second.delta, second.rho) == (0.0, 0.01)
            with pytest.raises(ConfigurationError):
                second.commit(0.001, delta=1e-9)
            second.commit(0.001)
        with ledger.reserve(corpus="mail", rho=0.01, delta=2e-6) as third:
            assert third.delta == 2e-6
    assert delta_of(ledger) == (5e-6, 3e-6, 2e-6)


def test_answers_at_the_same_time_never_overspend_a_pool(ledger: Ledger) -> None:
    with ledger.reserve(corpus="mail", rho=0.01, delta=3e-6) as first:
        with ledger.reserve(corpus="mail", rho=0.01, delta=3e-6) as second:
            assert (first.delta, second.delta) == (3e-6, 0.0)
        first.commit(0.001, delta=3e-6)
    assert delta_of(ledger) == (5e-6, 3e-6, 2e-6)


def test_many_small_ones_fill_a_pool_exactly(ledger: Ledger) -> None:
    for _ in range(10):
        with ledger.reserve(corpus="mail", rho=0.001, delta=5e-7) as reservation:
            assert reservation.delta == 5e-7
            reservation.commit(0.0001, delta=5e-7)
    assert delta_of(ledger) == (5e-6, 5e-6, 0.0)
    with ledger.reserve(corpus="mail", rho=0.001, delta=1e-18) as reservation:
        assert reservation.delta == 0.0


@pytest.mark.parametrize("exponent", range(4, 15))
def test_a_fresh_ledger_pays_for_the_thresholds_of_every_round_delta(
    path: Path, exponent: int
) -> None:
    steps = (1e-18, 3e-18, 0.3, 1 / 3)
    with Ledger(path) as book:
        for digit in range(1, 11):
            config = PrivacyConfig.create(delta=float(f"{digit}e-{exponent}"))
            book.set_budget(corpus="mail", epsilon=4.0, delta=config.delta, thresholds=0.25)
            asked = config.threshold_delta(booked=True)
            with open_account(book, corpus="mail", rho=0.01, delta=asked) as account:
                assert account.pays_thresholds(asked)
                assert not account.pays_thresholds(2 * asked)
                # The sum is rounded, and not each of its parts.
                for part in steps:
                    account.pay(1e-6, delta=part * asked)
                account.pay(1e-6, delta=asked * (1 - sum(steps)))


def test_a_caller_has_a_pool_too(ledger: Ledger) -> None:
    ledger.set_budget(caller="ann", epsilon=4.0, delta=1e-5, thresholds=0.1)
    with ledger.reserve(corpus="mail", caller="ann", rho=0.01, delta=2e-6) as reservation:
        assert reservation.delta == 0.0
    with ledger.reserve(corpus="mail", caller="ann", rho=0.01, delta=1e-6) as reservation:
        reservation.commit(0.01, delta=1e-6)
    assert delta_of(ledger, "ann") == (1e-6, 1e-6, 0.0)
    assert delta_of(ledger) == (5e-6, 1e-6, 4e-6)


@pytest.mark.filterwarnings("ignore::dpicl_rag.NoBudgetWarning")
def test_without_a_budget_nothing_is_limited_and_all_is_recorded(ledger: Ledger) -> None:
    ledger.set_budget(corpus="open", rho=math.inf)
    for name in ("open", "never"):
        with ledger.reserve(corpus=name, rho=0.01, delta=0.1) as reservation:
            reservation.commit(0.01, delta=0.1)
        assert delta_of(ledger, name) == (None, 0.1, None)


def test_a_budget_without_thresholds_has_none(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.set_budget(corpus="mail", epsilon=4.0, thresholds=0)
        assert ledger.status()[0].budget == pytest.approx(epsilon_to_rho(4.0, 1e-5), abs=1e-8)
        with ledger.reserve(corpus="mail", rho=0.01, delta=1e-9) as reservation:
            assert reservation.delta == 0.0


def test_what_was_spent_stays_spent_under_a_new_budget(ledger: Ledger) -> None:
    with ledger.reserve(corpus="mail", rho=0.01, delta=3e-6) as reservation:
        reservation.commit(0.01, delta=3e-6)
    ledger.set_budget(corpus="mail", epsilon=4.0, delta=1e-5, thresholds=0.2)
    assert delta_of(ledger) == (2e-6, 3e-6, 0.0)


def test_a_renewing_pool_renews_and_a_wrong_clock_is_paid_today(path: Path) -> None:
    now = [100 * DAY]
    with Ledger(path, clock=lambda: now[0]) as ledger:

        def budget() -> None:
            ledger.set_budget(corpus="mail", epsilon=4.0, thresholds=0.5, period="day")

        budget()
        now[0] = 105 * DAY
        with ledger.reserve(corpus="mail", rho=0.01, delta=3e-6) as reservation:
            reservation.commit(0.01, delta=3e-6)
        now[0] = 102 * DAY
        budget()
        assert delta_of(ledger)[1] == 3e-6
        now[0] = 103 * DAY
        assert delta_of(ledger)[1] == 0.0


def test_a_process_that_dies_has_spent_what_it_committed(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.set_budget(corpus="mail", epsilon=4.0, thresholds=0.5)
        reservation = ledger.reserve(corpus="mail", rho=0.01, delta=2e-6)
        reservation.commit(0.001, delta=1e-6)
        ledger._database.write(
            lambda connection: connection.execute("UPDATE reservation SET pid = 999999999")
        )
        with Ledger(path) as other:
            assert delta_of(other) == (5e-6, 1e-6, 4e-6)
        with pytest.raises(LedgerError):
            reservation.commit(0.001, delta=1e-7)


@pytest.mark.parametrize("thresholds", [-0.1, 1.0, math.nan])
def test_a_part_outside_its_range_is_one_clear_line(ledger: Ledger, thresholds: float) -> None:
    with pytest.raises(ConfigurationError, match="thresholds"):
        ledger.set_budget(corpus="mail", epsilon=1.0, thresholds=thresholds)
