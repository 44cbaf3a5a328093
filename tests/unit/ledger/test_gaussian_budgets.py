"""Budgets for Gaussian noise alone: exact over neighbours, and closed to all other noise."""

from __future__ import annotations

import math
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpicl_rag.accounting import DIRECT, epsilon_to_rho
from dpicl_rag.answering.answer_plan import with_agreement
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import BudgetExceededError, ConfigurationError, DPICLError
from dpicl_rag.ledger import Ledger, open_account
from dpicl_rag.ledger.budgets import booking
from tests.support.scored_units import gaussian_pmf
from tests.unit.ledger.conftest import Clock

DELTA = 1e-5
MAIL = {"corpus": "mail"}


def set_budget(ledger: Ledger, **given: Any) -> None:
    ledger.set_budget(**{"corpus": "mail", "epsilon": 4.0, "gaussian": True, **given})


def answered(ledger: Ledger, rho: float = 0.01, *, gaussian: bool, **given: Any) -> None:
    with open_account(ledger, rho=rho, gaussian=gaussian, **{**MAIL, **given}) as account:
        account.pay(rho)


def shifted(rho: float, reach: int) -> tuple[np.ndarray, np.ndarray]:
    """The laws of a noisy count of 0 and of 1, at the noise that a price pays for."""
    pmf = gaussian_pmf(1 / math.sqrt(2 * rho), reach + 1, fine=True)
    reached = range(-reach, reach + 1)
    return np.array([pmf[x] for x in reached]), np.array([pmf[x - 1] for x in reached])


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("first", [0.3, 0.7])
@pytest.mark.parametrize("line", [-3, 0, 3])
def test_adaptive_counts_and_a_rare_key_stay_within_epsilon_and_delta(
    ledger: Ledger, epsilon: float, first: float, line: int
) -> None:
    """What the second count costs follows from the first; thresholds take all of the pool."""
    set_budget(ledger, epsilon=epsilon, delta=DELTA)
    (status,) = ledger.status()
    assert status.budget is not None
    with ledger.reserve(rho=status.budget, delta=status.delta, gaussian=True, **MAIL) as held:
        held.commit(first * held.rho, delta=held.delta)
        one, rest, rare = held.committed, held.remaining, held.delta
    reach = math.ceil(9 / math.sqrt(2 * min(one, rest)))
    none, some = shifted(one, reach)
    after_none, after_some = shifted(rest, reach)
    # Below the line nothing more is asked, from the line on all that is left is spent.
    more = np.arange(-reach, reach + 1) >= line
    without = np.concatenate([none[~more], np.outer(none[more], after_none).ravel()])
    having = np.concatenate([some[~more], np.outer(some[more], after_some).ravel()])
    having, factor = (1 - rare) * having, math.exp(epsilon)
    over = rare + np.maximum(0.0, having - factor * without).sum()
    under = np.maximum(0.0, without - factor * having).sum()
    assert max(over, under) <= DELTA
    if line == -3:  # nearly always all of it is spent
        assert over >= 0.9 * DELTA


@pytest.mark.parametrize(("epsilon", "more"), [(20, 1.10), (8, 1.12), (4, 1.14), (1, 1.17)])
def test_the_same_epsilon_is_more_rho(ledger: Ledger, epsilon: float, more: float) -> None:
    set_budget(ledger, epsilon=epsilon, unit_epsilon=epsilon)
    ledger.set_budget(corpus="other", epsilon=epsilon, unit_epsilon=epsilon)
    mail, other = ledger.status()
    assert mail.budget is not None
    assert other.budget is not None
    assert more <= mail.budget / other.budget <= more + 0.02
    assert mail.unit_budget == mail.budget


def test_other_noise_is_refused_before_anything_is_paid(ledger: Ledger) -> None:
    set_budget(ledger)
    ledger.set_budget(caller="ann", epsilon=4.0, gaussian=True)
    with pytest.raises(ConfigurationError, match="corpus 'mail' is for Gaussian noise alone"):
        answered(ledger, gaussian=False)
    with pytest.raises(ConfigurationError, match="caller 'ann' is for Gaussian noise alone"):
        answered(ledger, gaussian=False, corpus="free", caller="ann")
    assert all(status.spent == status.reserved == 0 for status in ledger.status())
    answered(ledger, gaussian=True, caller="ann")
    assert [status.spent for status in ledger.status()] == [0.01, 0.01]
    with pytest.raises(BudgetExceededError, match=r"epsilon 4\.24 was asked for and 3\.94"):
        answered(ledger, epsilon_to_rho(4.0, 0.8 * DELTA, gaussian=True) * 1.1, gaussian=True)


def test_an_account_for_it_pays_for_no_draw(ledger: Ledger) -> None:
    set_budget(ledger)
    with open_account(ledger, corpus="mail", rho=0.1, gaussian=True) as account:
        account.pay(0.01)
        with pytest.raises(DPICLError, match="a draw is no Gaussian noise"):
            account.pay(0.01, drawn=True)
    assert ledger.status()[0].spent == 0.01


