"""The strength that a budget pays for is the largest, and never over it."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl_rag.accounting import (
    Adjacency,
    BoundedRange,
    Budget,
    RenyiAccountant,
    Stability,
    ZeroConcentratedAccountant,
    bounded_range_strength,
    largest_strength,
    rho_to_epsilon,
    strength_for,
)
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.privacy_filters import FixedFilter


def of_rho(rho: float, factor: int = 1) -> Budget:
    """A budget that leaves about ``rho`` for the draws, for units that reach so far."""
    return Budget(rho_to_epsilon(rho, 1e-5), 1e-5, stability=Stability(factor, 0))


@given(st.floats(1e-6, 50), st.integers(1, 3000), st.floats(1e-3, 100), st.integers(1, 8))
def test_tokens_spend_the_budget_and_no_more(
    rho: float, tokens: int, utility_range: float, factor: int
) -> None:
    budget = of_rho(rho, factor)
    rho = budget.rho
    reach = strength_for(budget, tokens, utility_range) * utility_range * factor
    cost = reach * reach / 8
    assert Fraction(cost) * tokens <= Fraction(rho)
    summed = 0.0
    for _ in range(tokens):
        summed += cost
    assert rho * (1 - 1e-11) <= summed <= rho


def test_a_filter_pays_for_every_token_and_no_other() -> None:
    budget = Budget(8.0, 1e-5)
    spend = FixedFilter(budget.rho, strength_for(budget, 64, 1.0) ** 2 / 8)
    for _ in range(64):
        spend.pay()
    assert not spend.can_pay()


@pytest.mark.parametrize(("tokens", "gain"), [(2, 1.818), (16, 1.058), (64, 1.013)])
@pytest.mark.parametrize("factor", [1, 2])
def test_exact_calibration_meets_its_target(tokens: int, gain: float, factor: int) -> None:
    stability = Stability(factor, 0)
    strength = bounded_range_strength(Budget(8.0, 1e-5, stability=stability, queries=tokens), 2.0)
    event = BoundedRange(strength * 2.0 * factor)
    accountant = RenyiAccountant(Adjacency.ADD_OR_REMOVE_ONE).compose(event, tokens)
    assert 8.0 * (1 - 1e-9) <= accountant.epsilon(1e-5) <= 8.0 * (1 + 1e-12)
    by_zcdp = strength_for(Budget(8.0, 1e-5, stability=stability), tokens, 2.0)
    assert strength / by_zcdp == pytest.approx(gain, abs=0.001)
    concentrated = ZeroConcentratedAccountant(Adjacency.ADD_OR_REMOVE_ONE).compose(event, tokens)
    assert concentrated.epsilon(1e-5) > 8.0


def test_the_factor_divides_the_strength() -> None:
    one = strength_for(of_rho(1.0), 10, 1.0)
    assert strength_for(of_rho(1.0, 4), 10, 1.0) == pytest.approx(one / 4)
    assert strength_for(of_rho(1.0), 10, 5.0) == pytest.approx(one / 5)


@pytest.mark.parametrize("target", [1e-6, 0.3, 1e6])
def test_largest_strength_of_a_plain_function(target: float) -> None:
    found = largest_strength(lambda strength: strength**3, target)
    assert found**3 <= target
    assert found == pytest.approx(target ** (1 / 3), rel=1e-9)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: strength_for(Budget(1.0, 1e-5, search_rho=5.0), 1, 1.0), "search costs more"),
        (lambda: strength_for(of_rho(1.0), 0, 1.0), "draws"),
        (lambda: strength_for(of_rho(1.0), 1, 0.0), "utility_range"),
        (lambda: strength_for(of_rho(1.0, 0), 1, 1.0), "factor"),
        (lambda: strength_for(of_rho(1.0, 1.5), 1, 1.0), "factor"),
        (lambda: largest_strength(lambda strength: strength, 0.0), "epsilon"),
    ],
)
def test_arguments_outside_their_range(call, name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        call()
