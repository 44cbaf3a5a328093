"""Settings that go to the methods that have experts, and to no other."""

from __future__ import annotations

import pytest
import torch

from dpicl_rag.accounting import Budget
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.methods import METHODS, OneEach, ZeroShot, make
from dpicl_research.comparison import with_rate
from dpicl_research.expert_settings import methods_with, rate_for, require_experts


def test_methods_with_experts_take_them():
    found = {m.name: m for m in methods_with(list(METHODS), exemplars=4, rate=0.05)}
    assert list(found) == list(METHODS)
    for name in ("zero-shot", "k-shot", "sampling"):
        assert found[name] == make(name)
    for name in ("hard", "poe", "poe-groups", "votes-gaussian", "permute-and-flip-votes"):
        assert found[name] == make(name, group_size=4, rate=0.05)


def test_a_label_below_the_clip_is_a_sure_one_where_it_is_zeroed():
    """The charge is the same; the least likely label is the one that wins."""
    (zeroed,) = methods_with(["poe-zeroed"])
    budget = Budget(4.0, 1e-5)
    expert = torch.tensor([[0.9, 0.099, 0.001]], dtype=torch.float64).log()
    views = {ZeroShot(): expert, OneEach(): expert}

    def likeliest(method):
        own = {layout: views[layout] for layout in method.layouts(1)}
        return int(method.distribution(own, method.calibrate(budget)).argmax())

    assert likeliest(make("poe")) == 0
    assert likeliest(zeroed) == 2
    assert zeroed.calibrate(budget).event == make("poe").calibrate(budget).event


def test_a_zeroed_expert_that_comes_or_goes_stays_within_the_charge():
    (zeroed,) = methods_with(["poe-zeroed"])
    calibrated = zeroed.calibrate(Budget(4.0, 1e-5))
    random = torch.Generator().manual_seed(1)
    largest = 0.0
    for _ in range(200):
        rows = torch.log_softmax(9 * torch.randn(3, 5, generator=random, dtype=torch.float64), 1)
        both = [
            zeroed.distribution({OneEach(): experts, ZeroShot(): experts[:1]}, calibrated)
            for experts in (rows, rows[:2])
        ]
        largest = max(largest, float((both[0].log() - both[1].log()).abs().max()))
    assert 3.0 < largest <= 4.0 + 1e-9


def test_without_settings_all_stay_as_they_are():
    assert methods_with(["poe-groups", "sampling"]) == [make("poe-groups"), make("sampling")]


def test_what_nobody_takes_is_refused():
    without = methods_with(["zero-shot", "sampling"], rate=0.5)
    assert without == [make("zero-shot"), make("sampling")]
    with pytest.raises(ConfigurationError, match="none of these methods has experts"):
        require_experts(without)
    require_experts([*without, make("votes")])
    with pytest.raises(ConfigurationError, match="rate must be above 0"):
        methods_with(["poe"], rate=2.0)


def test_only_methods_with_experts_have_another_rate():
    changed = with_rate(make("votes-gaussian", group_size=4), 0.05)
    assert changed == make("votes-gaussian", group_size=4, rate=0.05)
    assert with_rate(make("sampling"), 0.05) is None


def test_a_number_of_subsets_is_a_rate():
    assert rate_for(10, 4, 800) == 0.05
    layout = make("votes-gaussian", group_size=3, rate=rate_for(7, 3, 999)).layouts(999)[0]
    assert layout.count == 7
    assert rate_for(2, 4, 8) == 1.0
    with pytest.raises(ConfigurationError, match="3 subsets of 4 need 12 examples"):
        rate_for(3, 4, 8)
