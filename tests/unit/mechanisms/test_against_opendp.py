"""Noise, selection and accounting beside those of OpenDP's library, which shares no line with ours.

What both state exactly is compared to the digits that floats have; what OpenDP bounds may be larger
there. OpenDP takes no seed: its draws are compared at levels that chance reaches once in 10^8 runs.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import opendp.prelude as dp
import pytest
import torch
from opendp import accuracy, combinators, measurements, transformations
from scipy import stats

from dpicl_rag.accounting import bounded_range_to_rho, pure_dp, rho_to_delta, rho_to_epsilon
from dpicl_rag.accounting.accountants import ZeroConcentratedAccountant
from dpicl_rag.accounting.events import Gaussian, SelfComposed
from dpicl_rag.accounting.stability import DIRECT, Adjacency
from dpicl_rag.mechanisms.discrete_noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    RandomisedResponse,
)
from dpicl_rag.mechanisms.private_counts import Agreement, Histogram
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, SeededRandomness
from dpicl_rag.mechanisms.selection import flip_distribution

dp.enable_features("contrib", "honest-but-curious")

WHOLE = dp.atom_domain(T=int)
NUMBER = WHOLE, dp.absolute_distance(T=int)
KEYS = dp.map_domain(dp.atom_domain(T=str), WHOLE)
PURE = KEYS, dp.l01inf_distance(dp.absolute_distance(T=int))
CONCENTRATED = KEYS, dp.l02inf_distance(dp.absolute_distance(T=int))
SCORES = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(float, True)

ADD = Adjacency.ADD_OR_REMOVE_ONE
SIGMAS = [0.3, 1.0, 3.3, 40.0]
SELDOM = 1e-8
DRAWS, FEW = 3_000, 1_000


@pytest.mark.parametrize("rho", [0.001, 0.03056, 0.3731, 1.23, 5.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-5, 1e-2])
def test_zcdp_is_the_same_epsilon_and_delta(rho, delta):
    noise = measurements.make_gaussian(*NUMBER, scale=1 / math.sqrt(2 * rho))
    profile = combinators.make_zCDP_to_approxDP(noise).map(1)
    assert rho_to_epsilon(rho, delta) == pytest.approx(profile.epsilon(delta), rel=1e-12)
    # Where delta is nearly 1 OpenDP takes 1.
    if (ours := rho_to_delta(rho, 2.0)) < 0.5:
        assert ours == pytest.approx(profile.delta(2.0), rel=1e-12)


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("moved", [1, 3])
def test_gaussian_noise_costs_the_same(sigma, moved):
    theirs = measurements.make_gaussian(*NUMBER, scale=sigma)
    assert moved**2 * DiscreteGaussian(sigma).rho == pytest.approx(theirs.map(moved), rel=1e-14)
    paid = DiscreteGaussian.within(theirs.map(moved), moved)
    assert paid.sigma == pytest.approx(sigma, rel=1e-11)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_a_histogram_costs_what_its_l2_distance_costs(sigma):
    """A unit that says two of five labels moves two counts by one."""
    space = dp.vector_domain(WHOLE, size=5), dp.l2_distance(T=float)
    theirs = measurements.make_gaussian(*space, scale=sigma)
    ours = Histogram.within(theirs.map(math.sqrt(2)), 5, 2, DIRECT, ADD)
    assert ours.noise.sigma == pytest.approx(sigma, rel=1e-11)


@pytest.mark.parametrize("scale", SIGMAS)
def test_laplace_noise_costs_the_same(scale):
    theirs = measurements.make_laplace(*NUMBER, scale=scale)
    epsilon = float(DiscreteLaplace(1 / Fraction(scale)).epsilon)
    assert epsilon == pytest.approx(theirs.map(1), rel=1e-14)
    # OpenDP takes the closed bound for any pure mechanism; ours is the sharp one.
    bound = combinators.make_pureDP_to_zCDP(theirs).map(1)
    assert pure_dp.zcdp(epsilon) <= bound
    assert epsilon > 0.05 or pure_dp.zcdp(epsilon) == pytest.approx(bound, rel=1e-3)


@pytest.mark.parametrize("scale", SIGMAS)
@pytest.mark.parametrize("alpha", [0.5, 0.05, 1e-6])
def test_noise_reaches_as_far(scale, alpha):
    """The least whole number that noise is beyond, to either side, with probability alpha."""
    gaussian = accuracy.discrete_gaussian_scale_to_accuracy(scale, alpha)
    assert DiscreteGaussian(scale).least(alpha / 2) == gaussian
    laplace = accuracy.discrete_laplacian_scale_to_accuracy(scale, alpha)
    assert DiscreteLaplace(1 / scale).least(alpha / 2) == math.ceil(laplace)


@pytest.mark.parametrize("threshold", [3, 8, 15])
def test_tails_behind_a_threshold_are_the_same(threshold):
    """Delta of a key that one unit alone brings.

    OpenDP states P(1 + noise > t) for its threshold t, where its version 0.16 releases a count of t
    as well. Ours are released from T on, so the same number is that of T = t + 1.
    """
    theirs = measurements.make_laplace_threshold(*PURE, scale=1.0, threshold=threshold - 1)
    epsilon, delta = theirs.map((1, 1, 1))
    assert DiscreteLaplace(epsilon).tail(threshold - 1) == pytest.approx(delta, rel=1e-9)


def test_their_threshold_is_released_too():
    """What docs/proofs.md says of version 0.16. Where a later one differs, T above is t."""
    sharp = measurements.make_laplace_threshold(*PURE, scale=0.01, threshold=3)
    assert sharp({"a": 3, "b": 2}) == {"a": 3}
    theirs = measurements.make_laplace_threshold(*PURE, scale=1.0, threshold=3)
    assert theirs.map((1, 1, 1))[1] == pytest.approx(0.0364, abs=1e-4)
    assert DiscreteLaplace(1.0).tail(3 - 1) == pytest.approx(0.0989, abs=1e-4)


@pytest.mark.parametrize("keys", [1, 4])
@pytest.mark.parametrize(("rho", "delta"), [(0.02, 1e-6), (0.3, 1e-9)])
def test_agreement_costs_what_a_thresholded_histogram_costs(keys, rho, delta):
    """L2 sensitivity sqrt(keys), and as many tails. OpenDP bounds each by the continuous one."""
    ours = Agreement.within(rho, delta, DIRECT, ADD, keys)
    theirs = measurements.make_gaussian_threshold(
        *CONCENTRATED, scale=ours.noise.sigma, threshold=ours.threshold - 1
    )
    found_rho, bound = theirs.map((keys, math.isqrt(keys), 1))
    assert ours.rho == pytest.approx(found_rho, rel=1e-11)
    assert ours.delta <= bound
    higher = measurements.make_gaussian_threshold(
        *CONCENTRATED, scale=ours.noise.sigma, threshold=ours.threshold + 1
    )
    assert ours.delta >= higher.map((keys, math.isqrt(keys), 1))[1]


@pytest.mark.parametrize("size", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 6.0])
def test_randomised_response_costs_the_same(size, epsilon):
    kept = RandomisedResponse(size, Fraction(epsilon)).kept
    theirs = measurements.make_randomized_response([str(n) for n in range(size)], kept)
    assert theirs.map(1) == pytest.approx(epsilon, rel=1e-12)


def test_answers_add_up_alike():
    one = measurements.make_gaussian(*NUMBER, scale=3.0)
    theirs = combinators.make_composition([one] * 12).map(1)
    ours = ZeroConcentratedAccountant(ADD).compose(SelfComposed(Gaussian(3.0), 12))
    assert ours.epsilon(1e-5) == pytest.approx(rho_to_epsilon(theirs, 1e-5), rel=1e-12)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_a_secret_sample_amplifies_alike(rate):
    ones = dp.vector_domain(dp.atom_domain(bounds=(0, 1)), size=10), dp.symmetric_distance()
    noisy = transformations.make_sum(*ones) >> measurements.then_laplace(scale=2.0)
    theirs = combinators.make_population_amplification(noisy, population_size=round(10 / rate))
    ours = pure_dp.amplified_epsilon(noisy.map(2), rate)
    assert ours == pytest.approx(theirs.map(2), rel=1e-12)


def alike(one: Counter[int], other: Counter[int]) -> float:
    """The p-value of two samples from one distribution; rare values count together."""
    common = [value for value in one | other if one[value] + other[value] >= 10]
    table = [[sample[value] for value in common] for sample in (one, other)]
    rest = [sample.total() - sum(row) for sample, row in zip((one, other), table, strict=True)]
    if sum(rest):
        table = [[*row, left] for row, left in zip(table, rest, strict=True)]
    return float(stats.chi2_contingency(table).pvalue)


def drawn(noise: DiscreteGaussian | DiscreteLaplace) -> Counter[int]:
    with pytest.warns(NotPrivateWarning):
        coins = SeededRandomness(11)
    return Counter(noise.draw(coins) for _ in range(DRAWS))


@pytest.mark.parametrize("scale", [0.7, 2.5])
def test_samplers_draw_alike(scale):
    zeros = [0] * DRAWS
    space = dp.vector_domain(WHOLE)
    gaussian = measurements.make_gaussian(space, dp.l2_distance(T=float), scale=scale)
    assert alike(drawn(DiscreteGaussian(scale)), Counter(gaussian(zeros))) > SELDOM
    laplace = measurements.make_laplace(space, dp.l1_distance(T=float), scale=scale)
    assert alike(drawn(DiscreteLaplace(1 / scale)), Counter(laplace(zeros))) > SELDOM
    # The same comparison sees noise of another scale.
    assert alike(drawn(DiscreteGaussian(1.2 * scale)), Counter(gaussian(zeros))) < SELDOM


@pytest.mark.parametrize("scores", [[0.0, 1.0, 2.0], [0.0, -0.5, -0.5, -3.0]])
def test_selection_is_theirs(scores):
    """Permute-and-flip for pure privacy, the exponential mechanism for zCDP; both monotone."""
    ours = torch.tensor(scores, dtype=torch.float64)
    laws = {
        dp.max_divergence(): flip_distribution(ours),
        dp.zero_concentrated_divergence(): torch.softmax(ours, dim=0),
    }
    for measure, law in laws.items():
        theirs = measurements.make_noisy_max(*SCORES, measure, scale=1.0)
        counts = Counter(theirs(scores) for _ in range(FEW))
        seen = [counts[at] for at in range(len(scores))]
        assert stats.chisquare(seen, (law * FEW).tolist()).pvalue > SELDOM
    assert measurements.make_noisy_max(*SCORES, dp.max_divergence(), 1.0).map(1.5) == 1.5
    concentrated = measurements.make_noisy_max(*SCORES, dp.zero_concentrated_divergence(), 1.0)
    assert bounded_range_to_rho(1.5) == pytest.approx(concentrated.map(1.5), rel=1e-14)
