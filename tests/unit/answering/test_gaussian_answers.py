"""Answers that a budget for Gaussian noise alone pays for, exactly over neighbours.

What is refused is in `tests.unit.ledger.test_gaussian_budgets`.
"""

import math

import pytest

from dpicl_rag.accounting import DIRECT
from dpicl_rag.accounting.budget import SHARES, Booking
from dpicl_rag.answering.answer_plan import answer_plan
from dpicl_rag.answering.ladder import _of_values
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.ledger import Ledger
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.requests import Request
from tests.unit.answering.test_answers_by_values import (
    OTHERS,
    QUESTION,
    corpus_of,
    enumerated,
    llm,
    silent,
    views,
)
from tests.unit.retrieval.test_private_distributions import deficit

__all__ = ["enumerated", "silent"]


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        opened.set_budget(corpus="default", epsilon=4.0, gaussian=True)
        yield opened


def over(one, other, epsilon):
    """The least delta at epsilon."""
    factor = math.exp(epsilon)
    return math.fsum(max(0.0, p - factor * other.get(seen, 0.0)) for seen, p in one.items())


def released(unit, statuses):
    found = views(OTHERS, unit, booked=True, statuses=statuses, epsilon=4.0)
    return {seen: chance for (seen, _), chance in found.items()}


@pytest.mark.usefixtures("enumerated")
@pytest.mark.parametrize("unit", ["yes", "no"])
def test_what_an_answer_shows_of_a_unit_is_within_its_epsilon(ledger, unit):
    having, without = (released(one, ledger.status()) for one in (unit, None))
    assert max(over(having, without, 4.0), over(without, having, 4.0)) <= 0.75e-5


@pytest.mark.usefixtures("enumerated")
def test_noise_of_two_thirds_is_seen(ledger, monkeypatch):
    within = DiscreteGaussian.within
    monkeypatch.setattr(
        DiscreteGaussian,
        "within",
        staticmethod(lambda rho, far, **given: within(rho, far / 1.5, **given)),
    )
    _of_values.cache_clear()
    given = {"booked": True, "statuses": ledger.status(), "epsilon": 4.0}
    having, without = (views(OTHERS, one, **given) for one in ("yes", None))
    _of_values.cache_clear()
    # What a count shows is more than what the unit paid.
    assert deficit(having, without) > 0.01


def test_all_noise_is_of_a_fine_grid_and_the_whole_is_what_the_budget_has(ledger):
    private = llm(ledger=ledger, epsilon=4.0)
    for question in (QUESTION, "Who opens it?"):
        plan = private.plan(corpus_of(OTHERS), Request.of("answer", question=question))
        assert plan.gaussian
        assert plan.rho == ledger.status()[0].budget
        tops = [] if plan.ladder.top is None else [plan.ladder.top]
        assert all(step.noise.fine for step in (*plan.ladder.steps, *tops))
        behind = plan.ladder.after(plan.ladder.least) if tops else ()
        assert all(step.noise.fine for step in behind)


def test_words_and_labels_are_refused_and_counts_are_not(ledger):
    documents = corpus_of(OTHERS)
    with pytest.raises(ConfigurationError, match="Gaussian noise alone"):
        llm(ledger=ledger, agreement="auto").answer(QUESTION, documents)
    with pytest.raises(ConfigurationError, match="Gaussian noise alone"):
        llm(ledger=ledger).classify(QUESTION, documents, ["yes", "no"])
    assert ledger.status()[0].spent == 0
    llm(ledger=ledger, epsilon=1.0).count(QUESTION, documents)
    llm(ledger=ledger, epsilon=1.0).answer(QUESTION, documents)
    assert 0 < ledger.status()[0].spent < 0.2


@pytest.mark.parametrize(
    ("terms", "units"),
    [
        (Booking(), (7, 11, 19, 34)),
        (Booking(threshold_delta=0.25e-5 / 2500), (7, 11, 20, 36)),
        (Booking(gaussian=True), (7, 11, 18, 32)),
        (Booking(gaussian=True, threshold_delta=0.25e-5 / 2500), (7, 11, 18, 33)),
    ],
)
def test_so_many_units_are_enough_nine_times_in_ten(terms, units):
    found = []
    for epsilon in (8.0, 4.0, 2.0, 1.0):
        config = PrivacyConfig.create(epsilon=epsilon, agreement="only").under(terms)
        search = SHARES.counting(SHARES.search_before_counts * config.rho(booked=True))
        plan = answer_plan(config, DIRECT, search, 0, booked=True, keys=1)
        found.append(plan.units_to_agree)
    assert tuple(found) == units


def test_an_answer_reads_the_terms_of_budgets_once_and_a_greeting_does_not(ledger, monkeypatch):
    read, status = [], Ledger.status
    monkeypatch.setattr(Ledger, "status", lambda self: read.append(1) or status(self))
    private = llm(ledger=ledger, epsilon=1.0)
    private.run(Request.of("answer", question=QUESTION), corpus_of(OTHERS))
    assert len(read) == 1
    private.run(Request.of("answer", question="Hello!"), corpus_of(OTHERS))
    assert len(read) == 1
