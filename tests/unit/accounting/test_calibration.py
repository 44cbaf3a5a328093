"""The strength that a budget pays for is the largest, and never over it."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl_rag.accounting import (
    Adjacency,
    BoundedRange,
    RenyiAccountant,
    ZeroConcentratedAccountant,
    epsilon_to_rho,
    exact_strength_for,
    largest_strength,
    strength_for,
)
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.filters import FixedFilter


@given(st.floats(1e-6, 50), st.integers(1, 3000), st.floats(1e-3, 100), st.integers(1, 8))
def test_tokens_spend_the_budget_and_no_more(
    rho: float, tokens: int, utility_range: float, factor: int
) -> None:
    reach = strength_for(rho, tokens, utility_range, factor) * utility_range * factor
    cost = reach * reach / 8
    assert Fraction(cost) * tokens <= Fraction(rho)
    summed = 0.0
    for _ in range(tokens):
        summed += cost
    assert rho * (1 - 1e-11) <= summed <= rho


def test_a_filter_pays_for_every_token_and_no_other() -> None:
    rho = epsilon_to_rho(8, 1e-5)
    cost = strength_for(rho, 64, 1.0, 1) ** 2 / 8
    budget = FixedFilter(rho, cost)
    for _ in range(64):
        budget.pay()
    assert not budget.can_pay()


@pytest.mark.parametrize("tokens", [1, 16, 64])
@pytest.mark.parametrize("factor", [1, 2])
def test_exact_calibration_meets_its_target(tokens: int, factor: int) -> None:
    strength = exact_strength_for(8.0, 1e-5, tokens, 2.0, factor)
    event = BoundedRange(strength * 2.0 * factor)
    accountant = RenyiAccountant(Adjacency.ADD_OR_REMOVE_ONE).compose(event, tokens)
    assert 8.0 * (1 - 1e-9) <= accountant.epsilon(1e-5) <= 8.0 * (1 + 1e-12)
    by_zcdp = strength_for(epsilon_to_rho(8.0, 1e-5), tokens, 2.0, factor)
    assert by_zcdp < strength
    concentrated = ZeroConcentratedAccountant(Adjacency.ADD_OR_REMOVE_ONE).compose(event, tokens)
    assert concentrated.epsilon(1e-5) > 8.0


def test_the_factor_divides_the_strength() -> None:
    assert strength_for(1.0, 10, 1.0, 4) == pytest.approx(strength_for(1.0, 10, 1.0, 1) / 4)
    assert strength_for(1.0, 10, 5.0, 1) == pytest.approx(strength_for(1.0, 10, 1.0, 1) / 5)


@pytest.mark.parametrize("target", [1e-6, 0.3, 1e6])
def test_largest_strength_of_a_plain_function(target: float) -> None:
    found = largest_strength(lambda strength: strength**3, target)
    assert found**3 <= target
    assert found == pytest.approx(target ** (1 / 3), rel=1e-9)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: strength_for(0.0, 1, 1.0, 1), "rho"),
        (lambda: strength_for(1.0, 0, 1.0, 1), "tokens"),
        (lambda: strength_for(1.0, 1, 0.0, 1), "utility_range"),
        (lambda: strength_for(1.0, 1, 1.0, 0), "factor"),
        (lambda: strength_for(1.0, 1, 1.0, 1.5), "factor"),
        (lambda: exact_strength_for(0.0, 1e-5, 1, 1.0, 1), "epsilon"),
        (lambda: exact_strength_for(1.0, 1.0, 1, 1.0, 1), "delta"),
        (lambda: largest_strength(lambda strength: strength, 0.0), "epsilon"),
    ],
)
def test_arguments_outside_their_range(call, name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        call()
