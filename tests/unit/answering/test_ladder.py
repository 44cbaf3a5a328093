"""What a ladder costs, and how many documents must agree."""

import pytest

from dpicl_rag.accounting.shares import SHARES
from dpicl_rag.accounting.stability import DIRECT, RANDOM_GROUPS, Adjacency
from dpicl_rag.answering.ladder import ladder_within, units_that_agree
from dpicl_rag.answering.plan import answer_plan
from dpicl_rag.configuration import PrivacyConfig

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE


@pytest.mark.parametrize("stability", [DIRECT, RANDOM_GROUPS])
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize("rho", [0.001, 0.02, 0.5, 5.0])
def test_the_steps_add_up_to_the_price(stability, adjacency, rho):
    steps = ladder_within(rho, 1e-6, 32.0, stability, adjacency)
    assert rho * (1 - 1e-6) < sum(step.rho for step in steps) <= rho
    assert sum(step.delta for step in steps) <= 1e-6
    thresholds = [step.threshold for step in steps]
    assert thresholds == sorted(thresholds, reverse=True)
    for step in steps:
        assert stability.votes_l2(adjacency) ** 2 * step.noise.rho <= step.rho * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "units"), [(8, 6), (4, 10), (2, 16), (1, 28)])
def test_so_many_documents_are_enough_nine_times_in_ten(epsilon, units):
    config = PrivacyConfig.create(epsilon=epsilon, agreement="auto")
    # Of a search whose noise is not set.
    search = SHARES.counting(SHARES.search_beside_agreement * config.rho(booked=False))
    plan = answer_plan(config, DIRECT, search)
    assert units_that_agree(plan.ladder) <= units
    assert search + plan.ladder_rho + plan.support_rho <= plan.rho
    assert sum(step.delta for step in plan.ladder) <= config.threshold_delta(booked=False)


def test_where_most_agree_the_first_step_is_cheap():
    plan = answer_plan(PrivacyConfig.create(epsilon=8, agreement="only"), DIRECT, 0.0)
    assert plan.ladder[0].rho <= 0.015
    assert plan.ladder[0].noise.tail(plan.ladder[0].threshold - 48) > 0.9


def test_without_agreement_there_is_none_and_epsilon_is_converted_at_the_whole_delta():
    off, on = (PrivacyConfig.create(agreement=name) for name in ("off", "auto"))
    assert answer_plan(off, DIRECT, 0.0).ladder == ()
    assert off.rho(booked=True) > on.rho(booked=True) > on.rho(booked=False)
    assert off.threshold_delta(booked=True) == off.threshold_delta(booked=False) == 0.0
