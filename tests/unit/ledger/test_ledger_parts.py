"""Units that were joined and are separated again: nobody gets back more than is safe."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl_rag.errors import LedgerError
from dpicl_rag.ledger import Ledger
from tests.unit.ledger.conftest import Clock
from tests.unit.ledger.test_ledger_individual import charge, limits

BUDGET = 10.0


def together(*spent: float) -> float:
    """What units lost that are one, had they taken part in the same answers."""
    return sum(map(math.sqrt, spent)) ** 2


def spent(ledger: Ledger, *units: str) -> list[float]:
    """What each unit has spent, answers at a fixed price included."""
    return [BUDGET - limits(ledger, unit, rho=BUDGET)[0] for unit in units]


def near(*expected: float) -> object:
    return pytest.approx(list(expected), abs=1e-7)


@pytest.fixture
def ledger(path: Path, clock: Clock):
    with Ledger(path, clock=clock) as opened:
        opened.set_budget(corpus="mail", rho=BUDGET)
        yield opened


def test_without_an_answer_since_each_has_exactly_what_it_had(ledger: Ledger) -> None:
    charge(ledger, 0.5, a=0.25, b=0.36, c=0.1)
    before = limits(ledger, "a", "b", "c")
    ledger.merge_units("mail", {"b": "a"})
    ledger.separate_units("mail", ["a", "b"])
    assert limits(ledger, "a", "b", "c") == before


def test_the_one_that_stayed_keeps_what_both_had_until_it_is_given_back(ledger: Ledger) -> None:
    charge(ledger, 0.5, a=0.25, b=0.36)
    ledger.merge_units("mail", {"b": "a"})
    ledger.separate_units("mail", ["b"])
    assert spent(ledger, "a", "b") == near(together(0.25, 0.36), 0.36)
    ledger.separate_units("mail", ["a"])
    assert spent(ledger, "a", "b") == near(0.25, 0.36)


def test_answers_since_cost_what_a_changed_expert_costs(ledger: Ledger) -> None:
    charge(ledger, 0.5, a=0.25, b=0.36)
    ledger.merge_units("mail", {"b": "a"})
    charge(ledger, 0.5, a=0.2)
    charge(ledger, 0.3, a=0.1)
    ledger.separate_units("mail", ["b", "a"])
    since = together(0.2 + 0.1, 0.5 + 0.3)
    assert spent(ledger, "a", "b") == near(0.25 + since, 0.36 + since)


def test_what_remains_is_charged_for_having_been_changed(ledger: Ledger) -> None:
    charge(ledger, 0.5, a=0.25, b=0.36)
    ledger.merge_units("mail", {"b": "a"})
    charge(ledger, 0.5, a=0.2)
    ledger.separate_units("mail", ["b"])
    whole = together(0.25, 0.36) + 0.2
    assert spent(ledger, "a") == near(together(whole, 0.5))
    # Given back its own past, it has that; the growth of its spend is more than the bound by now.
    ledger.separate_units("mail", ["a"])
    assert spent(ledger, "a") == near(0.25 + 4 * 0.5)


def test_never_more_than_four_times_the_bound_of_the_answers(ledger: Ledger) -> None:
    ledger.merge_units("mail", {"b": "a"})
    charge(ledger, 0.5, a=0.5)
    charge(ledger, 0.1, c=0.1)
    ledger.merge_units("mail", {"c": "a"})  # its spend grows by what c brings
    ledger.separate_units("mail", ["b"])
    assert spent(ledger, "b") == near(4 * 0.6)


def test_a_silent_joint_unit_costs_its_parts_the_bound_alone(ledger: Ledger) -> None:
    """What a stranger's mail has joined had nothing left: without a part it might have spoken."""
    charge(ledger, 5.0, a=5.0, b=5.0)
    ledger.merge_units("mail", {"b": "a"})
    charge(ledger, 0.5, a=0.0)
    ledger.separate_units("mail", ["a", "b"])
    assert spent(ledger, "a", "b") == near(5.5, 5.5)


def test_answers_at_a_fixed_price_count_as_for_a_changed_expert(ledger: Ledger) -> None:
    def fixed() -> None:
        with ledger.reserve(corpus="mail", rho=0.4) as reservation:
            reservation.commit(0.4)

    fixed()
    charge(ledger, 0.5, a=0.25, b=0.36)
    ledger.merge_units("mail", {"b": "a"})
    ledger.separate_units("mail", ["b"])
    assert spent(ledger, "b") == near(0.4 + 0.36)
    ledger.merge_units("mail", {"b": "a"})
    fixed()
    ledger.separate_units("mail", ["b"])
    assert spent(ledger, "b") == near(0.4 + 0.36 + 4 * 0.4)


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_chains_give_back_what_was_there(ledger: Ledger, order: tuple[str, ...]) -> None:
    charge(ledger, 0.5, a=0.1, b=0.2, c=0.3)
    first, second, third = order
    ledger.merge_units("mail", {first: second})
    ledger.merge_units("mail", {second: third})
    ledger.separate_units("mail", list(order))
    assert spent(ledger, "a", "b", "c") == near(0.1, 0.2, 0.3)


