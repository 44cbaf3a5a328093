import math

import pytest
import torch

from benchmarks.spending import DELTA, Reading, Tabled
from dpicl_rag.accounting import DIRECT
from dpicl_rag.answering.plan import answer_plan
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.mechanisms.privacy_filters import IndividualFilter
from dpicl_rag.mechanisms.selection import ExponentialMechanism
from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.mechanisms.utilities import Surplus
from dpicl_rag.retrieval.base import NoisyCount

WORDS = 50


@pytest.fixture
def places():
    """Three places of an answer: public rows and ten experts, who agree on word 7."""
    random = torch.Generator().manual_seed(0)
    public = torch.log_softmax(torch.randn(3, WORDS, generator=random) * 2, dim=-1)
    experts = torch.randn(3, 10, WORDS, generator=random) * 2
    experts[:, :, 7] += 12
    return list(public), list(torch.log_softmax(experts, dim=-1))


def test_a_table_of_utilities_draws_as_the_step_does(places):
    public, experts = places[0][0], places[1][0]
    mechanism = ExponentialMechanism(Surplus(2.0, 1.0), 1.7)
    weights = torch.linspace(0, 1, 6, dtype=torch.float64)
    table = Tabled.of(public, experts, mechanism.utility).first(6)
    step = DenseStep(public, experts[:6])
    torch.testing.assert_close(mechanism.ranges(table), mechanism.ranges(step))
    torch.testing.assert_close(
        mechanism.scores(table, weights), mechanism.scores(step, weights), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("sigma", [0.0, 2.0])
def test_p_and_rho_are_those_of_the_loop_that_draws(places, sigma):
    public, experts = places
    right = [(7,), (7,), (7, 3, 4)]
    config = PrivacyConfig(epsilon=4.0, delta=DELTA, agreement="off")
    plan = answer_plan(config, DIRECT, 0.02)
    reading = Reading(public, experts, right)
    for documents in (10, 4, 7):  # the table is made once and made anew
        mechanism = plan.mechanism_for(NoisyCount(documents, sigma))
        left = plan.rho - plan.search_rho - plan.support_rho
        spend = IndividualFilter(torch.full((documents,), left), bound=left, worst=mechanism.rho)
        p = 1.0
        for row, own, tokens in zip(public, experts, right, strict=True):
            step = DenseStep(row, own[:documents])
            ranges = mechanism.ranges(step)
            weights = spend.weigh(lambda ranges=ranges: ranges)
            spend.pay()
            drawn = torch.softmax(mechanism.scores(step, weights), dim=-1)
            p *= float(drawn[list(tokens)].sum())
        found, rho = reading.price(plan, documents, sigma)
        assert math.isclose(found, p, rel_tol=1e-5)
        assert math.isclose(rho, float(spend.spent.mean()), rel_tol=1e-6)


def test_experts_that_know_the_answer_support_it(places):
    public, experts = places
    others = [own.roll(1, dims=-1) for own in experts]
    right = [(7,)] * 3
    assert Reading(public, experts, right).supporting().all()
    assert not Reading(public, others, right).supporting().any()
