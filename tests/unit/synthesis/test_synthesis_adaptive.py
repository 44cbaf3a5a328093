"""AdaDPSyn's token: its charge, and its output distribution summed over what comes before it."""

import math

import numpy as np
import pytest
import torch
from scipy.special import ndtr

from dpicl_rag.accounting.conversion import gaussian_epsilon
from dpicl_rag.auditing.neighbours import exact_epsilon
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.points import GRID, LARGEST, clipped_sum, distribution_on
from dpicl_rag.mechanisms.privacy_filters import IndividualFilter
from dpicl_rag.mechanisms.randomness import SeededRandomness
from dpicl_rag.synthesis.noisy_sums import Adaptive, AdaptiveConstants, Noises
from dpicl_research.radius_search import radius_chances

DELTA = 1e-2
CELLS = 21


def mechanism(multiplier, experts=4, moved=1):
    return Adaptive(2, experts, AdaptiveConstants().noises(multiplier), moved, math.inf, DELTA)


def test_all_releases_together_cost_one_gaussian():
    for rounds in (1, 2):
        noises = AdaptiveConstants(rounds=rounds).noises(0.7)
        assert noises.multiplier == pytest.approx(0.7)
    assert Noises(10, 1.23, 3, 1).multiplier == pytest.approx(
        1 / math.sqrt(6 / 100 + 2 / 1.23**2 + 1 / 9)
    )


def first_token_chance(own, centre, one):
    """Chance that the first of two candidates is drawn, the first mean's noise cut into cells."""
    targets = [(one.target, 1.0)]
    if one.target is None:
        targets = radius_chances(own, one.captured, one.noises.radius, one.noises.halved)
    sigma = one.sigma(LARGEST)
    edges = np.linspace(-6, 6, CELLS + 1)
    weights = np.diff(ndtr(edges))
    middles = (edges[1:] + edges[:-1]) / 2 * sigma
    moved = clipped_sum(own, centre, LARGEST).double() / GRID
    total = 0.0
    for (a, wa), (b, wb) in (
        np.stack(
            [
                np.stack(np.meshgrid(middles, middles), -1),
                np.stack(np.meshgrid(weights, weights), -1),
            ],
            -2,
        )
        .reshape(-1, 2, 2)
        .transpose(0, 2, 1)
    ):
        mean = centre.double() / GRID + (moved + torch.tensor([a, b])) / one.experts
        # Half of a cell on the line goes either way.
        stays = 0.5 if abs(float(mean[0] - mean[1])) < 1e-12 else float(mean[0] > mean[1])
        around = distribution_on(mean)
        for target, chance in targets:
            smaller = one.smaller(target, LARGEST, 2)
            on = one.chance(own, around, smaller) if smaller <= LARGEST else 0.0
            again = 0.0
            if on > 0:
                then = around.double() + clipped_sum(own, around, smaller).double() / one.experts
                gap = float(then[0] - then[1]) / GRID
                again = float(ndtr(gap * one.experts / (math.sqrt(2) * one.sigma(smaller))))
            total += wa * wb * chance * (on * again + (1 - on) * stays)
    return total / weights.sum() ** 2


def points_of(*shares):
    table = [[share, 1 - share] for share in shares]
    return (torch.tensor(table, dtype=torch.float64).reshape(-1, 2) * GRID).floor().long()


GIVEN = [
    (AdaptiveConstants(), None),
    (AdaptiveConstants(), 0.2),
    (AdaptiveConstants(2.0, 1.2, 1.5, precision=0.3, slack=0.1, captured=0.5, enough=0.9), None),
]
"""Constants, and a public radius."""


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("constants", "radius"), GIVEN)
@pytest.mark.parametrize("others", [(), (0.0, 0.1, 0.4)])
def test_an_arrival_moves_a_token_within_the_charge(others, constants, radius):
    noises = constants.noises(0.8, searched=radius is None)
    one = Adaptive(2, 4, noises, 1, math.inf, DELTA, constants, radius)
    centre = points_of(0.45)[0]
    claimed = gaussian_epsilon(1 / noises.multiplier, DELTA)
    without = first_token_chance(points_of(*others), centre, one)
    found = []
    for share in (1.0, 0.0):
        with_it = first_token_chance(points_of(*others, share), centre, one)
        pair = [torch.tensor([p, 1 - p]).log() for p in (with_it, without)]
        found.append(exact_epsilon(*pair, DELTA))
    assert 0.05 < max(found) <= claimed


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::dpicl_rag.mechanisms.randomness.NotPrivateWarning")
def test_what_is_drawn_follows_the_sum_over_its_parts():
    one, centre = mechanism(1.0), points_of(0.45)[0]
    own = points_of(0.9, 0.8, 0.2)
    coins = SeededRandomness(7)
    runs = 2000
    first = sum(int(one.last_mean(own, centre, coins).argmax()) == 0 for _ in range(runs))
    expected = first_token_chance(own, centre, one)
    error = math.sqrt(expected * (1 - expected) / runs)
    assert first / runs == pytest.approx(expected, abs=4 * error + 0.01)


def test_it_has_no_charge_of_a_units_own():
    spend = IndividualFilter(torch.zeros(0), bound=1.0, worst=1.0)
    with pytest.raises(ConfigurationError, match="charged the same for every unit"):
        mechanism(1.0).draw(None, spend, None)
