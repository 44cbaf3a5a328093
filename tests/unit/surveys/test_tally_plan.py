"""The noise of a tally follows from how far one unit reaches."""

import math

import pytest

from dpicl_rag import ConfigurationError
from dpicl_rag.accounting import DIRECT, Stability, epsilon_to_rho
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.surveys.count_plans import tally_plan

ONE = PrivacyConfig.create(epsilon=1.0)
RHO = epsilon_to_rho(1.0, 1e-5)
NEAREST = Stability(added=0, changed=1)


def sigma(labels, most=1, stability=DIRECT, config=ONE):
    return tally_plan(config, stability, 0.0, labels, most).mechanism.noise.sigma


def test_one_vote_moves_one_count_and_several_more():
    single = sigma(10)
    assert 1 / (2 * single**2) == pytest.approx(RHO, rel=1e-6)
    assert sigma(10, 3) == pytest.approx(math.sqrt(3) * single)
    # A changed unit takes its votes back, but no more counts than there are.
    assert sigma(10, 3, NEAREST) == pytest.approx(math.sqrt(6) * single)
    assert sigma(4, 3, NEAREST) == pytest.approx(2 * single)
    assert sigma(1, 1, NEAREST) == pytest.approx(single)


def test_a_replaced_unit_is_one_that_changes():
    replaced = PrivacyConfig.create(epsilon=1.0, adjacency="replace_one")
    assert sigma(10, config=replaced) == pytest.approx(math.sqrt(2) * sigma(10))
    assert not tally_plan(replaced, DIRECT, 0.0, 10).individual
    assert tally_plan(ONE, DIRECT, 0.0, 10).individual


def test_the_search_is_paid_for_first():
    plan = tally_plan(ONE, DIRECT, 0.01, 10)
    assert plan.search_rho + plan.mechanism.rho <= plan.rho == RHO
    with pytest.raises(ConfigurationError, match="sigma"):
        tally_plan(ONE, DIRECT, 2 * RHO, 10)
