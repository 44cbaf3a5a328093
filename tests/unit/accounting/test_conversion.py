"""Conversions against 60-digit arithmetic, dp_accounting, and each other."""

import math

import dp_accounting
import mpmath
import pytest
from dp_accounting import rdp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from dpicl_rag.accounting import (
    bounded_range_to_rho,
    epsilon_to_rho,
    renyi_to_delta,
    renyi_to_epsilon,
    rho_to_delta,
    rho_to_epsilon,
)
from dpicl_rag.errors import ConfigurationError

rhos = st.floats(-12, 4).map(lambda power: 10**power)
epsilons = st.floats(-6, 4).map(lambda power: 10**power)
deltas = st.floats(-200, -0.01).map(lambda power: 10**power)


def exact_delta(rho: float, epsilon: float) -> mpmath.mpf:
    """The least of the bound over a search in 60 digits."""
    with mpmath.workdps(60):
        rho, epsilon = mpmath.mpf(rho), mpmath.mpf(epsilon)

        def log_bound(log_x: mpmath.mpf) -> mpmath.mpf:
            x = mpmath.e**log_x
            return x * ((1 + x) * rho - epsilon) - mpmath.log(x) + (1 + x) * mpmath.log(x / (1 + x))

        low, high = mpmath.mpf(-60), mpmath.mpf(60)
        golden = (mpmath.sqrt(5) - 1) / 2
        for _ in range(120):
            left, right = high - golden * (high - low), low + golden * (high - low)
            low, high = (low, right) if log_bound(left) < log_bound(right) else (left, high)
        return min(mpmath.mpf(1), mpmath.e ** log_bound((low + high) / 2))


@pytest.mark.parametrize(
    ("rho", "epsilon"),
    [(1e-6, 0.01), (0.01, 0.5), (0.1, 0.0), (1.23, 8.0), (1.23, 0.1), (30.0, 60.0), (5.0, 3.0)],
)
def test_rho_to_delta_is_the_least_of_the_bound(rho: float, epsilon: float) -> None:
    assert rho_to_delta(rho, epsilon) == pytest.approx(float(exact_delta(rho, epsilon)), rel=1e-11)


def test_known_figures() -> None:
    assert epsilon_to_rho(8, 1e-5) == pytest.approx(1.229715, abs=1e-6)
    assert rho_to_epsilon(100 * bounded_range_to_rho(0.378), 1e-5) == pytest.approx(
        10.011, abs=1e-3
    )
    assert bounded_range_to_rho(2.0) == 0.5


@given(rhos, deltas)
def test_epsilon_and_delta_are_inverse(rho: float, delta: float) -> None:
    epsilon = rho_to_epsilon(rho, delta)
    if epsilon > 0:
        assert math.log(rho_to_delta(rho, epsilon)) == pytest.approx(math.log(delta), rel=1e-8)
    else:
        assert rho_to_delta(rho, 0.0) <= delta * (1 + 1e-9)


@given(epsilons, deltas)
def test_rho_is_the_largest_and_rounded_down(epsilon: float, delta: float) -> None:
    rho = epsilon_to_rho(epsilon, delta)
    assert rho_to_epsilon(rho, delta) <= epsilon
    step = 0.0 if rho < 1e-9 else 1e-9
    assert rho_to_epsilon((rho + step) * (1 + 1e-7), delta) > epsilon


@given(epsilons, deltas)
def test_rho_is_a_whole_number_of_nano_rho_from_one_on(epsilon: float, delta: float) -> None:
    rho = epsilon_to_rho(epsilon, delta)
    assert 0 < rho < 1e-9 or rho == round(rho * 1e9) / 10**9


@given(rhos, deltas, st.floats(1.001, 10))
def test_monotone(rho: float, delta: float, factor: float) -> None:
    assert rho_to_epsilon(rho * factor, delta) >= rho_to_epsilon(rho, delta)
    assert rho_to_epsilon(rho, min(delta * factor, 0.999)) <= rho_to_epsilon(rho, delta)


@given(rhos, deltas)
@settings(max_examples=50)
def test_a_linear_curve_is_zcdp(rho: float, delta: float) -> None:
    epsilon = renyi_to_epsilon(lambda alpha: alpha * rho, delta)
    assert epsilon == pytest.approx(rho_to_epsilon(rho, delta), rel=1e-6, abs=1e-9)
    assert renyi_to_delta(lambda alpha: alpha * rho, 1.0) == pytest.approx(
        rho_to_delta(rho, 1.0), rel=1e-6, abs=1e-300
    )


@pytest.mark.parametrize("rho", [0.001, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-5, 1e-2])
def test_agrees_with_dp_accounting_and_is_never_looser(rho: float, delta: float) -> None:
    """dp_accounting searches a list of orders only."""
    reference = rdp.RdpAccountant(
        orders=[1 + 1.02**power for power in range(-200, 700)],
        neighboring_relation=dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
    )
    expected = reference.compose(dp_accounting.ZCDpEvent(rho)).get_epsilon(delta)
    assert rho_to_epsilon(rho, delta) <= expected * (1 + 1e-9)
    assert rho_to_epsilon(rho, delta) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("rho", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_never_below_gaussian_noise_of_the_same_rho(rho: float, epsilon: float) -> None:
    shift = math.sqrt(2 * rho)
    exact = norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * norm.cdf(
        -shift / 2 - epsilon / shift
    )
    assert rho_to_delta(rho, epsilon) >= exact


def test_ends_of_the_ranges() -> None:
    assert rho_to_epsilon(0.0, 1e-5) == 0
    assert rho_to_delta(0.0, 0.0) == 0
    assert rho_to_epsilon(math.inf, 1e-5) == math.inf
    assert rho_to_delta(math.inf, 3.0) == 1
    assert rho_to_delta(3.0, math.inf) == 0
    assert rho_to_delta(1e6, 0.0) == 1
    assert 0 < rho_to_epsilon(1e-300, 1e-300) < 1e-100
    assert rho_to_epsilon(1e12, 1e-12) >= 1e12
    assert renyi_to_epsilon(lambda alpha: 0.0, 1e-5) == 0
    assert renyi_to_delta(lambda alpha: 0.0, 0.0) == 0
    assert renyi_to_epsilon(lambda alpha: math.inf, 1e-5) == math.inf
    assert renyi_to_delta(lambda alpha: math.inf, 5.0) == 1


def test_a_curve_that_ends_is_used_where_it_is_finite() -> None:
    epsilon = renyi_to_epsilon(lambda alpha: alpha * 0.1 if alpha < 3 else math.inf, 1e-5)
    at_three = 0.3 + math.log(1e5) / 2 + 1.5 * math.log(2 / 3) - math.log(2) / 2
    assert epsilon == pytest.approx(at_three, rel=1e-4)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: rho_to_delta(-1, 1), "rho"),
        (lambda: rho_to_delta(1, -1), "epsilon"),
        (lambda: rho_to_epsilon(math.nan, 0.1), "rho"),
        (lambda: rho_to_epsilon(1, 0), "delta"),
        (lambda: epsilon_to_rho(0, 0.1), "epsilon"),
        (lambda: epsilon_to_rho(math.inf, 0.1), "epsilon"),
        (lambda: epsilon_to_rho(1, 1), "delta"),
        (lambda: renyi_to_epsilon(lambda alpha: alpha, math.nan), "delta"),
        (lambda: renyi_to_delta(lambda alpha: alpha, -1), "epsilon"),
        (lambda: bounded_range_to_rho(-0.1), "epsilon"),
    ],
)
def test_arguments_outside_their_range(call, name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        call()
