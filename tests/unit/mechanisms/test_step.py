import math

import pytest
import torch

from dpicl_rag.errors import ConfigurationError, ModelError
from dpicl_rag.mechanisms.privacy_filters import IndividualFilter
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.selection import ExponentialMechanism
from dpicl_rag.mechanisms.step import DenseStep, grid
from dpicl_rag.mechanisms.utilities import Likeliest, LogProb, LogRatio, Probability, Surplus, Vote

UTILITIES = [LogProb(), LogRatio(), Surplus(), Vote(), Probability()]
WRONG = [
    [math.nan] * 40,
    [math.nan] + [-1.0] * 39,
    [-math.inf] * 40,
    [math.inf] + [-1.0] * 39,
]


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
    utilities -= utilities.amin(dim=1, keepdim=True)  # moves all scores alike
    total = utility.base(public)[inside] + strength * (weights[:, None] * utilities).sum(0)
    assert torch.allclose(scores[inside], total, atol=1e-5, rtol=0)
    if top_k is not None:
        assert (scores[~inside] == -torch.inf).all()
        assert len(scores[inside]) == top_k


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
@pytest.mark.parametrize("top_k", [None, 5])
@pytest.mark.parametrize("wrong", WRONG, ids=["nan", "one nan", "impossible", "infinite"])
def test_a_row_that_is_no_number_is_neutral(utility, top_k, wrong):
    """One unit's broken row must neither choose the token nor end the answer."""
    torch.manual_seed(2)
    rows = torch.log_softmax(3 * torch.randn(4, 40), dim=-1)
    utility = utility if top_k is None else Likeliest(utility, top_k)
    mechanism = ExponentialMechanism(utility, 0.7)
    without = DenseStep(rows[0], rows[1:])
    with_it = DenseStep(rows[0], torch.cat([rows[1:], torch.tensor([wrong])]))
    assert mechanism.ranges(with_it)[-1] == 0.0
    assert torch.equal(mechanism.scores(with_it), mechanism.scores(without))
    limits = torch.full((4,), 0.1, dtype=torch.float64)
    spend = IndividualFilter(limits, bound=0.1, worst=0.1)
    assert 0 <= mechanism.draw(with_it, spend, Randomness()) < 40


@pytest.mark.parametrize("clip", [0.05, 0.1, 0.2, 0.3, 0.6, 0.8, 1.0, 1.1, 4.0])
@pytest.mark.parametrize("make", [LogProb, LogRatio])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_no_expert_passes_the_stated_range(make, clip, dtype):
    """float32(0.1) is above 0.1, and bfloat16(0.1) by far."""
    utility = make(clip)
    public = torch.tensor([-30.0, 0.0, -30.0], dtype=dtype)
    experts = torch.tensor([[0.0, -30.0, -40.0]], dtype=dtype)
    [realised] = ExponentialMechanism(utility, 1.0).ranges(DenseStep(public, experts)).tolist()
    assert 0.99 * clip <= realised / (1 + (make is LogRatio)) <= clip


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
        assert torch.allclose(more - less, own - own.min(), atol=1e-7, rtol=0)
        assert torch.equal(torch.cat([ranges[: place - 1], ranges[place:]]), others)


def rows_of(experts: int, candidates: int = 60) -> torch.Tensor:
    """The public row, then experts that disagree, some of them far from sure."""
    random = torch.Generator().manual_seed(experts)
    spread = 6 * torch.rand(experts + 1, 1, generator=random)
    return torch.log_softmax(spread * torch.randn(experts + 1, candidates, generator=random), -1)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("utility", [*UTILITIES, LogRatio(0.1), Likeliest(Surplus(), 7)], ids=repr)
