from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.ledger.fixed_point import MAX_RHO, NANO, allowance, charge, exact, to_rho

amounts = st.floats(0.0, MAX_RHO)
unhurried = settings(deadline=None)
PART = Fraction(1, 2**40)


@unhurried
@given(amounts)
def test_exact_rounds_up_by_less_than_one_step(rho: float) -> None:
    excess = Fraction(exact("rho", rho), 2**120) - Fraction(rho)
    assert 0 <= excess < Fraction(1, 2**120)


@unhurried
@given(amounts)
def test_a_charge_is_not_below_the_value_but_for_one_part_in_2_to_40(rho: float) -> None:
    paid = Fraction(charge(exact("rho", rho)), NANO)
    assert paid >= Fraction(rho) * (1 - PART)
    assert paid - Fraction(rho) < Fraction(1, NANO) + Fraction(1, 2**120)


@unhurried
@given(amounts)
def test_an_allowance_is_not_above_the_value_but_for_one_part_in_2_to_40(rho: float) -> None:
    allowed = Fraction(allowance(exact("rho", rho)), NANO)
    assert allowed <= (Fraction(rho) + Fraction(1, 2**120)) * (1 + PART)
    assert Fraction(rho) - allowed < Fraction(1, NANO)


@unhurried
@given(st.integers(0, 10**12))
def test_whole_nano_rho_survive_the_way_through_floats(nano: int) -> None:
    amount = exact("rho", to_rho(nano))
    assert charge(amount) == allowance(amount) == nano


@unhurried
@example(nano=1, tokens=3000)
@given(st.integers(1, 10**10), st.integers(1, 3000))
def test_an_even_split_of_a_charge_costs_what_the_whole_costs(nano: int, tokens: int) -> None:
    share = exact("rho", to_rho(nano) / tokens)
    assert charge(share * tokens) == nano


def test_the_smallest_float_costs_something_and_nothing_costs_nothing() -> None:
    assert charge(exact("rho", math.ulp(0.0))) == 1
    assert charge(exact("rho", 0.0)) == 0


@pytest.mark.parametrize(
    "value", [-1e-300, math.nan, math.inf, -math.inf, 2e6, "1", b"1", None, True, [1.0], 10**400]
)
def test_what_is_not_a_charge_is_refused_without_being_repeated(value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"^rho must be [a-z0-9 +]*$"):
        exact("rho", value)  # type: ignore[arg-type]
