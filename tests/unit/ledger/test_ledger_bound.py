from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl_rag.ledger.budgets import ScopeBudgets, Usage

amounts = st.integers(0, 1000)
optional = st.none() | amounts
usages = st.builds(Usage, amounts, amounts)


def test_individual_answers_stop_counting_at_the_unit_budget() -> None:
    limits = ScopeBudgets(budget=100, unit_budget=40)
    assert limits.spent(Usage(fixed=10, individual=30)) == 40
    assert limits.spent(Usage(fixed=10, individual=500)) == 50
    assert limits.remaining(Usage(fixed=10, individual=500)) == 50


def test_without_a_unit_budget_units_share_the_budget_of_the_corpus() -> None:
    limits = ScopeBudgets(budget=100, unit_budget=None)
    assert limits.unit_room(fixed=30) == 70
    assert limits.spent(Usage(fixed=30, individual=500)) == 100
    assert limits.remaining(Usage(fixed=30, individual=20)) == 50


def test_fixed_answers_take_from_the_room_of_units() -> None:
    limits = ScopeBudgets(budget=100, unit_budget=80)
    assert limits.unit_room(fixed=10) == 80
    assert limits.unit_room(fixed=50) == 50
    assert limits.unit_room(fixed=150) == 0


def test_a_unit_has_left_what_no_answer_so_far_could_take() -> None:
    limits = ScopeBudgets(budget=100, unit_budget=40)
    assert limits.unit_remaining(Usage(fixed=10, individual=15)) == 25
    assert limits.unit_remaining(Usage(fixed=90, individual=4)) == 6
    assert limits.unit_remaining(Usage(fixed=10, individual=500)) == 0
    assert ScopeBudgets(100, 10, floor=60).unit_remaining(Usage(fixed=0, individual=500)) == 0
    assert ScopeBudgets(None, 40).unit_remaining(Usage(fixed=500, individual=15)) == 25
    assert ScopeBudgets(None, None).unit_remaining(Usage(fixed=1, individual=1)) is None


def test_what_was_possible_before_a_cut_stays_counted() -> None:
    usage = Usage(fixed=0, individual=500)
    assert ScopeBudgets(budget=100, unit_budget=10, floor=60).spent(usage) == 60
    assert ScopeBudgets(budget=100, unit_budget=10, floor=60).remaining(usage) == 40


@settings(deadline=None)
@given(usages)
def test_no_limit_means_no_bound_but_the_caps(usage: Usage) -> None:
    limits = ScopeBudgets(None, None)
    assert limits.spent(usage) == usage.fixed + usage.individual
    assert limits.remaining(usage) is None


@settings(deadline=None)
@given(amounts, optional, st.lists(st.tuples(st.booleans(), amounts, amounts)))
def test_whatever_is_asked_no_unit_loses_more_than_the_budget(
    budget: int, unit_budget: int | None, asked: list[tuple[bool, int, int]]
) -> None:
    """The proof in the module's docstring, run: a unit that always spends all it may."""
    limits = ScopeBudgets(budget, unit_budget)
    fixed = caps = unit = 0
    for individual, amount, own in asked:
        usage = Usage(fixed, caps)
        if individual:
            room = limits.unit_room(fixed)
            assert room is not None
            caps += amount
            least = limits.unit_remaining(usage)
            assert least is not None
            assert least <= room - unit
            unit += max(0, min(amount, own, room - unit))
        elif amount <= (limits.remaining(usage) or 0):
            fixed += amount
        assert fixed + unit <= limits.spent(Usage(fixed, caps)) <= budget