@pytest.mark.parametrize("strength", [0.013, 0.7, 1.0, 37.0])
def test_a_sum_has_the_same_bits_in_every_order_and_sharding(utility, strength, monkeypatch):
    rows = rows_of(83)
    public, experts = rows[0], rows[1:]
    random = torch.Generator().manual_seed(0)
    weights = torch.rand(83, generator=random, dtype=torch.float64)
    weights[::3], weights[1::9] = 1.0, 0.0
    mechanism = ExponentialMechanism(utility, strength)
    expected = mechanism.scores(DenseStep(public, experts), weights)
    for seed in range(5):
        order = torch.randperm(83, generator=random.manual_seed(seed))
        step = DenseStep(public, experts[order])
        for size in (1, 5, 83):
            monkeypatch.setattr("dpicl_rag.mechanisms.step._SLICE", size)
            assert torch.equal(mechanism.scores(step, weights[order]), expected)
        shards = [
            DenseStep(public, experts[part]).weighted_sum(utility, strength, weights[part])
            for part in torch.split(order, 30)
        ]
        assert torch.equal(utility.base(public) + sum(shards), expected)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("utility", [*UTILITIES, LogRatio(0.1), LogProb(2.3)], ids=repr)
@pytest.mark.parametrize("strength", [0.013, 0.7, 37.0])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_what_an_expert_adds_is_never_above_its_charge(utility, strength, dtype):
    """In exact arithmetic, at full weight and at any other."""
    rows = rows_of(40).to(dtype)
    # Some are as sure as a row can be: they use the whole range.
    rows[1:8] = torch.where(torch.eye(7, 60) == 1, 0.0, -80.0)
    mechanism, unit = ExponentialMechanism(utility, strength), grid(utility, strength)
    random = torch.Generator().manual_seed(1)
    for at in range(1, 41):
        step = DenseStep(rows[0], rows[at : at + 1])
        [charged] = mechanism.ranges(step).tolist()
        assert charged <= strength * utility.range
        for weight in (1.0, float(torch.rand(1, generator=random, dtype=torch.float64)), 0.0):
            weights = torch.tensor([weight], dtype=torch.float64)
            added = step.weighted_sum(utility, strength, weights)
            assert added.min() == 0
            assert float(added.max()) <= weight * charged
            assert float(added.max()) >= weight * charged - 2 * unit
            assert ((added / unit) % 1 == 0).all()


def test_many_experts_of_a_strong_draw_have_room():
    """2^22 of them would fill 62 bits; a mechanism that reaches further takes a coarser unit."""
    for strength in (1.0, 1000.0, 1e6):
        assert strength / grid(Vote(), strength) * 2**22 <= 2.0**62
    assert grid(Vote(), 1e-3) == 2.0**-40
    with pytest.raises(ConfigurationError, match="finite range"):
        grid(LogProb(math.inf), 1.0)


@pytest.mark.parametrize("wrong", WRONG, ids=["nan", "one nan", "impossible", "infinite"])
def test_a_broken_row_stays_neutral_when_a_prior_is_taken_out(wrong):
    rows, priors = rows_of(3, 40), rows_of(4, 40)
    without = DenseStep(rows[0], rows[1:3]).corrected(DenseStep(priors[0], priors[1:3]))
    for broken in (rows, priors):
        broken[3] = torch.tensor(wrong)
        step = DenseStep(rows[0], rows[1:4]).corrected(DenseStep(priors[0], priors[1:4]))
        for utility in UTILITIES:
            mechanism = ExponentialMechanism(utility, 0.7)
            assert torch.equal(mechanism.scores(step), mechanism.scores(without))
        broken[3] = rows_of(9, 40)[3]


def test_a_prior_is_taken_out_of_rows_with_impossible_tokens():
    """Servers that tell a few log-probabilities say nothing about the others."""
    rows = torch.tensor([[0.0, 0.0, 0.0], [0.0, -1.0, -math.inf], [-math.inf, 0.0, -math.inf]])
    step = DenseStep(rows[0], rows[1:]).corrected(DenseStep(rows[0], rows[1:].flip(0)))
    assert step.experts.argmax(-1).tolist() == [0, 1]
    assert (ExponentialMechanism(Vote(), 0.5).ranges(step) == 0.5).all()


@pytest.mark.parametrize("wrong", WRONG, ids=["nan", "one nan", "impossible", "infinite"])
def test_a_public_row_that_is_no_distribution_is_told(wrong):
    with pytest.raises(ModelError, match="without any document"):
        DenseStep(torch.tensor(wrong), torch.zeros(2, 40))
