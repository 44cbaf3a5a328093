"""Answers alone whose keys are selected: the whole private path, with and without one unit."""

import math

import pytest

from dpicl_rag import Rehearsal
from dpicl_rag.answering import private_run
from dpicl_rag.documents import Document
from dpicl_rag.mechanisms.discrete_noise import TruncatedGeometric
from dpicl_rag.mechanisms.private_counts import Agreement
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.requests import Request
from dpicl_rag.results import UNSUPPORTED
from tests.support.scored_units import distribution
from tests.unit.answering.test_answers_by_keys import LIST, documents, llm

ONE = "What is it?"
MUCH = {"epsilon": 4.0, "delta": 0.02}


@pytest.fixture(autouse=True)
def silent(monkeypatch):
    knows = Rehearsal(told=10, right=10, right_by_default=10, far=10, silent=10)
    monkeypatch.setattr(private_run, "rehearsal_of", lambda model: knows)


class Coins(Randomness):
    """Every value of the noise is a choice."""

    def __init__(self, choose):
        self.choose = choose


@pytest.fixture(autouse=True)
def every_value(monkeypatch):
    honest = TruncatedGeometric.draw

    def draw(self, randomness):
        if not isinstance(randomness, Coins):
            return honest(self, randomness)
        whole = sum(self.weights)
        values = enumerate(self.weights)
        return randomness.choose([(self.highest - at, own / whole) for at, own in values])

    monkeypatch.setattr(TruncatedGeometric, "draw", draw)


def told(corpus, question, **settings):
    """Distribution of everything that an answer tells."""

    def run(choose):
        found = llm(**MUCH, randomness=Coins(choose), **settings).answer(question, corpus)
        return (found.text, found.rho, found.tokens, *map(str, found.public_numbers().items()))

    return distribution(run)


def beyond(p, q, epsilon=MUCH["epsilon"]):
    return max(
        math.fsum(max(0.0, a[seen] - math.exp(epsilon) * b.get(seen, 0.0)) for seen in a)
        for a, b in ((p, q), (q, p))
    )


def neighbours(question, words, word, **settings):
    """How far an answer tells of one unit."""
    corpus = documents(*words)
    having = told([*corpus, Document(f"says {word}", "new")], question, **settings)
    return beyond(having, told(corpus, question, **settings))


WORDS = [
    ((), "refund"),
    (("refund",) * 2, "refund"),
    (("refund",) * 3, "refund"),
    (("refund",) * 3, "other"),
    (("refund", "refund", "refund", "other"), "refund"),
]


@pytest.mark.parametrize(
    ("question", "words", "word"),
    [
        *((ONE, *one) for one in WORDS),
        *((LIST, *one) for one in WORDS[:3]),
        *(pytest.param(LIST, *one, marks=pytest.mark.heavy) for one in WORDS[3:]),
    ],
)
def test_an_answer_tells_of_no_unit_more_than_epsilon_and_delta(question, words, word):
    assert neighbours(question, words, word) <= MUCH["delta"]


@pytest.mark.parametrize("accounting", ["individual", "fixed"])
def test_what_is_told_of_the_price_is_what_the_plan_says(accounting):
    settings = {**MUCH, "accounting": accounting, "agreement": "only"}
    private = llm(**settings)
    corpus = documents(*["refund"] * 12)
    plan = private.plan(corpus, Request.of("answer", question=ONE))
    assert plan.ladder.instead_of is not None
    assert plan.rho >= plan.agreement_rho > 1  # much more than Gaussian noise would cost
    found = private.answer(ONE, corpus)
    assert found.by == "agreement"
    assert found.rho == pytest.approx(plan.rho) == pytest.approx(plan.agreement_rho)
    assert abs(found.agreeing - 12) <= plan.ladder.steps[0].noise.highest
    assert found.agreeing_within == plan.ladder.steps[0].noise.reach
    assert private.answer(ONE, documents("refund")).text == UNSUPPORTED


# Planted faults.


def test_a_threshold_one_lower_is_seen(monkeypatch):
    draw = Agreement.draw

    def lower(self, held, randomness):
        object.__setattr__(self, "threshold", self.noise.highest)
        return draw(self, held, randomness)

    monkeypatch.setattr(Agreement, "draw", lower)
    assert neighbours(ONE, (), "refund") > MUCH["delta"]


def test_a_release_without_a_coin_is_seen(monkeypatch):
    monkeypatch.setattr(TruncatedGeometric, "draw", lambda *_: 0)
    assert neighbours(ONE, ("refund",) * 3, "refund") == 1.0
