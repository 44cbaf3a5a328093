"""Intervals hold the true number as often as they say."""

import pytest

from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, SeededRandomness
from dpicl_rag.results import Estimate, Share

SEEDS = 500


@pytest.fixture
def coins():
    with pytest.warns(NotPrivateWarning):
        return SeededRandomness(1)


@pytest.mark.parametrize("sigma", [4.0, 11.3])
def test_the_interval_of_a_count_holds_exactly_95_in_100(sigma):
    noise = DiscreteGaussian(sigma)
    found = Estimate.of(1000, noise)
    assert found.units == 1000
    assert found.high - 1000 == 1000 - found.low
    outside = 2 * noise.tail(found.high - 1000 + 1)
    assert 0.03 < outside <= 0.05


@pytest.mark.one_in(2)
@pytest.mark.parametrize("sigma", [12.0, 25.0])
def test_and_in_500_draws(sigma, coins):
    noise = DiscreteGaussian(sigma)
    drawn = [Estimate.of(300 + noise.draw(coins), noise) for _ in range(SEEDS)]
    assert 0.93 <= sum(one.low <= 300 <= one.high for one in drawn) / SEEDS <= 0.97


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_and_of_a_sample(rate, coins):
    noise, inside = DiscreteGaussian(4.0), 0
    for _ in range(SEEDS):
        asked = sum(coins.uniform() < rate for _ in range(600))
        found = Estimate.of(asked + noise.draw(coins), noise, rate)
        inside += found.low <= 600 <= found.high
    # Wider by the noise that may have been on the count.
    assert 0.93 <= inside / SEEDS <= 0.985


def test_no_number_is_below_zero_and_none_is_hidden():
    found = Estimate.of(-30, DiscreteGaussian(4.0))
    assert (found.units, found.low, found.high) == (0, 0, 0)
    assert str(Estimate(1200, 1190, 1210)) == "about 1,200 (1,190 to 1,210)"


def test_a_share_combines_both_intervals():
    found = Share.of(Estimate(50, 40, 60), Estimate(200, 190, 210))
    assert found == Share(0.25, 40 / 210, 60 / 190)
    assert str(found) == "25% (19% to 32%)"
    assert Share.of(Estimate(0, 0, 3), Estimate(0, 0, 4)) == Share(0.0, 0.0, 1.0)
    assert Share.of(Estimate(9, 8, 10), Estimate(8, 7, 9)).part == 1.0
