"""Closed forms against a search for the worst distribution, and against 60-digit arithmetic."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl_rag.accounting import pure_dp, renyi_curves
from dpicl_rag.accounting.events import (
    BoundedRange,
    Composed,
    Gaussian,
    PoissonSubsampled,
    PureDP,
    SelfComposed,
    ZeroConcentrated,
)
from dpicl_rag.accounting.renyi_curves import renyi_curve
from dpicl_rag.errors import ConfigurationError
from tests.contracts.accountant import Pair, pure_pairs

ORDERS = (1.01, 1.5, 2.0, 3.7, 8.0, 40.0)
positive = st.floats(-6, 2).map(lambda power: 10**power)
above_one = st.floats(-4, 6).map(lambda power: 1 + 10**power)


def divergence(first: np.ndarray, second: np.ndarray, alpha: float) -> float:
    return math.log(float((first**alpha * second ** (1 - alpha)).sum())) / (alpha - 1)


def either_way(pair: Pair, alpha: float) -> float:
    return max(
        divergence(pair.first, pair.second, alpha), divergence(pair.second, pair.first, alpha)
    )


def exact_bounded_range(epsilon: float, alpha: float) -> float:
    """Largest over t of the two-outcome divergence, in 60 digits."""
    with mpmath.workdps(60):
        e, a = mpmath.mpf(epsilon), mpmath.mpf(alpha)

        def at(t: mpmath.mpf) -> mpmath.mpf:
            chance = (1 - mpmath.exp(t - e)) / (mpmath.exp(t) - mpmath.exp(t - e))
            mean = chance * mpmath.exp(a * t) + (1 - chance) * mpmath.exp(a * (t - e))
            return mpmath.log(mean) / (a - 1)

        low, high = mpmath.mpf(0), e
        golden = (mpmath.sqrt(5) - 1) / 2
        for _ in range(110):
            left, right = high - golden * (high - low), low + golden * (high - low)
            low, high = (left, high) if at(left) < at(right) else (low, right)
        return float(at((low + high) / 2))


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("epsilon", "above"),
    [
        (epsilon, above)
        for epsilon in (1e-9, 1e-4, 0.378, 0.99, 1.01, 5.0, 80.0)
        for above in (1e-6, 0.01, 1.0, 2.5, 30.0, 1e4, 1e9)
        # Beyond, the reference search runs out of digits.
        if epsilon * above < 1e6
    ],
)
def test_bounded_range_is_exact(epsilon: float, above: float) -> None:
    exact = exact_bounded_range(epsilon, 1 + above)
    assert renyi_curves.bounded_range_renyi(epsilon, 1 + above) == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("alpha", ORDERS)
def test_no_distribution_of_that_range_is_worse(alpha: float) -> None:
    """Random distributions on five outcomes, their log ratios stretched to the whole range."""
    generator = np.random.default_rng(7)
    claim = renyi_curves.bounded_range_renyi(1.3, alpha)
    largest = 0.0
    for _ in range(500):
        second = generator.dirichlet(np.full(5, 0.5)) + 1e-12
        scores = generator.uniform(size=5) ** 4
        scores = 1.3 * (scores - scores.min()) / (scores.max() - scores.min())
        first = second * np.exp(scores)
        first, second = first / first.sum(), second / second.sum()
        largest = max(largest, either_way(Pair(first, second), alpha))
    assert 0.5 * claim < largest <= claim * (1 + 1e-9)


@given(positive, above_one)
def test_bounds_on_bounded_range(epsilon: float, alpha: float) -> None:
    value = renyi_curves.bounded_range_renyi(epsilon, alpha)
    assert 0 < value <= min(epsilon, alpha * epsilon**2 / 8) * (1 + 1e-12)
    assert value <= pure_dp.renyi(epsilon, alpha) * (1 + 1e-12)
    # An epsilon-DP mechanism is 2 epsilon bounded-range.
    assert pure_dp.renyi(epsilon, alpha) <= renyi_curves.bounded_range_renyi(2 * epsilon, alpha) * (
        1 + 1e-12
    )


@given(positive, above_one)
def test_pure_dp_is_below_its_zcdp(epsilon: float, alpha: float) -> None:
    value = pure_dp.renyi(epsilon, alpha)
    assert 0 < value <= min(epsilon, alpha * pure_dp.zcdp(epsilon)) * (1 + 1e-12)
    assert pure_dp.zcdp(epsilon) <= epsilon**2 / 2


@given(positive, above_one, st.floats(1.001, 3))
def test_curves_rise_with_the_order(epsilon: float, alpha: float, factor: float) -> None:
    for curve in (renyi_curves.bounded_range_renyi, pure_dp.renyi):
        assert curve(epsilon, alpha * factor) >= curve(epsilon, alpha) * (1 - 1e-12)


@pytest.mark.parametrize("curve", [renyi_curves.bounded_range_renyi, pure_dp.renyi])
def test_ends(curve) -> None:
    assert curve(0.0, 3.0) == 0
    assert curve(2.0, 1e18) == pytest.approx(2.0)
    assert curve(1e4, 2.0) == pytest.approx(1e4, rel=1e-3)
    assert curve(0.5, 1.0) == pytest.approx(curve(0.5, 1 + 1e-9), rel=1e-6)
    assert curve(1e-8, 1.0) > 0
    with pytest.raises(ConfigurationError, match="alpha"):
        curve(1.0, 0.5)
    with pytest.raises(ConfigurationError, match="epsilon"):
        curve(-1.0, 2.0)


@pytest.mark.parametrize("alpha", ORDERS)
def test_pure_dp_is_randomised_response(alpha: float) -> None:
    (pair,) = pure_pairs(0.7)
    assert pure_dp.renyi(0.7, alpha) == pytest.approx(either_way(pair, alpha), rel=1e-12)


def test_delta_of_pure_dp() -> None:
    (pair,) = pure_pairs(0.7)
    for epsilon in (0.0, 0.3, 0.7, 1.0):
        assert pure_dp.delta(0.7, epsilon) == pytest.approx(pair.delta(epsilon), abs=1e-15)
    assert pure_dp.epsilon(0.7, pure_dp.delta(0.7, 0.3)) == pytest.approx(0.3)
    assert pure_dp.epsilon(0.7, 0.9) == 0
    assert pure_dp.epsilon(2000.0, 1e-6) == pytest.approx(2000.0, rel=1e-6)


@pytest.mark.parametrize("rate", [0.001, 0.2, 0.999])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 500.0])
def test_amplified_epsilon(epsilon: float, rate: float) -> None:
    with mpmath.workdps(60):
        exact = float(mpmath.log(1 + mpmath.mpf(rate) * (mpmath.exp(epsilon) - 1)))
    assert pure_dp.amplified_epsilon(epsilon, rate) == pytest.approx(exact, rel=1e-12)


def test_ends_of_the_rate() -> None:
    for epsilon in (1.0, 1e4):
        assert pure_dp.amplified_epsilon(epsilon, 0.0) == 0
        assert pure_dp.amplified_epsilon(epsilon, 1.0) == pytest.approx(epsilon)


def test_a_subsample_has_no_curve() -> None:
    with pytest.raises(ConfigurationError, match="no Renyi curve"):
        renyi_curve(PoissonSubsampled(0.5, PureDP(1.0)))


def test_curve_of_a_tree_is_the_sum_of_its_leaves() -> None:
    tree = Composed(
        (SelfComposed(BoundedRange(0.4), 3), PureDP(0.2), Gaussian(2.0), ZeroConcentrated(0.1))
    )
    expected = (
        3 * renyi_curves.bounded_range_renyi(0.4, 5.0) + pure_dp.renyi(0.2, 5.0) + 5 / 8 + 0.5
    )
    assert renyi_curve(tree)(5.0) == pytest.approx(expected)
