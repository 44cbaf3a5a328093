import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.mechanisms.utilities import LogProb, LogRatio, Sufficient, Surplus, Vote

UTILITIES = [LogProb(4.0), LogRatio(1.0), Surplus(), Surplus(1.0, 1.0), Vote(), Vote(0.0)]
UTILITIES.append(Sufficient(Surplus(), reach=5.0, cheap=3.0))


def ranges(utility, public, experts) -> torch.Tensor:
    return DenseStep(public, experts).ranges(utility, 1.0)


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    logits=st.lists(st.lists(st.floats(-300, 300), min_size=4, max_size=4), min_size=2, max_size=5)
)
def test_no_input_passes_the_stated_range(utility, logits):
    log_probs = torch.log_softmax(torch.tensor(logits), dim=-1)
    said = utility(log_probs[1:], log_probs[0])
    assert torch.isfinite(said).all()
    # A step cuts ranges at the stated one, where it would be too small unseen.
    span = said.double().amax(dim=-1) - said.double().amin(dim=-1)
    assert (span <= utility.range * (1 + 1e-6)).all()
    assert (ranges(utility, log_probs[0], log_probs[1:]) <= utility.range).all()


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
def test_the_range_is_reached(utility):
    """A stated range that is too large would waste budget; this one is tight."""
    public = torch.log_softmax(torch.tensor([0.0, 0.0, 30.0]), dim=-1)
    expert = torch.log_softmax(torch.tensor([[100.0, 0.0, -100.0]]), dim=-1)
    found = ranges(utility, public, expert).item()
    assert found == pytest.approx(utility.range, rel=1e-6)


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
def test_impossible_tokens_do_no_harm(utility):
    public = torch.tensor([-math.inf, 0.0, -math.inf])
    expert = torch.tensor([[-math.inf, -math.inf, 0.0]])
    assert torch.isfinite(utility(expert, public)).all()
    assert (ranges(utility, public, expert) <= utility.range).all()


def test_clipping_saturates():
    """The paper's text sets values below -C to zero, which would make them the best ones."""
    values = LogProb(4.0)(torch.tensor([[-10.0, -4.0, -1.0, 0.0]]), torch.zeros(4))
    assert values.tolist() == [[-4.0, -4.0, -1.0, 0.0]]


def test_a_document_that_says_nothing_new_has_no_range():
    public = torch.log_softmax(torch.tensor([1.0, 2.0, 3.0]), dim=-1)
    assert ranges(Surplus(1.0, 1.0), public, public[None]).item() < 1e-6
    assert ranges(LogRatio(1.0), public, public[None]).item() < 1e-6


def test_the_base_measure_depends_on_the_public_row_alone():
    public = torch.log_softmax(torch.tensor([1.0, 2.0, 3.0]), dim=-1)
    assert torch.equal(LogProb().base(public), torch.zeros(3, dtype=torch.float64))
    assert torch.equal(Surplus(2.0, 1.5).base(public), 1.5 * public.double())


def test_an_expert_says_what_its_favourite_needs_and_no_more():
    public = torch.log_softmax(torch.tensor([0.0, -2.0, -6.0, -30.0]), dim=-1)
    sure = [[40.0 if y == t else 0.0 for y in range(4)] for t in range(4)]
    experts = torch.log_softmax(torch.tensor(sure), dim=-1)
    plain = Surplus(expert_power=1.0)
    reach = 50.0
    found = Sufficient(plain, reach=reach, cheap=0.0)(experts, public).amax(dim=-1) * reach
    # Nats that all experts together add, if all have the same favourite: odds of 4 nats for it.
    needs = 4.0 - torch.logit(public.double().exp())
    for token in range(4):
        wanted = min(float(needs[token]), reach * float(plain(experts, public)[token].max()))
        assert float(found[token]) == pytest.approx(wanted, rel=1e-4)
    # Where it is cheap there is room for two of five that disagree.
    roomy = Sufficient(plain, reach=reach, cheap=100.0)(experts, public).amax(dim=-1) * reach
    assert float(roomy[1]) == pytest.approx(float(needs[1]) / 0.6, rel=1e-4)
    # The scale is a unit's own: it is the same beside other experts.
    alone = Sufficient(plain, reach=reach, cheap=0.0)(experts[1:2], public)
    assert torch.equal(alone[0], Sufficient(plain, reach=reach, cheap=0.0)(experts, public)[1])