@pytest.mark.parametrize("leaving", ["a", "b", "c"])
def test_one_of_three_leaves_and_two_stay_one(ledger: Ledger, leaving: str) -> None:
    charge(ledger, 0.5, a=0.1, b=0.2, c=0.3)
    ledger.merge_units("mail", {"b": "a"})
    ledger.merge_units("mail", {"c": "a"})
    ledger.separate_units("mail", [leaving])
    own = {"a": 0.1, "b": 0.2, "c": 0.3}
    rest = [name for name in own if name != leaving]
    whole = together(*own.values())
    assert spent(ledger, leaving, *rest) == near(own[leaving], whole, whole)
    charge(ledger, 0.5, **{rest[1]: 0.5})
    assert spent(ledger, leaving, rest[0]) == near(own[leaving], whole + 0.5)
    # And each of them may leave later.
    ledger.separate_units("mail", rest)
    since = 4 * 0.5
    assert spent(ledger, *rest) == near(*(own[name] + since for name in rest))


def test_each_part_pays_for_the_answers_since_it_joined(ledger: Ledger) -> None:
    ledger.merge_units("mail", {"b": "a"})
    charge(ledger, 0.3, a=0.1)
    ledger.merge_units("mail", {"c": "a"})
    charge(ledger, 0.5, a=0.2)
    ledger.separate_units("mail", ["a", "b", "c"])
    early, late = together(0.1 + 0.2, 0.3 + 0.5), together(0.2, 0.5)
    assert spent(ledger, "a", "b", "c") == near(early, early, late)


def test_again_changes_nothing(ledger: Ledger) -> None:
    charge(ledger, 0.5, a=0.25, b=0.36, c=0.1)
    ledger.merge_units("mail", {"b": "a"})
    charge(ledger, 0.5, a=0.1)
    found = set()
    for units in (["b"], ["b"], ["b", "c"], ["never seen"], []):
        ledger.separate_units("mail", units)
        found.add(tuple(limits(ledger, "a", "b", "c")))
        charge(ledger, 0.2, d=0.2)  # time passes
    assert len(found) == 1


def test_a_unit_that_is_alone_is_never_raised_when_it_is_given_back_its_past(
    ledger: Ledger,
) -> None:
    ledger.merge_units("mail", {"b": "a"})
    ledger.separate_units("mail", ["b"])
    charge(ledger, 1.0, c=1.0)  # nothing that it heard as another
    ledger.separate_units("mail", ["a"])
    assert spent(ledger, "a", "b") == near(0.0, 0.0)


def test_joined_again_after_a_separation(ledger: Ledger) -> None:
    charge(ledger, 0.5, a=0.25, b=0.36)
    for _ in range(3):
        ledger.merge_units("mail", {"b": "a"})
        assert spent(ledger, "b") == near(together(0.25, 0.36))
        ledger.separate_units("mail", ["a", "b"])
        assert spent(ledger, "a", "b") == near(0.25, 0.36)


def test_answers_in_progress_count_with_all_that_they_hold(ledger: Ledger) -> None:
    ledger.merge_units("mail", {"b": "a"})
    running = ledger.reserve(corpus="mail", rho=0.5, units=["a"])
    ledger.separate_units("mail", ["a", "b"])
    assert spent(ledger, "b") == near(4 * 0.5)
    running.commit(0.5, [0.2])
    running.close()
    # Beside the bound, a pays what was booked under its name.
    assert spent(ledger, "a", "b") == near(4 * 0.5 + 0.2, 4 * 0.5)


def test_answers_in_progress_at_the_join_count_as_given_since(ledger: Ledger) -> None:
    running = ledger.reserve(corpus="mail", rho=0.5, units=["a", "b"])
    ledger.merge_units("mail", {"b": "a"})
    running.commit(0.5, [0.3, 0.1])
    running.close()
    ledger.separate_units("mail", ["a", "b"])
    bound = together(together(0.3, 0.1), 0.5)
    paid = together(0.5, 0.5)  # what they paid together is above the bound of the answer
    assert spent(ledger, "a", "b") == near(min(bound, paid), min(bound, paid))


