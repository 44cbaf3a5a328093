"""Laplace noise and its coins have the distribution that their charge is computed for."""

import math
from collections import Counter
from fractions import Fraction

import pytest
from scipy import stats

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms import discrete_noise
from dpicl_rag.mechanisms.discrete_noise import DiscreteLaplace, bernoulli_exp, discrete_laplace
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, SeededRandomness
from tests.support.scored_units import Choose, distribution
from tests.support.tried_coins import OneRound, Tried, given_an_end, ideal_bernoulli, one_round


@pytest.mark.parametrize(
    "exponent", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(5, 4), Fraction(2)]
)
def test_bernoulli_exactly(exponent: Fraction) -> None:
    found = distribution(lambda choose: bernoulli_exp(exponent, Tried(choose)), 1e-4)
    missing = 1 - math.fsum(found.values())
    assert missing < 0.02
    assert -1e-12 <= math.exp(-exponent) - found[True] <= missing + 1e-12


@pytest.mark.parametrize("scale", [1, 3, 4, Fraction(7, 2), Fraction(3, 5), Fraction(5, 4)])
def test_laplace_exactly(scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Fraction(scale).numerator

    def run(choose: Choose) -> int:
        ideal_bernoulli(monkeypatch, discrete_noise, choose)
        return discrete_laplace(scale, OneRound(choose, steps))

    found = given_an_end(distribution(lambda choose: one_round(run, choose), 1e-13))
    weight = math.tanh(1 / (2 * scale))
    for x in range(-math.ceil(5 * scale), math.ceil(5 * scale) + 1):
        assert found[x] == pytest.approx(weight * math.exp(-abs(x) / scale), abs=1e-11)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5, Fraction(1, 13)])
def test_laplace_by_chi_square(epsilon: float) -> None:
    draws = 4_000
    with pytest.warns(NotPrivateWarning):
        coins = SeededRandomness(7)
    noise = DiscreteLaplace(epsilon)
    counts = Counter(noise.draw(coins) for _ in range(draws))
    price = float(noise.epsilon)
    weight = math.tanh(price / 2)
    reach = range(-math.ceil(40 / price), math.ceil(40 / price) + 1)
    pmf = {x: weight * math.exp(-price * abs(x)) for x in reach}
    inside = [x for x in pmf if pmf[x] * draws >= 5]
    observed = [*(counts[x] for x in inside), draws - sum(counts[x] for x in inside)]
    expected = [*(pmf[x] * draws for x in inside), draws - sum(pmf[x] * draws for x in inside)]
    assert stats.chisquare(observed, expected).pvalue > 1e-2


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan, Fraction(0), Fraction(-1, 3)])
def test_epsilon_out_of_range(epsilon: float) -> None:
    with pytest.raises(ConfigurationError, match="epsilon must be a finite number above 0"):
        DiscreteLaplace(epsilon)


def test_a_float_is_the_fraction_that_it_is() -> None:
    assert DiscreteLaplace(0.1).epsilon == Fraction(0.1)
    assert repr(DiscreteLaplace(0.25)) == "DiscreteLaplace(epsilon=0.25)"
