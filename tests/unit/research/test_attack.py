"""Membership inference: AUROC and its interval on scores with a known answer."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_research.attack import attack, auroc, coin_attack, largest_auroc


def by_seed(scores, seeds=50):
    return np.array_split(np.asarray(scores, dtype=float), seeds)


def test_small_cases_by_hand():
    assert auroc([2, 3], [0, 1]) == 1.0
    assert auroc([0, 1], [2, 3]) == 0.0
    assert auroc([1, 1], [1, 1]) == 0.5
    assert auroc([1, 3], [2, 2]) == 0.5
    assert auroc([1, 2, 4], [0, 2, 3]) == pytest.approx((1 + 1.5 + 3) / 9)
    assert auroc([math.inf], [-math.inf, math.inf]) == 0.75


def test_scores_of_no_worth_and_of_much():
    random = np.random.default_rng(1)
    null = attack(by_seed(random.normal(size=500)), by_seed(random.normal(size=500)))
    assert null.low < 0.5 < null.high
    assert null.high - null.low < 0.12
    # Two normal distributions one standard deviation apart: Phi(1 / sqrt(2)).
    leaky = attack(by_seed(random.normal(1, 1, 4000)), by_seed(random.normal(0, 1, 4000)))
    assert leaky.low < 0.7602 < leaky.high
    assert leaky.low > 0.7
    perfect = attack(by_seed(np.ones(500)), by_seed(np.zeros(500)))
    assert (perfect.low, perfect.auroc, perfect.high) == (1.0, 1.0, 1.0)


def test_the_interval_knows_that_examples_of_a_seed_go_together():
    random = np.random.default_rng(2)
    shifts = random.normal(size=30)
    members = [np.full(10, shift) for shift in shifts]
    others = [np.full(10, shift) for shift in random.normal(size=30)]
    wide = attack(members, others)
    # As independent examples the same spread would be far narrower.
    narrow = attack(
        by_seed(random.permutation(np.concatenate(members)), 300),
        by_seed(random.permutation(np.concatenate(others)), 300),
    )
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_coins_agree_with_drawn_ones():
    random = np.random.default_rng(3)
    inside, outside = random.uniform(0.4, 1, 20000), random.uniform(0, 0.6, 20000)
    exact = coin_attack(by_seed(inside), by_seed(outside))
    drawn = auroc(random.random(20000) < inside, random.random(20000) < outside)
    assert exact.auroc == pytest.approx(0.5 + (inside.mean() - outside.mean()) / 2)
    assert exact.auroc == pytest.approx(drawn, abs=0.01)
    assert exact.low < exact.auroc < exact.high
    same = coin_attack(by_seed(inside), by_seed(inside))
    assert (same.low, same.auroc, same.high) == (0.5, 0.5, 0.5)


def test_seeds_of_other_sizes_count_by_their_examples():
    found = coin_attack([[1.0] * 3, [0.0]], [[0.0], [0.0]])
    assert found.auroc == pytest.approx(0.5 + 0.75 / 2)


def test_the_largest_area():
    assert largest_auroc(0.0, 0.0) == pytest.approx(0.5)
    assert largest_auroc(1.5, 0.0) == pytest.approx(math.exp(1.5) / (1 + math.exp(1.5)))
    assert largest_auroc(0.0, 1.0) == pytest.approx(1.0)
    assert largest_auroc(1000.0, 0.0) == 1.0
    # Numerically: the least of both constraints, for an epsilon and a delta.
    rates = np.linspace(0, 1, 200001)
    above = np.minimum(
        math.exp(0.7) * rates + 0.1, 1 - np.maximum(0, (1 - rates - 0.1)) * math.exp(-0.7)
    )
    assert largest_auroc(0.7, 0.1) == pytest.approx(
        np.trapezoid(np.minimum(above, 1), rates), abs=1e-5
    )


def test_scores_that_cannot_be_compared():
    for members, others in (([], [1.0]), ([1.0], []), ([math.nan], [1.0])):
        with pytest.raises(ConfigurationError, match="needs scores"):
            auroc(members, others)
    for find in (attack, coin_attack):
        with pytest.raises(ConfigurationError, match="every seed"):
            find([[1.0], []], [[1.0], [1.0]])
        with pytest.raises(ConfigurationError, match="every seed"):
            find([[1.0]], [[1.0], [1.0]])
    with pytest.raises(ConfigurationError, match="confidence"):
        attack([[1.0]], [[1.0]], confidence=1.0)
