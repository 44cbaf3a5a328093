"""Strength by need: what follows from a released count, and from nothing else."""

from __future__ import annotations

import pytest

from dpicl_rag.accounting import DIRECT, Stability
from dpicl_rag.answering.plan import answer_plan
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.retrieval.base import NoisyCount

TOP_K = Stability(added=0, changed=1)


def strengths(*counts, stability=DIRECT, **settings):
    plan = answer_plan(PrivacyConfig(agreement="off", **settings), stability, 0.001)
    return [plan.mechanism_for(count).strength for count in counts], plan.mechanism.strength


def test_strength_falls_with_the_units_that_were_found():
    few, some, many = (NoisyCount(float(n), 0.0) for n in (12, 60, 200))
    (at_few, at_some, at_many), alone = strengths(few, some, many)
    # A count buys four full draws in place of six.
    assert at_few == pytest.approx(alone * (6 / 4) ** 0.5, rel=1e-9)
    assert at_some == pytest.approx(40 / 60)
    assert at_many == pytest.approx(40 / 200)


def test_without_a_count_strength_follows_the_budget_alone():
    assert strengths(None)[0] == [strengths(None)[1]]


def test_a_count_too_low_for_any_answer_silences_the_experts():
    low, unsure = NoisyCount(2.0, 0.0), NoisyCount(2.0, 10.0)
    (silent, full), _ = strengths(low, unsure, epsilon=2.0)
    assert silent == 0.0
    assert full > 0.0


@pytest.mark.parametrize(
    "settings",
    [{"strength": 0.3}, {"groups": 3}, {"utility": "log_ratio"}, {"accounting": "fixed"}],
)
def test_what_was_chosen_otherwise_stays(settings):
    (found,), alone = strengths(NoisyCount(60.0, 1.0), **settings)
    assert found == alone


def test_a_search_that_moves_two_experts_pays_for_both_in_every_count():
    one, two = (
        answer_plan(PrivacyConfig(agreement="off"), stability, 0.0).support
        for stability in (DIRECT, TOP_K)
    )
    assert one.rho == pytest.approx(two.rho, rel=1e-6)
    config = PrivacyConfig(adjacency="replace_one", agreement="off")
    replaced = answer_plan(config, TOP_K, 0.0).support
    assert replaced.sensitivity == 2
    assert replaced.noise.sigma == pytest.approx(2 * one.noise.sigma, rel=1e-6)
