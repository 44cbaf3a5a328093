"""Noise on a sum, in lengths by which one expert moves it: what the plan charges, and no less.

Only the largest sum's index is released, which tells less than the sums. So an output's exact
epsilon does not show noise that is somewhat too small; these ratios do.
"""

import itertools

import pytest
import torch

from dpicl_rag.accounting import Adjacency
from dpicl_rag.mechanisms.points import GRID, clipped_sum
from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.synthesis import noisy_sums
from dpicl_rag.synthesis.examples_plan import examples_plan
from dpicl_rag.synthesis.noisy_sums import Adaptive

ARRIVAL, REPLACED = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE
EVEN = torch.tensor([0.5, 0.5], dtype=torch.float64)
SPEECH = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.9, 0.1]], dtype=torch.float64)

SETTINGS = [(ARRIVAL, 1, None), (ARRIVAL, 1, 0.5), (ARRIVAL, 3, 0.5), (REPLACED, 1, 0.5)]


def plan_of(method, adjacency, per_expert, rate, **more):
    return examples_plan(
        method,
        2,
        epsilon=2.0,
        delta=1e-2,
        texts_per_label=1,
        max_tokens=3,
        experts=4,
        per_expert=per_expert,
        rate=rate,
        candidates=2,
        adjacency=adjacency,
        labels_per_unit=1,
        **more,
    )


def sums_of(mechanism, rows, monkeypatch):
    """The sums that noise is put on."""
    seen = []
    monkeypatch.setattr(noisy_sums, "argmax_distribution", lambda s, _: seen.append(s) or s)
    mechanism.distribution(DenseStep(EVEN.log(), rows.log()))
    return seen[-1]


def multiplier(event):
    """Noise over sensitivity that is charged, of samples too."""
    return getattr(event, "event", event).noise_multiplier


def worst_move(sums, changed):
    """How far an expert moves a sum: one that comes, or one that changes."""
    crowd = SPEECH[2:]
    with_it = [sums(torch.cat([crowd, own[None]])) for own in SPEECH]
    pairs = itertools.combinations(with_it, 2) if changed else ((sums(crowd), s) for s in with_it)
    return max(float((one - other).norm()) for one, other in pairs)


@pytest.mark.parametrize("method", ["few-shot", "difference"])
@pytest.mark.parametrize(("adjacency", "per_expert", "rate"), SETTINGS)
def test_noise_over_what_an_expert_moves(method, adjacency, per_expert, rate, monkeypatch):
    plan = plan_of(method, adjacency, per_expert, rate)
    changed = per_expert > 1 or adjacency is REPLACED

    def sums(rows):
        return sums_of(plan.mechanism, rows, monkeypatch)

    ratio = plan.mechanism.sigma / worst_move(sums, changed)
    assert ratio == pytest.approx(multiplier(plan.event), rel=1e-5)
    assert ratio >= multiplier(plan.event)


@pytest.mark.parametrize(("adjacency", "per_expert", "rate"), SETTINGS)
def test_noise_over_a_radius_that_is_given(adjacency, per_expert, rate, monkeypatch):
    """The plant: the usual radius' noise, where a longer one moves the sum further."""
    changed = per_expert > 1 or adjacency is REPLACED
    usual = plan_of("difference", adjacency, per_expert, rate)
    for radius in (0.1, 0.7):
        plan = plan_of("difference", adjacency, per_expert, rate, radius=radius)

        def sums(rows, one=plan.mechanism):
            return sums_of(one, rows, monkeypatch)

        moved = worst_move(sums, changed)
        assert plan.mechanism.sigma / moved == pytest.approx(multiplier(plan.event), rel=1e-5)
        assert plan.mechanism.sigma / moved >= multiplier(plan.event)
    assert usual.mechanism.sigma / moved < 0.8 * multiplier(plan.event)


@pytest.mark.parametrize(("adjacency", "per_expert", "rate"), SETTINGS[1:])
def test_noise_of_a_noisy_mean(adjacency, per_expert, rate):
    plan = plan_of("adaptive", adjacency, per_expert, rate)
    one = plan.mechanism
    assert isinstance(one, Adaptive)
    centre = (EVEN * GRID).long()
    for radius in (0.5, 0.1):

        def sums(rows, radius=radius):
            return clipped_sum((rows * GRID).long(), centre, radius).double() / GRID

        changed = per_expert > 1 or adjacency is REPLACED
        assert one.sigma(radius) / worst_move(sums, changed) == pytest.approx(
            one.noises.mean, rel=1e-5
        )
    assert one.noises.multiplier == pytest.approx(multiplier(plan.event), rel=1e-6)
    assert one.noises.multiplier >= multiplier(plan.event)


@pytest.mark.parametrize(("per_expert", "moved"), [(1, 1), (3, 2)])
def test_flips_are_charged_for_what_an_expert_moves(per_expert, moved):
    plan = plan_of("few-shot-permute-and-flip", ARRIVAL, per_expert, None)
    assert plan.event.epsilon == pytest.approx(moved * plan.mechanism.strength)
