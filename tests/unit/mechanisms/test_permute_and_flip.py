"""Permute-and-flip: its closed form, its draws, and never worse than the exponential mechanism."""

import itertools
import math

import pytest
import torch
from scipy import stats

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.privacy_filters import FixedFilter, IndividualFilter
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, Randomness, SeededRandomness
from dpicl_rag.mechanisms.selection import PermuteAndFlip, flip_distribution
from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.mechanisms.utilities import LogProb


def scores_of(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


SCORES = [
    scores_of(0.0),
    scores_of(0.0, -1.0),
    scores_of(2.0, 2.0, 2.0),
    scores_of(5.0, 4.0, 4.5, -2.0),
    scores_of(0.0, -math.inf, -0.3),
    scores_of(0.1, 0.0, -0.7, -0.7, -3.0, 0.05),
]


def by_definition(scores: torch.Tensor) -> list[float]:
    """Every order, every run of tails."""
    heads = torch.exp(scores - scores.max()).tolist()
    found = [0.0] * len(heads)
    orders = list(itertools.permutations(range(len(heads))))
    for order in orders:
        left = 1.0 / len(orders)
        for at in order:
            found[at] += left * heads[at]
            left *= 1 - heads[at]
    return found


@pytest.mark.parametrize("scores", SCORES)
def test_the_closed_form_is_the_definition(scores):
    assert flip_distribution(scores).tolist() == pytest.approx(by_definition(scores), abs=1e-14)


def test_two_candidates_by_hand():
    p = flip_distribution(scores_of(0.0, -2.0))
    assert p.tolist() == pytest.approx([1 - math.exp(-2) / 2, math.exp(-2) / 2], abs=1e-15)


def test_many_candidates_keep_their_digits():
    scores = torch.linspace(0, -60, 300, dtype=torch.float64)
    p = flip_distribution(scores)
    assert float(p.sum()) == pytest.approx(1.0, abs=1e-12)
    # The rarest stop the walk with their own heads, whoever else has arrived.
    tail = p[200:] / torch.exp(scores[200:])
    assert float(tail.std() / tail.mean()) < 1e-9


def expected(p: torch.Tensor, scores: torch.Tensor) -> float:
    return float((p * scores).sum())


@pytest.mark.parametrize("size", [2, 3, 4, 14])
def test_its_expected_score_is_never_below_the_exponential_mechanisms(size):
    noise = torch.Generator().manual_seed(size)
    one_hot = torch.zeros(size, dtype=torch.float64)
    one_hot[0] = 1.0
    cases = [scale * one_hot for scale in (0.01, 0.5, 2.0, 9.0)]
    cases += [scale * (1 - one_hot) for scale in (0.5, 4.0)]
    cases += [
        scale * torch.randn(size, generator=noise, dtype=torch.float64)
        for scale in (0.1, 1.0, 5.0)
        for _ in range(40)
    ]
    gains = [
        expected(flip_distribution(scores), scores) - expected(torch.softmax(scores, -1), scores)
        for scores in cases
    ]
    assert min(gains) >= -1e-14
    assert max(gains) > 0.1
    # Stronger: each error is no likelier to be passed.
    for scores in cases:
        order = scores.argsort()
        ours = flip_distribution(scores)[order].cumsum(0)
        theirs = torch.softmax(scores, -1)[order].cumsum(0)
        assert float((ours - theirs).max()) <= 1e-14


def test_no_information_is_a_uniform_draw():
    assert flip_distribution(torch.zeros(5).double()).tolist() == pytest.approx(
        [0.2] * 5, abs=1e-15
    )


def as_published(scores: torch.Tensor, randomness: Randomness) -> int:
    """Algorithm 1 itself: a uniform order, one candidate at a time; the best one ends the loop."""
    heads = torch.exp(scores - scores.max()).tolist()
    waiting = list(range(len(heads)))
    while True:
        chosen = waiting.pop(int(randomness.uniform() * len(waiting)))
        if randomness.uniform() < heads[chosen]:
            return chosen


def by_mechanism(scores: torch.Tensor, randomness: Randomness) -> int:
    """One expert who says the scores, less a constant: log-probabilities lie below zero."""
    mechanism = PermuteAndFlip(LogProb(100.0), 1.0, rho=0.1)
    step = DenseStep(torch.zeros_like(scores), (scores - scores.max())[None])
    return mechanism.draw(step, FixedFilter(0.1, 0.1), randomness)


@pytest.mark.heavy
@pytest.mark.parametrize("sampler", [as_published, by_mechanism])
@pytest.mark.parametrize("scores", SCORES[1:])
def test_draws_follow_the_closed_form(scores, sampler):
    with pytest.warns(NotPrivateWarning):
        randomness = SeededRandomness(11)
    counts = torch.zeros(len(scores))
    for _ in range(6000):
        counts[sampler(scores, randomness)] += 1
    p = flip_distribution(scores)
    assert counts[p == 0].sum() == 0
    kept = p > 0
    found = stats.chisquare(counts[kept].numpy(), 6000 * p[kept].numpy())
    assert found.pvalue > 1e-3


def test_it_is_not_drawn_under_individual_accounting():
    mechanism = PermuteAndFlip(LogProb(), 1.0, rho=0.1)
    step = DenseStep(torch.zeros(2).double(), torch.zeros(1, 2).double())
    spend = IndividualFilter(torch.ones(1), bound=1.0, worst=0.1)
    with pytest.raises(ConfigurationError, match="fixed"):
        mechanism.draw(step, spend, Randomness())