def test_a_period_gets_back_what_falls_into_it(ledger: Ledger, clock: Clock) -> None:
    ledger.set_budget(corpus="mail", rho=BUDGET, period="month")
    charge(ledger, 0.5, a=0.4, b=0.1)
    clock.pass_days(40)
    charge(ledger, 0.5, b=0.2)
    ledger.merge_units("mail", {"b": "a"})
    ledger.separate_units("mail", ["a", "b"])
    assert spent(ledger, "a", "b") == near(0.0, 0.2)
    ledger.merge_units("mail", {"b": "a"})
    charge(ledger, 0.5, a=0.3)
    clock.pass_days(31)
    charge(ledger, 0.2, a=0.1)
    ledger.separate_units("mail", ["a", "b"])
    assert spent(ledger, "a", "b") == near(together(0.1, 0.2), together(0.1, 0.2))
    # For life it is all of it.
    ledger.set_budget(corpus="mail", rho=BUDGET)
    since = together(0.4, 0.7)
    assert spent(ledger, "a", "b") == near(0.4 + since, 0.3 + since)


def test_another_period_counts_all_that_was_ever_spent(ledger: Ledger, clock: Clock) -> None:
    ledger.set_budget(corpus="mail", rho=BUDGET, period="day")
    charge(ledger, 0.5, a=0.4, b=0.1)
    clock.pass_days(2)
    ledger.merge_units("mail", {"b": "a"})
    ledger.set_budget(corpus="mail", rho=BUDGET, period="month")
    ledger.separate_units("mail", ["a", "b"])
    assert spent(ledger, "a", "b") == near(0.4, 0.1)


def test_a_failure_separates_nothing(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a kill does: the transaction is not there."""
    charge(ledger, 0.5, a=0.25, b=0.36, c=0.3, d=0.1)
    ledger.merge_units("mail", {"b": "a", "d": "c"})
    before = limits(ledger, *"abcd"[::2])
    real, calls = "dpicl_rag.ledger.parts._remaining", []

    def killed(*given: object) -> int:
        calls.append(given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(real, killed)
        with pytest.raises(KeyboardInterrupt):
            ledger.separate_units("mail", ["b", "d"])
    assert calls
    assert limits(ledger, *"abcd"[::2]) == before
    ledger.separate_units("mail", ["b", "d"])
    assert spent(ledger, "b", "d") == near(0.36, 0.1)
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        ledger.separate_units("mail", ["b"])


NAMES = "abcd"


@pytest.mark.heavy
@settings(max_examples=60, derandomize=True, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_no_unit_gets_less_than_it_can_have_lost(seed: int, tmp_path_factory) -> None:
    """Random joins, answers and separations against what each answer can have cost at most.

    An answer costs a unit by itself what it pays. A part of a larger one it costs (sqrt of what
    that one paid, and sqrt of what the rest would have paid, which is up to the bound) squared.
    """
    coins = random.Random(seed)
    group = {name: {name} for name in NAMES}
    lost = dict.fromkeys(NAMES, 0.0)
    path = tmp_path_factory.mktemp("parts") / "ledger.sqlite"
    with Ledger(path) as ledger:
        ledger.set_budget(corpus="mail", rho=1e4)
        for _ in range(12):
            step = coins.choice(["join", "answer", "answer", "fixed", "separate"])
            one, other = coins.sample(NAMES, 2)
            if step == "join":
                ledger.merge_units("mail", {other: one})
                joined = group[one] | group[other]
                group.update(dict.fromkeys(joined, joined))
            elif step == "answer":
                bound = coins.choice([0.1, 0.5, 1.0])
                heads = {min(members): members for members in group.values()}
                paid = {head: coins.choice([0.0, bound / 3, bound]) for head in heads}
                charge(ledger, bound, **paid)
                for head, members in heads.items():
                    for name in members:
                        single = len(members) == 1
                        lost[name] += paid[head] if single else together(paid[head], bound)
            elif step == "fixed":
                with ledger.reserve(corpus="mail", rho=0.2) as reservation:
                    reservation.commit(0.2)
                for name in NAMES:
                    lost[name] += 0.2 if len(group[name]) == 1 else 0.8
            else:
                leaving = set(coins.sample(NAMES, coins.randint(1, 4)))
                ledger.separate_units("mail", sorted(leaving))
                for name in NAMES:
                    rest = group[name] - leaving
                    group[name] = {name} if name in leaving else rest
        ledger.separate_units("mail", list(NAMES))
        for name in NAMES:
            left = limits(ledger, name, rho=1e4)[0]
            assert 1e4 - left >= lost[name] - 1e-6
