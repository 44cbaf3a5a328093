"""Composed losses: exact where there is a formula, and settled where there is a finer interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from dpicl_rag.accounting import (
    Adjacency,
    Budget,
    Event,
    FixedSizeSubsampled,
    Gaussian,
    PoissonSubsampled,
    PrivacyLossAccountant,
    PureDP,
    SubsampledSum,
    composition,
    epsilon_for,
    gaussian_multiplier,
    subsampled_sigma,
)
from dpicl_rag.accounting.calibration import fixed_size_multiplier
from dpicl_rag.accounting.composition import composed_epsilon, directions, settled
from dpicl_rag.accounting.conversion import gaussian_epsilon
from dpicl_rag.accounting.subsampling import mixture_deltas, profile_of, sampled_gaussian
from dpicl_rag.errors import ConfigurationError

DELTAS = (1e-3, 1e-5, 1e-9, 1e-15)


def at(event: Event, count: int, delta: float, interval: float) -> float:
    profile = profile_of(event)
    assert profile is not None
    both = directions(profile, interval)
    return max(composed_epsilon([(losses, count)], delta) for losses in both)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(("sigma", "count"), [(1.0, 1), (8.0, 64), (3000.0, 100)])
def test_gaussian_noise_composes_to_its_formula(sigma: float, count: int, delta: float) -> None:
    """Small deltas too: rounding errors of a plain transform are as large as 1e-15."""
    exact = gaussian_epsilon(math.sqrt(count) / sigma, delta)
    found = PrivacyLossAccountant(Adjacency.ADD_OR_REMOVE_ONE).compose(Gaussian(sigma), count)
    assert exact <= found.epsilon(delta) <= exact * 1.003
    if exact > 0:
        assert delta <= found.delta(exact) <= delta * 1.02


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "event",
    [
        PoissonSubsampled(0.05, Gaussian(20.0)),
        PoissonSubsampled(0.3, Gaussian(0.8)),
        SubsampledSum(4, 0.2, 9.0),
    ],
)
def test_it_is_what_dp_accounting_finds(event: Event) -> None:
    if isinstance(event, SubsampledSum):
        one = pld.from_mixture_gaussian_mechanism(
            event.sigma, *event.mixture, value_discretization_interval=1e-3
        )
    else:
        one = pld.from_gaussian_mechanism(
            event.event.noise_multiplier,  # type: ignore[attr-defined]
            sampling_prob=event.rate,  # type: ignore[attr-defined]
            value_discretization_interval=1e-3,
        )
    expected = one.self_compose(50).get_epsilon_for_delta(1e-6)
    assert at(event, 50, 1e-6, 1e-3) == pytest.approx(expected, rel=1e-5)


def test_both_profiles_of_a_sampled_gaussian_agree() -> None:
    epsilons = np.array([0.0, 1e-4, 0.01, 0.1, 0.3, 1.0, 3.0])
    pairs = zip(
        sampled_gaussian(0.3, 0.5)(epsilons),
        mixture_deltas([0.0, 1.0], [0.7, 0.3], 2.0, epsilons),
        strict=True,
    )
    for closed, found in pairs:
        assert found == pytest.approx(closed, rel=1e-9, abs=1e-16)


def test_deltas_are_nowhere_below_the_profile() -> None:
    profile = sampled_gaussian(0.2, 0.7)
    for side, losses in enumerate(directions(profile, 0.05)):
        assert losses.chances.sum() + losses.infinite == pytest.approx(1.0, abs=1e-12)
        for epsilon in np.linspace(0.0, 4.0, 37):
            over = np.maximum(losses.values - epsilon, 0.0)
            claimed = losses.chances @ -np.expm1(-over) + losses.infinite
            assert claimed >= profile(np.array([epsilon]))[side][0] * (1 - 1e-9)


CASES = [
    (0.001, 0.01, 20),
    (0.01, 0.1, 100),
    (0.1, 0.1, 100),
    (1.0, 0.01, 400),
    (8.0, 0.5, 20),
]


@pytest.mark.one_in(12)
@pytest.mark.parametrize("delta", [1e-5, 1e-15])
@pytest.mark.parametrize(("epsilon", "rate", "queries"), CASES)
def test_noise_is_what_the_budget_pays_for_and_hardly_more(
    epsilon: float, rate: float, queries: int, delta: float
) -> None:
    """A grid of 1e-3 took up to ten times the noise; at 1e-15 no noise was enough."""
    budget = Budget(epsilon, delta, queries=queries)
    multiplier = gaussian_multiplier(budget, rate)
    event = PoissonSubsampled(rate, Gaussian(multiplier))
    finer = at(event, queries, delta, min(epsilon / math.sqrt(queries) / 400, 2e-4))
    assert 0.99 * epsilon <= finer <= epsilon
    assert finer <= epsilon_for(event, budget) * 1.001 <= 1.01 * finer


@pytest.mark.heavy
def test_sums_over_contexts_and_samples_of_a_fixed_size_settle_too() -> None:
    budget = Budget(0.02, 1e-6, queries=50)
    sigma = subsampled_sigma(budget, 4, 0.1)
    finer = at(SubsampledSum(4, 0.1, sigma), 50, 1e-6, 1e-5)
    assert 0.99 * 0.02 <= finer <= 0.02
    replaced = Budget(0.02, 1e-6, Adjacency.REPLACE_ONE, queries=50)
    multiplier = fixed_size_multiplier(replaced, 0.05)
    finer = at(FixedSizeSubsampled(0.05, Gaussian(multiplier)), 50, 1e-6, 1e-5)
    assert 0.99 * 0.02 <= finer <= 0.02


@pytest.mark.one_in(3)
@pytest.mark.parametrize("delta", [1e-9, 1e-12, 1e-15])
def test_one_query_at_a_small_delta_has_its_digits(delta: float) -> None:
    """Differences of tails near 1 lose them; the noise was then too small or too large."""
    for epsilon in (0.01, 1.0):
        multiplier = gaussian_multiplier(Budget(epsilon, delta), 0.1)
        found, _ = sampled_gaussian(0.1, 1 / multiplier)(np.array([epsilon]))
        assert found[0] == pytest.approx(delta, rel=1e-6)
        sigma = subsampled_sigma(Budget(epsilon, delta), 1, 0.1)
        assert sigma == pytest.approx(multiplier * math.sqrt(2), rel=1e-6)


@pytest.mark.parametrize("queries", [1, 3])
def test_a_delta_that_pays_for_the_samples_alone_is_refused(queries: int) -> None:
    budget = Budget(1.0, 0.01, queries=queries)
    replaced = Budget(1.0, 0.01, Adjacency.REPLACE_ONE, queries=queries)
    for find in (
        lambda: gaussian_multiplier(budget, 0.003),
        lambda: subsampled_sigma(budget, 2, 0.001),
        lambda: fixed_size_multiplier(replaced, 0.003),
    ):
        with pytest.raises(ConfigurationError, match=r"is not below the chance.*smaller delta"):
            find()
    # Not each of many queries alone, but all of them together are sampled often enough.
    many = Budget(1.0, 0.01, queries=100)
    assert gaussian_multiplier(many, 0.003) > 0.1


def test_pure_draws_and_their_largest_loss() -> None:
    accountant = PrivacyLossAccountant(Adjacency.ADD_OR_REMOVE_ONE).compose(PureDP(0.5), 3)
    assert accountant.delta(1.5) == 0.0
    assert accountant.epsilon(1e-12) == pytest.approx(1.5, abs=1e-6)


def test_what_is_settled_is_the_least_that_was_found() -> None:
    asked: list[float] = []

    def compute(interval: float) -> tuple[float, int]:
        asked.append(interval)
        return 1.0 + interval, 1

    assert settled(compute) == 1.0 + asked[-1]
    assert asked[-2] - asked[-1] <= 1e-3
    assert settled(lambda interval: (0.0, 1)) == 0.0


@pytest.mark.parametrize("epsilon", [0.0, 3e-9, 1e-4, 1.0, 1.7, 300.0, math.inf])
def test_epsilon_is_solved_for_with_few_looks_at_delta(epsilon: float) -> None:
    """Each look sums all losses: for 10,000 answers they take most of a calibration's time."""
    looks = []

    def tilted(at: float) -> tuple[float, float]:
        looks.append(at)
        return 1e-5 * math.exp(min(1.0, epsilon - at)), 0.0

    found = composition._solved(tilted, 1e-5)
    assert found == pytest.approx(epsilon, rel=1e-9, abs=1e-12)
    assert found >= epsilon
    assert len(looks) < 30


def test_a_planted_interval_shows() -> None:
    """At the interval of before, epsilon at a fixed noise is several times what is true."""
    event = PoissonSubsampled(0.1, Gaussian(500.0))
    assert at(event, 100, 1e-5, 1e-3) > 2 * at(event, 100, 1e-5, 1e-6)
