"""Samples of a fixed size: the profile against enumeration, and its composition against both."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from dpicl_rag.accounting import (
    Adjacency,
    BoundedRange,
    FixedSizeSubsampled,
    Gaussian,
    PoissonSubsampled,
    PrivacyLossAccountant,
    SelfComposed,
)
from dpicl_rag.accounting.conversion import gaussian_delta
from dpicl_rag.errors import ConfigurationError

REPLACE = Adjacency.REPLACE_ONE
GRID = np.linspace(-12.0, 14.0, 26_001)


def output(pool: tuple[float, ...], size: int, sigma: float) -> np.ndarray:
    """Density of a noisy sum over a sample of a pool, every subset enumerated."""
    subsets = list(itertools.combinations(pool, size))
    return np.mean([norm.pdf(GRID, sum(subset), sigma) for subset in subsets], axis=0)


def delta_between(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    step = GRID[1] - GRID[0]
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * step)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("sigma", [0.5, 1.0])
def test_the_profile_holds_for_all_subsets_of_six_and_is_met(size, sigma):
    event = FixedSizeSubsampled(size / 6, Gaussian(sigma))
    epsilons = np.array([-2.0, -0.5, -0.1, 0.0, 0.1, 0.5, 1.0, 2.0, 4.0])
    claimed = event.deltas(epsilons)
    largest = np.zeros(len(epsilons))
    others = [(0.0,) * 5, (1.0,) * 5, (0.0, 1.0, 0.0, 1.0, 1.0), (0.2, 0.9, 0.5, 0.0, 1.0)]
    for rest in others:
        p, q = (output((*rest, own), size, sigma) for own in (1.0, 0.0))
        for one, other in ((p, q), (q, p)):
            largest = np.maximum(largest, [delta_between(one, other, e) for e in epsilons])
    assert (largest <= claimed + 1e-6).all()
    # Where all others hold what the unit is replaced by, the profile is met.
    upper = epsilons >= 0
    assert largest[upper] == pytest.approx(claimed[upper], abs=1e-6)


def test_without_sampling_it_is_the_gaussian():
    event = FixedSizeSubsampled(1.0, Gaussian(2.0))
    for epsilon in (0.0, 0.3, 1.0):
        found = float(event.deltas(np.array([epsilon]))[0])
        assert found == pytest.approx(gaussian_delta(0.5, epsilon), rel=1e-9)


@pytest.mark.parametrize("count", [1, 2])
def test_composition_is_above_what_neighbours_show_and_near_it(count):
    size, sigma = 2, 1.0
    accountant = PrivacyLossAccountant(REPLACE).compose(
        FixedSizeSubsampled(size / 6, Gaussian(sigma)), count
    )
    coarse = slice(None, None, 20)
    p, q = (output((0.0,) * 5 + (own,), size, sigma)[coarse] for own in (1.0, 0.0))
    step = GRID[20] - GRID[0]
    for _ in range(count - 1):
        p, q = np.outer(p, p).ravel(), np.outer(q, q).ravel()
    for epsilon in (0.1, 0.5, 1.0):
        shown = np.maximum(p - math.exp(epsilon) * q, 0).sum() * step**count
        claimed = accountant.delta(epsilon)
        assert shown <= claimed * (1 + 1e-4)
        assert claimed <= 1.2 * shown


def test_a_planted_fault_shows():
    """The profile of Poisson samples, of sensitivity 1 in place of a change, would be too small."""
    p, q = (output((0.0,) * 5 + (own,), 2, 0.5) for own in (1.0, -1.0))
    wrong = FixedSizeSubsampled(2 / 6, Gaussian(0.5)).deltas(np.array([1.0]))[0]
    right = FixedSizeSubsampled(2 / 6, Gaussian(0.25)).deltas(np.array([1.0]))[0]
    assert wrong < delta_between(p, q, 1.0) <= right


def test_each_kind_of_sample_has_its_own_neighbours():
    fixed, poisson = FixedSizeSubsampled(0.1, Gaussian(1.0)), PoissonSubsampled(0.1, Gaussian(1.0))
    with pytest.raises(ConfigurationError, match="fixed size amplify under replace-one"):
        PrivacyLossAccountant(Adjacency.ADD_OR_REMOVE_ONE).compose(SelfComposed(fixed, 3))
    with pytest.raises(ConfigurationError, match="Poisson subsampling"):
        PrivacyLossAccountant(REPLACE).compose(SelfComposed(poisson, 3))


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.1, math.nan])
def test_a_fraction_is_one(fraction):
    with pytest.raises(ConfigurationError):
        FixedSizeSubsampled(fraction, Gaussian(1.0))


def test_other_events_have_no_profile():
    with pytest.raises(ConfigurationError, match="Gaussian noise only"):
        FixedSizeSubsampled(0.1, BoundedRange(1.0))
