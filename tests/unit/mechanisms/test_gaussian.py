"""The noise has the distribution that its charge is computed for."""

import math
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms import discrete_noise, randomness
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, Randomness, SeededRandomness
from tests.support.scored_units import Choose, distribution
from tests.support.tried_coins import Again, Tried, given_an_end, ideal_bernoulli, one_round


def seeded() -> Randomness:
    with pytest.warns(NotPrivateWarning):
        return SeededRandomness(7)


def grid_pmf(sigma: float) -> dict[int, float]:
    """The Gaussian on whole numbers."""
    reach = math.ceil(12 * sigma)
    weights = {x: math.exp(-x * x / (2 * sigma * sigma)) for x in range(-reach, reach + 1)}
    total = math.fsum(weights.values())
    return {x: weight / total for x, weight in weights.items()}


@pytest.mark.parametrize("sigma", [0.3, 0.7, 1.0, 2.5, 3.0])
def test_gaussian_exactly(sigma: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(choose: Choose) -> int:
        ideal_bernoulli(monkeypatch, discrete_noise, choose)
        rounds = 0

        def laplace(scale: int, randomness: Randomness) -> int:
            nonlocal rounds
            rounds += 1
            if rounds > 1:
                raise Again
            weight = math.tanh(1 / (2 * scale))
            return choose(
                [(x, weight * math.exp(-abs(x) / scale)) for x in range(-40 * scale, 40 * scale)]
            )

        monkeypatch.setattr(discrete_noise, "discrete_laplace", laplace)
        return DiscreteGaussian(sigma).draw(Tried(choose))

    found = given_an_end(distribution(lambda choose: one_round(run, choose)))
    pmf = grid_pmf(sigma)
    for x in range(-math.ceil(6 * sigma), math.ceil(6 * sigma) + 1):
        assert found[x] == pytest.approx(pmf[x], rel=1e-9)


def rounded(sigma: float, grain: int, monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """The law of the noise, rounded from a grid of so many parts."""
    law: dict[int, float] = Counter()
    monkeypatch.setattr(discrete_noise, "_GRID", grain)
    for x, chance in grid_pmf(sigma * grain).items():
        monkeypatch.setattr(discrete_noise, "discrete_gaussian", lambda *_, x=x: x)
        law[DiscreteGaussian(sigma, fine=True).draw(Randomness())] += chance
    return law


def dearest(law: dict[int, float]) -> float:
    """The least mu for which a count with such noise on it is mu-GDP, where a unit moves it by 1.

    The best tests between neighbours say "there" from some noisy count on. Randomised between two
    of them they lie on straight lines, and a Gaussian trade-off curve, which is convex, is below
    all of these where it is below their ends (docs/privacy.md, "Budgets for Gaussian noise").
    """
    quantiles, above = [], 0.0
    for x in sorted(law, reverse=True):
        above += law[x]
        if 1e-12 < above < 0.5:
            quantiles.append(stats.norm.isf(above))
    # Both tails are alike, and the quantile of "0 or more" is that of "1 or more" below 0.
    return max(2 * quantiles[-1], -float(np.diff(quantiles).min(initial=0.0)))


@pytest.mark.parametrize("sigma", [0.5, 0.8, 1.0, 2.0, 5.0])
def test_on_a_fine_grid_it_is_as_private_as_the_continuous_gaussian(
    sigma: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of odd numbers of parts none lies halfway between two whole numbers.
    for parts in (1, 3, 9, 27):
        more = dearest(rounded(sigma, parts, monkeypatch)) * sigma - 1
        assert more == pytest.approx(1 / (24 * (sigma * parts) ** 2), rel=0.5)
    monkeypatch.undo()
    assert discrete_noise._GRID >= 2**24


@pytest.mark.parametrize("sigma", [1.0, 3.0, 7.5])
def test_gaussian_by_chi_square(sigma: float) -> None:
    draws = 4_000
    noise, coins = DiscreteGaussian(sigma), seeded()
    counts = Counter(noise.draw(coins) for _ in range(draws))
    pmf = grid_pmf(sigma)
    inside = [x for x in pmf if pmf[x] * draws >= 5]
    observed = [counts[x] for x in inside]
    expected = [pmf[x] * draws for x in inside]
    observed.append(draws - sum(observed))
    expected.append(draws - sum(expected))
    if expected[-1] < 5:
        observed[-2:] = [sum(observed[-2:])]
        expected[-2:] = [sum(expected[-2:])]
    # The seed is fixed; a sampler with a tenth too large fails.
    assert stats.chisquare(observed, expected).pvalue > 1e-2


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
def test_rho_bounds_the_divergence_of_neighbours_and_is_met(sigma: float) -> None:
    reach = range(-60, 61)
    log_total = math.log(math.fsum(math.exp(-x * x / (2 * sigma**2)) for x in reach))
    rho = DiscreteGaussian(sigma).rho
    for order in (1.01, 2.0, 4.0):
        logs = [-(order * x * x + (1 - order) * (x - 1) ** 2) / (2 * sigma**2) for x in reach]
        divergence = (math.log(math.fsum(map(math.exp, logs))) - log_total) / (order - 1)
        assert divergence <= order * rho + 1e-9
    # At a whole order the bound is met: the shifted sum runs over the same points of a grid.
    assert divergence == pytest.approx(4 * rho, rel=1e-6)


@pytest.mark.parametrize("sigma", [0.1, 1 / 3, 3.0, 7.5, 1e6])
def test_rho_is_rounded_up(sigma: float) -> None:
    value = Fraction(1) / (2 * Fraction(sigma) ** 2)
    rho = DiscreteGaussian(sigma).rho
    assert value <= Fraction(rho) <= value * (1 + Fraction(1, 2**50))


@pytest.mark.parametrize("sigma", [0, -1, math.inf, math.nan])
def test_sigma_out_of_range(sigma: float) -> None:
    with pytest.raises(ConfigurationError, match="sigma must be a finite number above 0"):
        DiscreteGaussian(sigma)


def test_numbers_come_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    noise, coins = DiscreteGaussian(3.0), seeded()
    assert len({noise.draw(Randomness()) for _ in range(50)}) > 3
    # In its place stand the numbers of a seed: every number must be one of them.
    monkeypatch.setattr(randomness.secrets, "randbelow", random.Random(7).randrange)
    drawn = [noise.draw(Randomness()) for _ in range(50)]
    assert drawn == [noise.draw(coins) for _ in range(50)]
    assert repr(noise) == "DiscreteGaussian(sigma=3)"


def test_equal_scales_are_equal_noise():
    assert DiscreteGaussian(2.5) == DiscreteGaussian(2.5) != DiscreteGaussian(2.6)
    assert len({DiscreteGaussian(2.5), DiscreteGaussian(2.5)}) == 1
    assert DiscreteGaussian(2.5) != 2.5
    assert DiscreteGaussian(2.5) != DiscreteGaussian(2.5, fine=True)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.7, 40.0])
def test_the_tail_of_a_fine_grid_is_exact_and_rounded_up(
    sigma: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    law, far = rounded(sigma, 64, monkeypatch), math.ceil(6 * sigma)
    noise = DiscreteGaussian(sigma, fine=True)
    for least in (-3, 0, 1, 2, far):
        exact = math.fsum(chance for x, chance in law.items() if x >= least)
        point = 1 + (max(0, least) / sigma + 1) / (32 * sigma)  # of that grid
        assert exact <= noise.tail(least) <= exact * point + 1e-300
    monkeypatch.undo()
    assert noise.tail(far) == pytest.approx(stats.norm.sf((far - 0.5) / sigma), rel=1e-5)
