import math

import pytest
import torch
from scipy import stats

from dpicl_rag.mechanisms.exponential import aggregate, draw, utility_ranges
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, Randomness, SeededRandomness


class Fixed(Randomness):
    def __init__(self, value):
        self.value = value

    def uniform(self):
        return self.value


def test_no_experts_give_the_base_measure():
    base = torch.tensor([0.0, -1.0], dtype=torch.float64)
    assert aggregate(base, torch.zeros(0, 2), 3.0) is base
    assert aggregate(base, torch.zeros(0, 2), torch.zeros(0)) is base
    assert utility_ranges(torch.zeros(0, 2)).shape == (0,)


def test_aggregation_is_a_weighted_sum_in_float64():
    torch.manual_seed(0)
    utilities = torch.rand(100, 7)
    base = torch.rand(7, dtype=torch.float64)
    weights = torch.rand(100, dtype=torch.float64)
    expected = base + (weights[:, None] * utilities.double()).sum(0)
    assert torch.allclose(aggregate(base, utilities, weights), expected, atol=1e-12, rtol=0)
    equal = base + 0.5 * utilities.double().sum(0)
    assert torch.allclose(aggregate(base, utilities, 0.5), equal, atol=1e-12, rtol=0)


def test_the_draw_inverts_the_distribution():
    scores = torch.log(torch.tensor([0.0, 0.25, 0.0, 0.5, 0.25, 0.0], dtype=torch.float64))
    picks = {u: draw(scores, Fixed(u)) for u in (0.0, 0.24, 0.25, 0.74, 0.75, 1 - 2**-53)}
    assert list(picks.values()) == [1, 1, 3, 3, 4, 4]


def test_a_candidate_of_no_mass_is_never_drawn():
    scores = torch.full((1000,), -math.inf, dtype=torch.float64)
    scores[500] = 0.0
    for u in (0.0, 0.5, 1 - 2**-53):
        assert draw(scores, Fixed(u)) == 500


def test_frequencies_match_the_distribution():
    scores = torch.tensor([0.3, -1.0, 2.0, 0.0, -4.0], dtype=torch.float64)
    probabilities = torch.softmax(scores, 0).numpy()
    randomness = Randomness()
    counts = [0] * 5
    for _ in range(20_000):
        counts[draw(scores, randomness)] += 1
    # Fails by chance once in ten million runs.
    assert stats.chisquare(counts, probabilities * 20_000).pvalue > 1e-7


def test_a_seed_repeats_and_says_that_it_is_not_private():
    with pytest.warns(NotPrivateWarning, match="not private"):
        first = SeededRandomness(3)
    with pytest.warns(NotPrivateWarning):
        second = SeededRandomness(3)
    assert [first.uniform() for _ in range(5)] == [second.uniform() for _ in range(5)]


def test_the_default_generator_does_not_follow_any_seed():
    import random

    random.seed(0)
    torch.manual_seed(0)
    first = [Randomness().uniform() for _ in range(4)]
    random.seed(0)
    torch.manual_seed(0)
    assert first != [Randomness().uniform() for _ in range(4)]
