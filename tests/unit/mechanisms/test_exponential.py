import math

import pytest
import torch
from scipy import stats

from dpicl_rag.errors import DPICLError
from dpicl_rag.mechanisms.privacy_filters import FixedFilter
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, Randomness, SeededRandomness
from dpicl_rag.mechanisms.selection import ExponentialMechanism, PermuteAndFlip, ReportNoisyMax
from dpicl_rag.mechanisms.step import DenseStep


class Fixed(Randomness):
    def __init__(self, value):
        self.value = value

    def uniform(self):
        return self.value


class Given:
    """A utility whose values are the experts' rows, over the public row as base measure."""

    range = 1.0

    def __call__(self, experts, public):
        return experts

    def base(self, public):
        return public


def scores(base, utilities, weights=None, strength=1.0):
    mechanism = ExponentialMechanism(Given(), strength)
    return mechanism.scores(DenseStep(base, utilities), weights)


def test_no_experts_give_the_base_measure():
    base = torch.tensor([0.0, -1.0], dtype=torch.float64)
    assert torch.equal(scores(base, torch.zeros(0, 2), strength=3.0), base)
    assert torch.equal(scores(base, torch.zeros(0, 2), torch.zeros(0)), base)
    assert DenseStep(base, torch.zeros(0, 2)).ranges(Given(), 1.0).shape == (0,)


def test_aggregation_is_a_weighted_sum_in_float64():
    torch.manual_seed(0)
    utilities = torch.rand(100, 7, dtype=torch.float64)
    base = torch.rand(7, dtype=torch.float64)
    weights = torch.rand(100, dtype=torch.float64)
    above = utilities - utilities.amin(dim=1, keepdim=True)
    # Each expert is rounded down to 2^-40 or, where it reaches 1, to 2^-39.
    expected = base + (weights[:, None] * above).sum(0)
    assert torch.allclose(scores(base, utilities, weights), expected, atol=100 * 2**-39, rtol=0)
    equal = base + 0.5 * above.sum(0)
    found = scores(base, utilities, strength=0.5)
    assert torch.allclose(found, equal, atol=100 * 2**-40, rtol=0)


class Watched(FixedFilter):
    """Remembers what it was shown, and weighs experts as it is told."""

    def __init__(self, weights):
        super().__init__(1.0, 0.1)
        self.weights = weights

    def weigh(self, ranges):
        self.ranges = ranges()
        return self.weights


def test_a_draw_weighs_pays_and_follows_the_scores():
    utilities = torch.tensor([[0.0, 1.0], [0.5, 0.25]])
    spend = Watched(torch.tensor([1.0, 0.0], dtype=torch.float64))
    mechanism = ExponentialMechanism(Given(), 40.0)
    step = DenseStep(torch.zeros(2, dtype=torch.float64), utilities)
    assert mechanism.draw(step, spend, Fixed(0.5)) == 1
    assert spend.ranges.tolist() == [40.0, 10.0]
    assert spend.rho == 0.1


def test_a_draw_costs_its_reach_and_changed_experts_count_twice():
    assert ExponentialMechanism(Given(), 2.0).rho == 0.5
    assert ExponentialMechanism(Given(), 2.0, factor=2).rho == 2.0


@pytest.mark.parametrize(
    "mechanism",
    [
        ExponentialMechanism(Given(), 1.0),
        PermuteAndFlip(Given(), 1.0, 0.2),
        ReportNoisyMax(Given(), 1.0, 0.2, 1e-5),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_a_draw_that_cannot_be_paid_is_not_made(mechanism):
    step = DenseStep(torch.zeros(2, dtype=torch.float64), torch.zeros(1, 2))
    with pytest.raises(DPICLError):
        mechanism.draw(step, FixedFilter(0.1, 0.2), None)


def test_the_draw_inverts_the_distribution():
    scores = torch.log(torch.tensor([0.0, 0.25, 0.0, 0.5, 0.25, 0.0], dtype=torch.float64))
    picks = {u: Fixed(u).draw(scores) for u in (0.0, 0.24, 0.25, 0.74, 0.75, 1 - 2**-53)}
    assert list(picks.values()) == [1, 1, 3, 3, 4, 4]


def test_a_candidate_of_no_mass_is_never_drawn():
    scores = torch.full((1000,), -math.inf, dtype=torch.float64)
    scores[500] = 0.0
    for u in (0.0, 0.5, 1 - 2**-53):
        assert Fixed(u).draw(scores) == 500


def test_frequencies_match_the_distribution():
    scores = torch.tensor([0.3, -1.0, 2.0, 0.0, -4.0], dtype=torch.float64)
    probabilities = torch.softmax(scores, 0).numpy()
    randomness = Randomness()
    counts = [0] * 5
    for _ in range(20_000):
        counts[randomness.draw(scores)] += 1
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

    def draws():
        random.seed(0)
        torch.manual_seed(0)
        mine = Randomness()
        return [(mine.uniform(), mine.below(1 << 40)) for _ in range(4)]

    assert not {number for pair in draws() for number in pair} & {
        number for pair in draws() for number in pair
    }