@pytest.mark.parametrize("way", ["settled", "in progress", "by a process that died"])
def test_what_has_paid_for_other_noise_stays_as_it_was(
    ledger: Ledger, path: Path, way: str
) -> None:
    ledger.set_budget(corpus="mail", epsilon=4.0)
    before = ledger.status()[0].budget
    reservation = ledger.reserve(corpus="mail", rho=0.01)
    reservation.commit(0.01)
    if way == "settled":
        reservation.close()
    if way == "by a process that died":
        ledger._database.write(lambda c: c.execute("UPDATE reservation SET pid = 999999999"))
    with Ledger(path) as other:
        with pytest.raises(ConfigurationError, match="has paid for more than Gaussian noise"):
            set_budget(other)
        status = other.status()[0]
        assert (status.budget, status.gaussian) == (before, False)


def test_what_paid_for_gaussian_noise_may_be_either(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", epsilon=4.0)
    with ledger.reserve(corpus="mail", rho=0.1):
        pass  # asks for other noise and releases nothing
    answered(ledger, gaussian=True)
    for gaussian in (True, False, True):
        set_budget(ledger, gaussian=gaussian)
        status = ledger.status()[0]
        assert (status.gaussian, status.spent) == (gaussian, 0.01)
    set_budget(ledger, gaussian=False)
    answered(ledger, gaussian=False)
    with pytest.raises(ConfigurationError, match="more than Gaussian noise"):
        set_budget(ledger)


def test_a_period_counts_what_falls_into_it(ledger: Ledger, clock: Clock) -> None:
    ledger.set_budget(corpus="mail", epsilon=4.0, period="day")
    answered(ledger, gaussian=False)
    with pytest.raises(ConfigurationError, match="more than Gaussian noise"):
        set_budget(ledger, period="day")
    clock.pass_days(1)
    with pytest.raises(ConfigurationError, match="more than Gaussian noise"):
        set_budget(ledger, period="month")  # what was ever spent counts in it
    set_budget(ledger, period="day")


def test_an_answer_takes_a_part_of_the_delta_that_is_left(ledger: Ledger) -> None:
    def part(corpus: str) -> float:
        config = PrivacyConfig.create(agreement="only")
        return config.under(booking(ledger.status(), corpus)).threshold_delta(booked=True)

    for corpus, answers in (("mail", 20), ("post", 2500), ("usual", 200)):
        set_budget(ledger, corpus=corpus, answers=answers)
    assert [part(name) for name in ("mail", "post", "usual")] == pytest.approx(
        [1.25e-7, 1e-9, 1.25e-8]
    )
    assert part("usual") == pytest.approx(
        PrivacyConfig.create(agreement="only").threshold_delta(booked=True)
    )
    for number in range(100):
        delta = part("mail")
        assert delta == pytest.approx(1.25e-7 * 0.95**number, rel=1e-6)
        with open_account(ledger, corpus="mail", rho=1e-6, delta=delta, gaussian=True) as account:
            assert account.pays_thresholds(delta)
            account.pay(1e-6, delta=delta)
    (mail,) = (one for one in ledger.status() if one.name == "mail")
    assert mail.delta_spent == pytest.approx(2.5e-6 * (1 - 0.95**100), rel=1e-6)
    with pytest.raises(ConfigurationError, match="answers"):
        set_budget(ledger, answers=0)


def test_answers_at_the_same_time_hold_parts_of_what_the_others_leave(ledger: Ledger) -> None:
    set_budget(ledger, corpus="mail", answers=2)
    with ExitStack() as stack:
        held = 0.0
        for _ in range(12):
            (status,) = ledger.status()
            delta = status.booking.threshold_delta
            assert delta is not None
            account = stack.enter_context(
                open_account(ledger, corpus="mail", rho=1e-6, delta=delta, gaussian=True)
            )
            assert account.pays_thresholds(delta)
            held += delta
        assert held < 2.5e-6
    (status,) = ledger.status()
    assert status.booking.threshold_delta == pytest.approx(1.25e-6)  # nothing was used


def test_where_no_delta_is_left_no_threshold_is_paid(ledger: Ledger) -> None:
    set_budget(ledger, corpus="mail", answers=1)
    delta = 2.5e-6
    with open_account(ledger, corpus="mail", rho=1e-6, delta=delta, gaussian=True) as account:
        assert account.pays_thresholds(delta)
        account.pay(1e-6, delta=delta)
    (status,) = ledger.status()
    part = PrivacyConfig.create(agreement="only").under(status.booking)
    delta = part.threshold_delta(booked=True)
    assert delta > 0
    with open_account(ledger, corpus="mail", rho=1e-6, delta=delta, gaussian=True) as account:
        assert not account.pays_thresholds(delta)


def test_of_two_budgets_the_stricter_says_what_an_answer_may_take(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", epsilon=4.0, answers=100)
    ledger.set_budget(caller="ann", epsilon=4.0, gaussian=True, thresholds=0.1, answers=1000)
    terms = booking(ledger.status(), "mail", "ann")
    assert terms.gaussian
    assert terms.threshold_delta == pytest.approx(1e-9)
    with pytest.raises(ConfigurationError, match="leave agreement out"):
        with_agreement(PrivacyConfig.create(agreement="auto").under(terms), DIRECT, speaks=True)
    decided = with_agreement(PrivacyConfig.create().under(terms), DIRECT, speaks=True)
    assert decided.agreement == "only"
