"""One budget for draws and the search before them: what it leaves, and what it refuses."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl_rag.accounting import (
    DIRECT,
    RANDOM_GROUPS,
    Adjacency,
    Budget,
    Gaussian,
    PoissonSubsampled,
    PureDP,
    Stability,
    bounded_range_strength,
    bounded_range_to_rho,
    epsilon_for,
    epsilon_to_rho,
    gaussian_multiplier,
    pure_strength,
    require_individual,
    rho_to_delta,
    rho_to_epsilon,
    subsampled_sigma,
    zcdp,
)
from dpicl_rag.accounting.conversion import gaussian_delta
from dpicl_rag.errors import ConfigurationError

DELTA = 1e-5
ONE, TWENTY = Budget(3.0, DELTA), Budget(3.0, DELTA, queries=20)
CHANGED = Budget(3.0, DELTA, stability=RANDOM_GROUPS, queries=20)


# ---- without a search: the figures of 2026-11-21 ----


@pytest.mark.parametrize(
    ("found", "recorded"),
    [
        (lambda: bounded_range_strength(ONE, 4.0), 0.75),
        (lambda: bounded_range_strength(CHANGED, 1.0), 0.15474052307187705),
        (lambda: pure_strength(ONE, 4.0), 0.75),
        (lambda: pure_strength(CHANGED, 1.0), 0.0838495152186352),
        (lambda: gaussian_multiplier(ONE), 1.3905934566771503),
        (lambda: gaussian_multiplier(TWENTY), 6.218922996393035),
        (lambda: gaussian_multiplier(ONE, 0.3), 0.9833086229737363),
        (lambda: gaussian_multiplier(TWENTY, 0.3), 2.18268936566502),
        (lambda: subsampled_sigma(ONE, 10, 0.2), 5.653298639669372),
    ],
)
def test_strengths_and_noise_are_what_they_were(found, recorded):
    assert found() == pytest.approx(recorded, rel=1e-13)


def test_without_a_search_nothing_is_taken_off():
    assert ONE.rho == epsilon_to_rho(3.0, DELTA)
    assert ONE.pure_epsilon(bounded_range_to_rho) == TWENTY.pure_epsilon(zcdp) == 3.0
    assert (ONE.search_delta, Budget(3.0, DELTA, search_rho=0.1).search_delta) == (0.0, DELTA)


def test_the_stability_of_a_stage_is_multiplied_in():
    top_k = Budget(1.0, DELTA, Adjacency.REPLACE_ONE, Stability(0, 1))
    assert (ONE.factor, CHANGED.factor, top_k.factor) == (1, 2, 4)
    assert ONE.then(RANDOM_GROUPS) == Budget(3.0, DELTA, stability=RANDOM_GROUPS)
    assert top_k.then(RANDOM_GROUPS).factor == 4
    assert top_k.then(DIRECT) == top_k


# ---- beside a search ----


@pytest.mark.parametrize(
    ("epsilon", "search_rho", "strength"),
    [
        (1.5, 0.02, 0.1764213064314829),
        # Sums of rho; sums of epsilon would leave 0.048.
        # By 1e-9 less than on that day, when rho was no whole number of nano-rho.
        (1.5, 0.05, 0.08425454883862354),
        (6.0, 0.2, 0.7965919526670084),
        (12.0, 0.2, 2.2965919526670087),
    ],
)
def test_one_draw_takes_what_the_search_leaves(epsilon, search_rho, strength):
    """The figures of labels by a utility, of 2026-11-21; methods now get the same."""
    budget = Budget(epsilon, DELTA, search_rho=search_rho)
    assert bounded_range_strength(budget, 4.0) == pytest.approx(strength, rel=1e-12)


@given(
    st.floats(0.3, 12),
    st.sampled_from([1e-8, 1e-5, 1e-3]),
    st.floats(0.01, 0.95),
    st.sampled_from([bounded_range_to_rho, zcdp]),
)
def test_the_search_and_a_pure_draw_stay_within_the_budget(epsilon, delta, share, rho_of):
    """By one of two proofs: sums of rho, or (epsilon, delta) of the search and pure epsilon."""
    search_rho = share * epsilon_to_rho(epsilon, delta)
    budget = Budget(epsilon, delta, search_rho=search_rho)
    own = budget.pure_epsilon(rho_of)
    assert 0 < own <= epsilon
    by_rho = rho_to_epsilon(search_rho + rho_of(own), delta) <= epsilon * (1 + 1e-9)
    by_epsilon = own + rho_to_epsilon(search_rho, delta) <= epsilon * (1 + 1e-9)
    assert by_rho or by_epsilon
    # A little more is covered by neither proof.
    more = own * 1.001
    assert rho_to_epsilon(search_rho + rho_of(more), delta) > epsilon
    assert more + rho_to_epsilon(search_rho, delta) > epsilon


def test_neither_proof_is_always_the_better():
    tight, loose = (Budget(e, DELTA, search_rho=0.05) for e in (1.5, 12.0))
    search = rho_to_epsilon(0.05, DELTA)
    assert tight.pure_epsilon(bounded_range_to_rho) > 1.7 * (1.5 - search)
    assert loose.pure_epsilon(bounded_range_to_rho) == 12.0 - search


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 6.0, 12.0])
@pytest.mark.parametrize("search_rho", [0.001, 0.01, 0.02])
def test_the_search_and_gaussian_noise_stay_within_the_budget(epsilon, search_rho):
    budget = Budget(epsilon, DELTA, search_rho=search_rho)
    multiplier = gaussian_multiplier(budget)
    own = 1 / (2 * multiplier**2)
    by_rho = rho_to_delta(search_rho + own, epsilon) <= DELTA * (1 + 1e-9)
    left = epsilon - rho_to_epsilon(search_rho, DELTA / 2)
    by_epsilon = left > 0 and gaussian_delta(1 / multiplier, left) <= DELTA / 2 * (1 + 1e-9)
    assert by_rho or by_epsilon
    # Never less noise than without the search, and never more than either proof asks for.
    assert multiplier > gaussian_multiplier(Budget(epsilon, DELTA))
    assert multiplier <= math.sqrt(1 / (2 * budget.rho)) * (1 + 1e-9)
    if left > 0:
        assert multiplier <= gaussian_multiplier(Budget(left, DELTA / 2))


@pytest.mark.parametrize(
    "find",
    [
        lambda budget: budget.rho,
        lambda budget: bounded_range_strength(budget, 4.0),
        lambda budget: pure_strength(budget, 4.0),
        gaussian_multiplier,
    ],
)
@pytest.mark.parametrize("search_rho", [epsilon_to_rho(2.0, DELTA), 5.0, math.inf])
def test_a_search_that_leaves_nothing_is_refused(find, search_rho):
    with pytest.raises(ConfigurationError, match=r"search costs more.*sigma"):
        find(Budget(2.0, DELTA, search_rho=search_rho))


def test_a_search_beside_subsampling_is_refused():
    budget = Budget(2.0, DELTA, search_rho=0.01)
    for find in (
        lambda: gaussian_multiplier(budget, 0.5),
        lambda: subsampled_sigma(budget, 4, 0.5),
    ):
        with pytest.raises(ConfigurationError, match="without subsampling"):
            find()


# ---- what many queries cost ----


def test_epsilon_of_events():
    # A few pure draws add up, many are cheaper by their Renyi curve.
    assert epsilon_for(PureDP(1.0), Budget(3.0, DELTA, queries=2)) == pytest.approx(2, rel=1e-4)
    assert 2.6 < epsilon_for(PureDP(0.15), TWENTY) < 2.7
    # Twenty Gaussians are one of half the noise times sqrt(5).
    several, one = Gaussian(math.sqrt(5.0)), Gaussian(0.5)
    assert epsilon_for(several, TWENTY) == pytest.approx(epsilon_for(one, ONE))
    sampled = PoissonSubsampled(0.1, Gaussian(2.0))
    assert epsilon_for(sampled, ONE) < epsilon_for(sampled, TWENTY)
    with pytest.raises(ConfigurationError, match="add-or-remove"):
        epsilon_for(sampled, Budget(3.0, DELTA, Adjacency.REPLACE_ONE))


# ---- refusals ----


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"queries": 0}, "queries"),
        ({"queries": 1.5}, "queries"),
        ({"search_rho": -0.1}, "search_rho"),
        ({"search_rho": math.nan}, "search_rho"),
        ({"search_rho": 0.1, "queries": 2}, "one query"),
        # A plain string is not the adjacency it names, and would pass for the cheaper one.
        ({"adjacency": "replace_one"}, "adjacency"),
    ],
)
def test_budgets_out_of_range(fields, says):
    with pytest.raises(ConfigurationError, match=says):
        Budget(**{"epsilon": 1.0, "delta": DELTA, **fields})


def test_what_no_unit_reaches_has_no_strength():
    with pytest.raises(ConfigurationError, match="factor"):
        bounded_range_strength(Budget(1.0, DELTA, stability=Stability(0, 0)), 1.0)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("stability", [DIRECT, RANDOM_GROUPS, Stability(2, 0), Stability(1, 1)])
def test_individual_accounting_needs_units_that_touch_no_expert_but_their_own(adjacency, stability):
    sound = adjacency is Adjacency.ADD_OR_REMOVE_ONE and stability is DIRECT
    assert stability.individual_under(adjacency) == sound
    if not sound:
        with pytest.raises(ConfigurationError, match="individual accounting needs"):
            require_individual(stability, adjacency)
