import math

import pytest
import torch

from dpicl_rag.filters import IndividualFilter
from dpicl_rag.mechanisms.exponential import ExponentialMechanism
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.mechanisms.utilities import Likeliest, LogProb, LogRatio, Surplus, Vote

UTILITIES = [LogProb(), LogRatio(), Surplus(), Vote()]


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
@pytest.mark.parametrize("top_k", [None, 5])
@pytest.mark.parametrize("experts", [0, 1, 15, 16, 17, 50])
def test_scores_are_the_weighted_sum_over_all_experts(utility, top_k, experts):
    """However many slices they are looked at in; with limits that silence some and scale others."""
    torch.manual_seed(experts)
    log_probs = torch.log_softmax(3 * torch.randn(experts + 1, 40), dim=-1)
    strength, limits = 0.7, 0.1 * torch.rand(experts, dtype=torch.float64)
    limits[::3] = 0.0
    public, step = log_probs[0], DenseStep(log_probs[0], log_probs[1:])
    limited = utility if top_k is None else Likeliest(utility, top_k)
    mechanism = ExponentialMechanism(limited, strength)
    ranges = mechanism.ranges(step)
    weights = IndividualFilter(limits, bound=0.1, worst=0.1).weigh(lambda: mechanism.ranges(step))
    scores = mechanism.scores(step, weights)

    inside = torch.ones(40, dtype=torch.bool)
    if top_k is not None:
        inside = public >= public.topk(top_k).values[-1]
    utilities = utility(log_probs[1:], public).double()[:, inside]
    expected = strength * (utilities.amax(1) - utilities.amin(1))
    assert torch.allclose(ranges, expected, atol=1e-6, rtol=0)
    payable = torch.sqrt(8 * limits)
    weights = torch.where(ranges <= payable, 1.0, payable / ranges)
    total = utility.base(public)[inside] + strength * (weights[:, None] * utilities).sum(0)
    # The filter stays a millionth below what a unit can pay.
    assert torch.allclose(scores[inside], total, atol=1e-4, rtol=0)
    if top_k is not None:
        assert (scores[~inside] == -torch.inf).all()
        assert len(scores[inside]) == top_k


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
@pytest.mark.parametrize("top_k", [None, 5])
@pytest.mark.parametrize("wrong", [[math.nan] * 40, [math.nan] + [-1.0] * 39, [-math.inf] * 40])
def test_a_row_that_is_no_number_is_neutral(utility, top_k, wrong):
    """One unit's broken row must neither choose the token nor end the answer."""
    torch.manual_seed(2)
    rows = torch.log_softmax(3 * torch.randn(4, 40), dim=-1)
    utility = utility if top_k is None else Likeliest(utility, top_k)
    mechanism = ExponentialMechanism(utility, 0.7)
    without = DenseStep(rows[0], rows[1:])
    with_it = DenseStep(rows[0], torch.cat([rows[1:], torch.tensor([wrong])]))
    if math.isnan(wrong[0]) or "Vote" not in repr(utility):
        assert float(mechanism.ranges(with_it)[-1]) == 0.0
        both = (mechanism.distribution(step) for step in (with_it, without))
        torch.testing.assert_close(*both, atol=1e-12, rtol=0)
    assert mechanism.scores(with_it).softmax(0).isfinite().all()
    limits = torch.full((4,), 0.1, dtype=torch.float64)
    spend = IndividualFilter(limits, bound=0.1, worst=0.1)
    assert 0 <= mechanism.draw(with_it, spend, Randomness()) < 40


@pytest.mark.parametrize("clip", [0.05, 0.1, 0.2, 0.3, 0.6, 0.8, 1.0, 1.1, 4.0])
@pytest.mark.parametrize("make", [LogProb, LogRatio])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_expert_passes_the_stated_range(make, clip, dtype):
    """float32(0.1) is above 0.1: a range stated for the number itself would be passed."""
    utility = make(clip)
    public = torch.tensor([-30.0, 0.0, -30.0], dtype=dtype)
    experts = torch.tensor([[0.0, -30.0, -40.0]], dtype=dtype)
    [realised] = DenseStep(public, experts).ranges(utility).tolist()
    assert 0.99 * utility.range <= realised <= utility.range


def test_an_expert_more_adds_its_own_utility_and_changes_no_other():
    """Also where it moves every later expert into another slice."""
    torch.manual_seed(0)
    log_probs = torch.log_softmax(3 * torch.randn(41, 60), dim=-1)
    for place in (1, 10, 16, 17, 33, 40):
        without = torch.cat([log_probs[:place], log_probs[place + 1 :]])
        utility = Surplus()
        mechanism = ExponentialMechanism(utility, 0.7)
        one, other = (DenseStep(rows[0], rows[1:]) for rows in (log_probs, without))
        more, ranges = mechanism.scores(one), mechanism.ranges(one)
        less, others = mechanism.scores(other), mechanism.ranges(other)
        own = 0.7 * utility(log_probs[place : place + 1], log_probs[0])[0].double()
        assert torch.allclose(more - less, own, atol=1e-12, rtol=0)
        assert torch.equal(torch.cat([ranges[: place - 1], ranges[place:]]), others)
