"""Points, projected sums and radii: how far one expert moves them, and that bits are its own."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms import points as radius_module
from dpicl_rag.mechanisms.points import (
    GRID,
    SENSITIVITY,
    clipped_sum,
    crowding,
    distribution_on,
    good_radius,
    halvings,
    noise,
    pairwise,
    points,
    public_point,
    spread,
    within,
)
from dpicl_rag.mechanisms.randomness import Randomness, SeededRandomness
from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.mechanisms.utilities import likeliest
from dpicl_research.radius_search import radius_chances


def rows(*scores):
    return torch.log_softmax(torch.tensor(scores, dtype=torch.float32), dim=-1)


def on_grid(*probabilities):
    return (torch.tensor(probabilities, dtype=torch.float64) * GRID).floor().long()


def some_points(count, size, seed):
    generator = torch.Generator().manual_seed(seed)
    scores = 4 * torch.randn(count, size, generator=generator, dtype=torch.float64)
    sure = torch.eye(size, dtype=torch.float64)[: count // 3]
    own = torch.softmax(scores, dim=-1)
    own[: len(sure)] = sure
    return (own * GRID).floor().long()


def test_points_are_rows_of_the_candidates_of_the_public_row():
    step = DenseStep(
        rows([3.0, 2.0, 1.0, 0.0])[0], rows([0.0, 0.0, 9.0, 9.0], [0.0, 1.0, 0.0, 0.0])
    )
    at = likeliest(step.public, 2)
    assert at.tolist() == [0, 1]
    found = points(step, at).double() / GRID
    assert found[0].tolist() == pytest.approx([0.5, 0.5], abs=1e-6)
    assert found[1].tolist() == pytest.approx([1 / (1 + math.e), math.e / (1 + math.e)], abs=1e-6)
    assert len(likeliest(step.public, 100)) == 4
    assert spread(torch.tensor([0.25, 0.75]), at, 4).tolist() == [0.25, 0.75, 0.0, 0.0]


def test_a_row_that_is_none_has_no_point_and_nobody_at_all_is_no_error():
    bad = torch.tensor([[math.nan] * 3, [-math.inf] * 3])
    public = rows([0.0, 0.0, 0.0])[0]
    step = DenseStep(public, torch.cat([bad, rows([0.0, 1.0, 2.0])]))
    assert len(points(step, torch.arange(3))) == 1
    empty = points(DenseStep(public, bad[:0]), torch.arange(3))
    assert empty.shape == (0, 3)
    assert clipped_sum(empty, public_point(step, torch.arange(3)), 0.5).tolist() == [0, 0, 0]
    assert crowding(pairwise(empty), 0.5, 8) == 0


@pytest.mark.parametrize("count", [1, 2, 17, 40])
def test_the_bits_of_a_point_are_its_own(count):
    generator = torch.Generator().manual_seed(count)
    experts = torch.log_softmax(torch.randn(count, 101, generator=generator), dim=-1)
    public = rows([0.0] * 101)[0]
    at = likeliest(public, 100)
    together = points(DenseStep(public, experts), at)
    alone = [points(DenseStep(public, experts[i : i + 1]), at)[0] for i in range(count)]
    assert torch.equal(together, torch.stack(alone))
    centre = public_point(DenseStep(public, experts), at)
    parts = [clipped_sum(own[None], centre, 0.3) for own in alone]
    assert torch.equal(clipped_sum(together, centre, 0.3), torch.stack(parts).sum(dim=0))
    inside = within(together, centre, 0.3)
    assert inside.tolist() == [bool(within(own[None], centre, 0.3)[0]) for own in alone]


def length(vector):
    return float(vector.double().norm()) / GRID


@pytest.mark.parametrize("radius", [0.05, 0.5, math.sqrt(2) / 2])
def test_a_sum_of_differences_moves_by_its_radius_and_no_more(radius):
    own = some_points(60, 5, 1)
    for centre in (own[0], own[30], on_grid([0.2] * 5)[0]):
        parts = torch.stack([clipped_sum(p[None], centre, radius) for p in own])
        moves = [length(part) for part in parts]
        changes = [length(a - b) for a, b in itertools.combinations(parts, 2)]
        assert max(moves) <= radius
        assert max(changes) <= 2 * radius
        assert max(moves) > 0.999 * radius
        # The plant: whole points, projected onto the ball, move the sum by their centre too.
        if radius < 0.5:
            assert max(length(part + centre) for part in parts) > radius


def test_counts_and_crowding_move_by_what_they_are_charged_for():
    largest, changed = 0.0, 0.0
    most = 8
    for seed in range(30):
        own = some_points(12, 3, seed)
        own[seed % 12 :] = own[seed % 12]  # some of them in one place
        for radius in (0.1, 0.35, 0.7, 1.5):
            whole = crowding(pairwise(own), radius, most)
            for at in range(len(own)):
                rest = torch.cat([own[:at], own[at + 1 :]])
                largest = max(largest, abs(whole - crowding(pairwise(rest), radius, most)))
                for new in (own[0], own[-1], on_grid([1.0, 0.0, 0.0])[0]):
                    swapped = own.clone()
                    swapped[at] = new
                    other = crowding(pairwise(swapped), radius, most)
                    changed = max(changed, abs(whole - other))
    assert 1.0 < largest <= SENSITIVITY
    assert 1.0 < changed <= SENSITIVITY


class Coins(Randomness):
    def __init__(self, uniform):
        self._uniform = uniform

    def uniform(self):
        return self._uniform


def test_without_noise_the_radius_holds_the_points():
    tight = some_points(1, 4, 3).repeat(10, 1)
    apart = torch.eye(10, dtype=torch.long) * GRID
    assert good_radius(tight, 8, 1e-9, Coins(0.5)) == pytest.approx(math.sqrt(2) / 32)
    assert good_radius(apart, 8, 1e-9, Coins(0.5)) > 0.6


def test_the_chance_of_a_comparison_is_that_of_two_noisy_values():
    own = some_points(10, 4, 5)
    chance = radius_module.down_chance(pairwise(own), 0.4, 8, 6.0)
    values = [crowding(pairwise(own), r, 8) for r in (0.4, 0.2)]
    draws = np.random.default_rng(3).normal(values, 6.0, (200_000, 2)).max(axis=1) >= 8
    assert chance == pytest.approx(draws.mean(), abs=0.005)


@pytest.mark.filterwarnings("ignore::dpicl_rag.mechanisms.randomness.NotPrivateWarning")
def test_noise_is_gaussian_on_a_fine_grid_and_fresh():
    coins = SeededRandomness(4)
    first, second = noise(400, 0.3, coins), noise(400, 0.3, coins)
    assert not torch.equal(first, second)
    drawn = torch.cat([first, second]).numpy()
    assert stats.kstest(drawn / 0.3, "norm").pvalue > 1e-3
    assert np.array_equal(drawn * 2.0**40, np.round(drawn * 2.0**40))
    # The plant: noise that is seeded anew is the same.
    assert torch.equal(noise(9, 0.3, SeededRandomness(1)), noise(9, 0.3, SeededRandomness(1)))


def test_a_noisy_mean_becomes_a_distribution():
    assert (distribution_on(torch.tensor([0.5, -0.5, 1.5]).double()) / GRID).tolist() == [
        0.25,
        0.0,
        0.75,
    ]
    nothing = distribution_on(torch.tensor([-1.0, -2.0]).double())
    assert (nothing / GRID).tolist() == [0.5, 0.5]


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::dpicl_rag.mechanisms.randomness.NotPrivateWarning")
def test_radii_come_out_with_their_chances():
    own = torch.tensor([[GRID, 0], [GRID // 2, GRID // 2], [0, GRID]])
    chances = dict(radius_chances(own, 2, 0.8))
    assert sum(chances.values()) == pytest.approx(1)
    coins, runs = SeededRandomness(3), 3000
    drawn = [good_radius(own, 2, 0.8, coins) for _ in range(runs)]
    assert set(drawn) <= set(chances)
    for radius, chance in chances.items():
        error = math.sqrt(chance * (1 - chance) / runs)
        assert drawn.count(radius) / runs == pytest.approx(chance, abs=5 * error)


def test_a_finer_precision_halves_more_often():
    assert [halvings(p) for p in (10.0, 0.5, 0.1, 0.05, 0.001)] == [1, 1, 3, 4, 10]
    for precision in (0.0, 0.0009, math.inf, math.nan):
        with pytest.raises(ConfigurationError, match="precision"):
            halvings(precision)


@pytest.mark.parametrize("size", [3, 7, 100])
def test_a_point_is_cut_and_never_longer_than_its_row(size):
    """Rounded up or to the nearest, numbers of a row would add up to more than 1."""
    generator = torch.Generator().manual_seed(size)
    alike = torch.full((1, size), -math.log(size))
    experts = torch.cat([alike, torch.log_softmax(torch.randn(50, size, generator=generator), -1)])
    found = points(DenseStep(alike[0], experts), torch.arange(size))
    exact = torch.softmax(experts.double(), dim=-1) * GRID
    assert (found <= exact).all()
    assert (found > exact - 1).all()
    assert (found.sum(dim=1) <= GRID).all()
