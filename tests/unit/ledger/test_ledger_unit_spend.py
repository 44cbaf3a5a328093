"""Units that turn out to be one have one budget, and what they spent is never forgotten."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl_rag.errors import ConfigurationError, LedgerError
from dpicl_rag.ledger import Ledger
from dpicl_rag.ledger.ledger_units import joint
from tests.unit.ledger.conftest import Clock
from tests.unit.ledger.test_ledger_individual import charge, limits, mail

amounts = st.integers(0, 10**15)


def together(*spent: float) -> float:
    """What units lost that are one, had they taken part in the same answers."""
    return sum(map(math.sqrt, spent)) ** 2


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.lists(st.tuples(amounts, amounts), min_size=1, max_size=8))
def test_joint_sums_bound_answers_however_they_were_split(answers: list[tuple[int, int]]) -> None:
    apart = joint([sum(one for one, _ in answers), sum(other for _, other in answers)])
    in_each = sum(math.isqrt(4 * one * other) + one + other for one, other in answers)
    assert in_each <= apart


def test_joint_is_the_square_of_the_sum_of_roots_and_rounds_up() -> None:
    assert joint([]) == 0
    assert joint([7]) == 7
    assert joint([4, 9]) == 25
    assert joint([2, 3]) == math.ceil(together(2, 3))
    assert joint([1, 1, 1]) == 9


def test_spend_is_joined_and_both_names_have_one_budget(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=2.0)
    charge(ledger, 0.5, a=0.25, b=0.36, c=0.1)
    ledger.merge_units("mail", {"b": "a"})
    left = 2.0 - together(0.25, 0.36)
    assert limits(ledger, "a", "c") == pytest.approx([left, 1.9], abs=1e-8)
    assert limits(ledger, "b") == pytest.approx([left], abs=1e-8)
    charge(ledger, 0.5, b=0.3)
    assert limits(ledger, "a") == pytest.approx([left - 0.3], abs=1e-8)


def test_again_and_the_other_way_round_changes_nothing(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=2.0)
    charge(ledger, 0.5, a=0.25, b=0.36)
    found = set()
    for survivors in ({"b": "a"}, {"b": "a"}, {"a": "b"}, {"a": "a"}):
        ledger.merge_units("mail", survivors)
        found.add(tuple(limits(ledger, "a") + limits(ledger, "b")))
    assert len(found) == 1


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_three_become_one_in_any_order(ledger: Ledger, order: tuple[str, ...]) -> None:
    ledger.set_budget(corpus="mail", rho=10.0)
    charge(ledger, 0.5, a=0.1, b=0.2, c=0.3)
    first, second, third = order
    ledger.merge_units("mail", {first: second})
    ledger.merge_units("mail", {second: third})
    left = 10.0 - together(0.1, 0.2, 0.3)
    for name in order:
        assert limits(ledger, name, rho=10.0) == pytest.approx([left], abs=1e-7)


def test_answers_at_a_fixed_price_were_paid_by_both(ledger: Ledger) -> None:
    """Each of the two lost 0.4, and so the one that they are lost 1.6."""
    ledger.set_budget(corpus="mail", rho=2.0)
    with ledger.reserve(corpus="mail", rho=0.4) as reservation:
        reservation.commit(0.4)
    ledger.merge_units("mail", {"b": "a"})
    assert limits(ledger, "a") == pytest.approx([2.0 - 1.6], abs=1e-8)
    assert limits(ledger, "c") == pytest.approx([2.0 - 0.4], abs=1e-8)


def test_answers_in_progress_settle_on_the_one_that_stays(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=2.0)
    running = ledger.reserve(corpus="mail", rho=0.3, units=["a", "b"])
    ledger.merge_units("mail", {"b": "a"})
    held = 2.0 - together(0.3, 0.3)
    assert limits(ledger, "a") == pytest.approx([held], abs=1e-8)
    running.commit(0.3, [0.2, 0.1])
    running.close()
    assert limits(ledger, "b") == pytest.approx([2.0 - together(0.2, 0.1)], abs=1e-8)


def test_two_names_in_one_answer_share_one_limit(ledger: Ledger) -> None:
    """Whoever still holds the corpus as it was before."""
    ledger.merge_units("mail", {"b": "a"})
    assert limits(ledger, "a", "b") == [10.0, 10.0]  # there is no limit to share
    ledger.set_budget(corpus="mail", rho=2.0)
    assert limits(ledger, "b", "a") == [2.0, 0.0]


def test_nobody_sees_that_units_were_joined(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=1.0)
    charge(ledger, 0.5, a=0.5, b=0.5)
    before = mail(ledger)
    ledger.merge_units("mail", {"b": "a"})
    assert mail(ledger) == before
    assert limits(ledger, "a") == [0.0]


def test_a_period_counts_what_was_spent_in_it(ledger: Ledger, clock: Clock) -> None:
    ledger.set_budget(corpus="mail", rho=1.0, period="month")
    charge(ledger, 0.5, a=0.4, b=0.1)
    clock.pass_days(40)
    charge(ledger, 0.5, b=0.2)
    ledger.merge_units("mail", {"b": "a"})
    assert limits(ledger, "a") == pytest.approx([0.8], abs=1e-8)
    clock.pass_days(40)
    assert limits(ledger, "a") == [1.0]


def test_a_forgotten_unit_is_joined_all_the_same(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=1.0)
    charge(ledger, 0.5, a=0.5)
    ledger.forget_units("mail", ["a"])
    ledger.merge_units("mail", {"a": "b"})
    assert limits(ledger, "b") == [0.5]


def test_no_file_grows_beyond_what_it_takes(ledger: Ledger) -> None:
    names = [f"unit {number}" for number in range(40)]
    charge(ledger, 9e5, **dict.fromkeys(names, 9e5))
    ledger.merge_units("mail", dict.fromkeys(names[1:], names[0]))
    ledger.set_budget(corpus="mail", rho=9e5)
    assert limits(ledger, names[0]) == [0.0]


def test_a_failure_joins_nothing(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=1.0)
    charge(ledger, 0.5, a=0.1, b=0.2, c=0.3)
    with pytest.raises(ConfigurationError, match="must be a sequence of strings"):
        ledger.merge_units("mail", {"b": "a", "c": None})  # type: ignore[dict-item]
    assert limits(ledger, "a", "b", "c") == [0.9, 0.8, 0.7]
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        ledger.merge_units("mail", {"b": "a"})
