"""Individual accounting: a budget for each unit, private."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from dpicl_rag.errors import BudgetExceededError, ConfigurationError
from dpicl_rag.ledger import Ledger, Reservation, ScopeStatus

SECRET = "patient-4711"


def mail(ledger: Ledger) -> ScopeStatus:
    return next(status for status in ledger.status() if status.name == "mail")


def limits(ledger: Ledger, *units: str, rho: float = 10.0) -> list[float]:
    with ledger.reserve(corpus="mail", rho=rho, at_least=1e-9, units=units) as reservation:
        found = reservation.limits
        assert found is not None
        return found


def charge(ledger: Ledger, rho: float, **unit_rho: float) -> None:
    with ledger.reserve(corpus="mail", rho=rho, units=list(unit_rho)) as reservation:
        reservation.commit(rho, list(unit_rho.values()))


def test_each_unit_pays_its_own_charge(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=1.0)
    charge(ledger, 0.5, a=0.3, b=0.0)
    assert limits(ledger, "a", "b", "c") == [0.7, 1.0, 1.0]
    assert limits(ledger, "a", "b", "c", rho=0.8) == [0.7, 0.8, 0.8]


def test_a_unit_that_is_used_up_gets_nothing_and_raises_nothing(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=1.0, unit_rho=0.5)
    charge(ledger, 0.5, a=0.5, b=0.1)
    assert limits(ledger, "a", "b") == [0.0, 0.4]
    with ledger.reserve(corpus="mail", rho=0.5, units=["a"]) as reservation:
        reservation.commit(0.5, [0.0])
        with pytest.raises(ConfigurationError, match="beyond its limit"):
            reservation.commit(0.5, [1e-9])


def test_what_anyone_sees_does_not_depend_on_the_units(path: Path, tmp_path: Path) -> None:
    """Two histories that differ in all private things are the same from outside."""
    seen = []
    for name, units, unit_rho in (("x", ["a", "b"], [0.5, 0.5]), ("y", [], []), ("z", ["c"], [0])):
        with Ledger(tmp_path / name) as ledger:
            ledger.set_budget(corpus="mail", rho=1.0, unit_rho=0.5)
            ledger.set_budget(caller="ann", rho=3.0)
            outside: list[Any] = []
            for _ in range(4):
                with ledger.reserve(
                    corpus="mail", caller="ann", rho=0.5, units=units
                ) as reservation:
                    exhausted = [0.0] * len(units)
                    own = unit_rho if reservation.limits == [0.5, 0.5] else exhausted
                    reservation.commit(0.5, own)
                    outside += [repr(reservation), reservation.rho, reservation.committed]
                    outside += ledger.status()
                outside += ledger.status()
            seen.append(outside)
    assert seen[0] == seen[1] == seen[2]


def test_answers_at_the_same_time_never_overspend_a_unit(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=1.0)
    first = ledger.reserve(corpus="mail", rho=0.7, units=["a", "b"])
    second = ledger.reserve(corpus="mail", rho=0.7, units=["b", "c"])
    assert first.limits == [0.7, 0.7]
    assert second.limits == [0.3, 0.7]
    assert limits(ledger, "a", "b", "c") == [0.3, 0.0, 0.3]
    first.commit(0.7, [0.7, 0.2])
    assert limits(ledger, "b") == [0.0]
    first.close()
    second.close()
    assert limits(ledger, "a", "b", "c") == [0.3, 0.8, 1.0]


def test_the_public_bound_stops_at_the_unit_budget_and_questions_go_on(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=1.0, unit_rho=0.4)
    for _ in range(5):
        charge(ledger, 0.3, a=0.01)
    status = mail(ledger)
    assert (status.spent, status.remaining, status.questions) == (0.4, 0.6, 5)


def test_fixed_and_individual_answers_share_one_promise(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=1.0)
    charge(ledger, 0.6, a=0.6)
    with pytest.raises(BudgetExceededError) as caught:
        ledger.reserve(corpus="mail", rho=0.5)
    assert caught.value.remaining == 0.4
    with ledger.reserve(corpus="mail", rho=0.3) as reservation:
        reservation.commit(0.3)
    assert limits(ledger, "a", "b") == [0.1, 0.7]
    with pytest.raises(BudgetExceededError) as caught:  # B - F: public
        ledger.reserve(corpus="mail", rho=0.8, units=["a"])
    assert caught.value.remaining == 0.7
    with ledger.reserve(corpus="mail", rho=0.8, at_least=0.1, units=["a"]) as reservation:
        assert reservation.rho == 0.7


def test_an_answer_is_bounded_by_the_unit_budget(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=1.0, unit_rho=0.4)
    with ledger.reserve(corpus="mail", rho=0.9, units=["a"]) as reservation:
        assert reservation.rho == 0.4
        assert reservation.limits == [0.4]
    with pytest.raises(BudgetExceededError):
        ledger.reserve(corpus="mail", rho=0.9, at_least=0.5, units=["a"])


def test_a_caller_pays_the_public_bound(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=1.0)
    ledger.set_budget(caller="ann", rho=0.9)
    with ledger.reserve(corpus="mail", caller="ann", rho=0.5, units=["a"]) as reservation:
        for _ in range(4):  # the sum is charged up to the answer's bound
            reservation.commit(0.2, [0.0])
        assert reservation.committed == 0.5
    assert ledger.status()[1].spent == 0.5
    with pytest.raises(BudgetExceededError, match="caller"):
        ledger.reserve(corpus="mail", caller="ann", rho=0.5, units=["a"])
    with ledger.reserve(
        corpus="mail", caller="ann", rho=0.5, at_least=0.1, units=["a"]
    ) as reservation:
        assert reservation.limits == [0.4]


def test_a_unit_never_pays_more_than_the_public_bound(ledger: Ledger) -> None:
    with ledger.reserve(corpus="mail", rho=0.5, units=["a"]) as reservation:
        with pytest.raises(ConfigurationError, match="public rho"):
            reservation.commit(0.1, [0.2])
        reservation.commit(0.3, [0.1])
        reservation.commit(0.0, [0.2])


@pytest.mark.parametrize(
    "unit_rho",
    [None, [], 0.1, [0.1], [0.1] * 3, [0.1, -0.1], [0.1, math.nan], [0.1, "x"], [0.1, None]],
)
def test_charges_must_fit_the_units(ledger: Ledger, unit_rho: Any) -> None:
    with ledger.reserve(corpus="mail", rho=0.5, units=["a", "b"]) as reservation:
        with pytest.raises(ConfigurationError):
            reservation.commit(0.1, unit_rho)
        assert reservation.committed == 0.0
        reservation.commit(0.1, [0.1, 0.1])


def test_fixed_answers_take_no_unit_charges(ledger: Ledger) -> None:
    with ledger.reserve(corpus="mail", rho=0.5) as reservation:
        assert reservation.limits is None
        with pytest.raises(ConfigurationError):
            reservation.commit(0.1, [0.1])


def test_an_answer_over_no_units_is_charged_like_any_other(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=1.0)
    charge(ledger, 0.4)
    assert mail(ledger).spent == 0.4


def test_a_unit_that_comes_back_goes_on_with_the_budget_it_had(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=1.0)
    charge(ledger, 0.5, a=0.5)
    ledger.forget_units("mail", ["a", "never seen"])
    ledger.forget_units("mail", ["a"])
    assert limits(ledger, "a", "never seen") == [0.5, 1.0]


def test_the_same_unit_in_another_corpus_is_another_unit(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=1.0)
    charge(ledger, 0.5, a=0.5)
    with ledger.reserve(corpus="notes", rho=0.7, units=["a"]) as reservation:
        assert reservation.limits == [0.7]


def test_unit_budgets_renew_with_their_corpus(ledger: Ledger, clock: Any) -> None:
    ledger.set_budget(corpus="mail", rho=1.0, period="month")
    charge(ledger, 0.6, a=0.6)
    clock.pass_days(20)
    assert limits(ledger, "a") == [1.0]
    charge(ledger, 0.3, a=0.3)
    assert limits(ledger, "a") == [0.7]


def test_units_bring_all_they_spent_into_a_new_period_rule(ledger: Ledger, clock: Any) -> None:
    ledger.set_budget(corpus="mail", rho=1.0, period="day")
    charge(ledger, 0.4, a=0.4)
    clock.pass_days(1)
    charge(ledger, 0.3, a=0.3)
    ledger.set_budget(corpus="mail", rho=1.0, period="month")
    assert limits(ledger, "a") == pytest.approx([0.3])
    clock.pass_days(31)
    assert limits(ledger, "a") == [1.0]
    ledger.set_budget(corpus="mail", rho=1.0)
    assert limits(ledger, "a") == pytest.approx([0.3])
    assert mail(ledger).spent == pytest.approx(0.7)


def test_a_late_answer_does_not_spend_the_new_period(ledger: Ledger, clock: Any) -> None:
    ledger.set_budget(corpus="mail", rho=1.0, period="day")
    late = ledger.reserve(corpus="mail", rho=0.5, units=["a"])
    clock.pass_days(1)
    charge(ledger, 0.2, a=0.2)
    late.commit(0.5, [0.5])
    late.close()
    assert limits(ledger, "a") == [0.8]
    ledger.set_budget(corpus="mail", rho=1.0)
    assert limits(ledger, "a") == pytest.approx([0.3])


def test_a_wrong_clock_does_not_hide_what_units_spent(ledger: Ledger, clock: Any) -> None:
    ledger.set_budget(corpus="mail", rho=1.0, period="month")
    clock.pass_days(400)
    late = ledger.reserve(corpus="mail", rho=0.2, units=["a"])
    charge(ledger, 0.6, a=0.6)
    clock.pass_days(-400)
    ledger.set_budget(corpus="mail", rho=1.0, period="month")
    late.commit(0.2, [0.2])
    late.close()
    assert limits(ledger, "a") == pytest.approx([0.2])
    assert mail(ledger).spent == 0.8
    clock.pass_days(31)
    assert limits(ledger, "a") == [1.0]
    assert mail(ledger).spent == 0.0


def test_a_longer_period_counts_all_that_units_may_have_lost(ledger: Ledger, clock: Any) -> None:
    ledger.set_budget(corpus="mail", rho=1.0, period="day")
    for _ in range(2):
        charge(ledger, 1.0, a=1.0)
        clock.pass_days(1)
    ledger.set_budget(corpus="mail", rho=1.5)
    assert mail(ledger).spent == 2.0
    assert mail(ledger).remaining == 0.0
    assert limits(ledger, "a", "b") == [0.0, 1.5]


def test_lowering_budgets_keeps_what_was_possible_counted(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=1.0)
    charge(ledger, 0.8, a=0.8)
    ledger.set_budget(corpus="mail", rho=1.0, unit_rho=0.3)
    assert mail(ledger).spent == 0.8
    assert mail(ledger).remaining == pytest.approx(0.2)
    assert limits(ledger, "a", "b") == [0.0, 0.3]


def _private(reservation: Reservation) -> str:
    return f"{reservation!r} {reservation} {reservation._grant!r}"


def test_nothing_printed_tells_a_unit_or_what_it_spent(ledger: Ledger, path: Path) -> None:
    ledger.set_budget(corpus="mail", rho=1.0)
    charge(ledger, 0.5, **{SECRET: 0.123456})
    with ledger.reserve(corpus="mail", rho=1.0, units=[SECRET]) as reservation:
        texts = [_private(reservation), repr(ledger), repr(ledger._key), repr(ledger.status())]
        for wrong in ([2.0], [0.9], [-1.0], []):
            with pytest.raises(ConfigurationError) as caught:
                reservation.commit(0.95, wrong)
            texts.append(str(caught.value))
    for text in texts:
        assert SECRET not in text
        assert "0.1234" not in text
        assert "0.8765" not in text
    ledger.close()
    assert SECRET.encode() not in path.read_bytes()


def test_the_file_holds_no_unit_while_an_answer_runs(ledger: Ledger, path: Path) -> None:
    with ledger.reserve(corpus="mail", rho=1.0, units=[SECRET]) as reservation:
        reservation.commit(0.1, [0.1])
        for file in path.parent.iterdir():
            assert SECRET.encode() not in file.read_bytes()
