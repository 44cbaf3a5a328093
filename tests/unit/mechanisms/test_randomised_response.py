"""Randomised response sends what its epsilon says, exactly."""

import math
from fractions import Fraction

import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms import discrete_noise
from dpicl_rag.mechanisms.discrete_noise import RandomisedResponse
from tests.support.scored_units import distribution
from tests.support.tried_coins import OneRound, given_an_end, ideal_bernoulli, one_round

CASES = [(2, Fraction(1)), (2, Fraction(1, 13)), (5, Fraction(2)), (9, Fraction(0.1))]


def reports(size, epsilon, value, monkeypatch, response=RandomisedResponse):
    """Exact distribution of the sampler, from every outcome of its coins."""

    def run(choose):
        ideal_bernoulli(monkeypatch, discrete_noise, choose)
        return response(size, epsilon).draw(value, OneRound(choose, size))

    return given_an_end(distribution(lambda choose: one_round(run, choose)))


def loss(size, epsilon, monkeypatch, response=RandomisedResponse):
    """Largest log ratio of a report's chances under two values."""
    every = [reports(size, epsilon, value, monkeypatch, response) for value in range(size)]
    return max(
        math.log(one[report] / other[report])
        for one in every
        for other in every
        for report in range(size)
    )


@pytest.mark.parametrize(("size", "epsilon"), CASES)
def test_any_two_values_differ_by_epsilon_and_no_less(size, epsilon, monkeypatch):
    found = reports(size, epsilon, 1, monkeypatch)
    response = RandomisedResponse(size, epsilon)
    for report in range(size):
        expected = response.kept if report == 1 else response.other
        assert found[report] == pytest.approx(expected, rel=1e-12)
    assert loss(size, epsilon, monkeypatch) == pytest.approx(float(epsilon), rel=1e-9)


def test_a_planted_fault_is_found(monkeypatch):
    class Eager(RandomisedResponse):
        """Asks for the true value once more before it gives another."""

        def draw(self, value, randomness):
            drawn = super().draw(value, randomness)
            again = randomness.choose([(1, 0.5), (0, 0.5)])
            return value if drawn != value and again else drawn

    epsilon = Fraction(1)
    assert loss(4, epsilon, monkeypatch, Eager) > 1.2 * float(epsilon)


def test_estimates_are_unbiased():
    response = RandomisedResponse(3, Fraction(1, 2))
    true = (10, 0, 5)
    expected = [
        sum(
            n * (response.kept if value == report else response.other)
            for value, n in enumerate(true)
        )
        for report in range(3)
    ]
    assert response.estimate(expected) == pytest.approx(true)
    small = RandomisedResponse(2, Fraction(1e-9))
    assert sum(small.estimate([3, 7])) == pytest.approx(10)


@pytest.mark.parametrize(("size", "epsilon"), [(1, 1), (0, 1), (2, 0), (2, -1)])
def test_out_of_range(size, epsilon):
    with pytest.raises(ConfigurationError):
        RandomisedResponse(size, Fraction(epsilon))
