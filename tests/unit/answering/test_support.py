"""Whether the documents support an answer: who agrees, what the count shows, and what it costs."""

from __future__ import annotations

import math
import random

import pytest
import torch

from dpicl_rag import PrivateContextLLM
from dpicl_rag.accounting import DIRECT
from dpicl_rag.answering.answer_plan import answer_plan
from dpicl_rag.answering.sentence_votes import stating
from dpicl_rag.answering.support import SupportCount, Witness, speaks_against
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.mechanisms.privacy_filters import IndividualFilter
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.results import UNSUPPORTED
from tests.support.scored_units import distribution, gaussian_pmf
from tests.unit.retrieval.test_private_distributions import deficit

RHO = 0.05


def heard(rows, public, tokens) -> Witness:
    """A witness of some tokens, every one drawn from the same rows."""
    step = DenseStep(torch.log(torch.tensor(public)), torch.log(torch.tensor(rows)))
    witness = Witness()
    for token in tokens:
        witness.record(step, token)
    return witness


def test_an_expert_agrees_with_what_is_likely_to_it_and_news_to_the_bare_model():
    rows = [[0.02, 0.98], [0.5, 0.5], [0.98, 0.02]]
    witness = heard(rows, [0.98, 0.02], [1, 1])
    assert witness.agreeing().tolist() == [True, True, False]
    # 0.5 a token is likely enough, and 2 (log 0.5 - log 0.02) is news; 0.3 is not likely.
    assert heard([[0.7, 0.3]], [0.98, 0.02], [1, 1]).agreeing().tolist() == [False]
    # What the bare model says by itself is nobody's news.
    assert heard(rows, [0.02, 0.98], [1, 1]).agreeing().tolist() == [False] * 3
    # The public row knew it from an earlier answer; the bare model does not.
    assert heard(rows, [0.02, 0.98], [1, 1]).agreeing(2 * math.log(0.02))[0]


def test_an_expert_speaks_against_what_it_finds_far_less_likely_than_the_bare_model():
    rows = torch.tensor([[0.99, 0.01], [0.8, 0.2], [0.02, 0.98]])
    step = DenseStep(torch.zeros(2), rows.log())
    assert speaks_against(step, 1, math.log(0.5)).tolist() == [True, False, False]
    assert speaks_against(step, 1, math.log(0.05)).tolist() == [False] * 3  # to nobody likely


def test_a_row_that_is_no_distribution_agrees_with_nothing():
    step = DenseStep(torch.log(torch.tensor([0.98, 0.02])), torch.full((1, 2), torch.inf))
    witness = Witness()
    witness.record(step, 1)
    assert witness.agreeing().tolist() == [False]
    assert repr(witness) == "Witness(<private>)"


class Paid:
    """A filter that notes whether it was asked, and says who can pay."""

    def __init__(self, able=None):
        self.able, self.asked = able, 0

    def pay_aside(self, rho, counted):
        self.asked += 1
        return counted if self.able is None else counted & self.able


class Noise(Randomness):
    """Chosen noise in place of drawn."""


def chance(support: SupportCount, agreeing: int) -> float:
    """Exact probability of \"supported\"."""
    reach = math.ceil(8 * support.noise.sigma)
    line = 3 * support.noise.sigma
    pmf = gaussian_pmf(support.noise.sigma, reach, fine=support.noise.fine)
    return math.fsum(p for noise, p in pmf.items() if agreeing + noise > line)


def decided(support: SupportCount, agreeing: int, noise: int, able=None, monkeypatch=None) -> bool:
    monkeypatch.setattr(type(support.noise), "draw", lambda self, randomness: noise)
    opinions = torch.arange(12) < agreeing
    return support.passes(opinions, Paid(able), Noise())


def test_the_noisy_count_passes_the_line_or_does_not(monkeypatch):
    support = SupportCount.within(RHO, 1)
    line = 3 * support.noise.sigma
    for agreeing in range(12):
        for noise in (-4, 0, 3, 7):
            found = decided(support, agreeing, noise, monkeypatch=monkeypatch)
            assert found is (agreeing + noise > line)


def test_experts_that_cannot_pay_are_not_counted(monkeypatch):
    support = SupportCount.within(RHO, 1)
    able = torch.zeros(12, dtype=torch.bool)
    assert decided(support, 12, 0, monkeypatch=monkeypatch)
    assert not decided(support, 12, 0, able, monkeypatch=monkeypatch)


@pytest.mark.parametrize("sensitivity", [1, 2])
def test_the_price_covers_what_one_unit_moves_and_half_of_it_does_not(sensitivity):
    support = SupportCount.within(RHO, sensitivity)
    assert 0.999 * RHO < support.rho <= RHO

    def loss(order: float, before: int) -> float:
        """Renyi divergence of the noisy count of two neighbours, over its zCDP line."""
        pmf = gaussian_pmf(
            support.noise.sigma, math.ceil(10 * support.noise.sigma), fine=support.noise.fine
        )
        moved = {x + sensitivity: p for x, p in pmf.items()}
        total = math.fsum(moved[x] ** order * pmf[x] ** (1 - order) for x in pmf if x in moved)
        return math.log(total) / (order - 1) / order

    assert max(loss(a, 5) for a in (1.5, 2.0, 4.0)) <= support.rho * (1 + 1e-6)
    assert loss(2.0, 5) > support.rho / 2
    # What is released is less: one bit.
    one, other = chance(support, 10), chance(support, 10 + sensitivity)
    assert other > one
    assert math.log(other / one) < math.sqrt(2 * support.rho) * 8


class Book:
    """An account that notes what each unit pays."""

    paid: tuple[float, ...] = ()

    def pay(self, most, unit_rho, places, *, delta, drawn):
        assert delta == 0.0
        self.paid = tuple(unit_rho)


def verdicts(others: int, unit: bool, monkeypatch) -> dict[tuple[bool, float], float]:
    """Distribution of the verdict, and of what the last unit paid; all units agree."""
    plan = answer_plan(PrivacyConfig(agreement="off"), DIRECT, 0.0)
    noise, units = plan.support.noise, others + unit

    def run(choose):
        table = list(gaussian_pmf(noise.sigma, math.ceil(8 * noise.sigma), fine=noise.fine).items())
        monkeypatch.setattr(type(noise), "draw", lambda self, randomness: choose(table))
        book = Book()
        limits = torch.full((units,), plan.rho, dtype=torch.float64)
        spend = IndividualFilter(
            limits,
            bound=plan.rho,
            worst=plan.mechanism.rho,
            aside=plan.support_rho,
            account=book,
            places=range(units),
        )
        told = plan.support.passes(torch.ones(units, dtype=torch.bool), spend, Noise())
        return told, book.paid[-1] if unit else 0.0

    return distribution(run)


def most_untold(monkeypatch) -> float:
    """How far the verdict shows more of a unit than it paid, at the worst number of others."""
    return max(
        deficit(verdicts(others, True, monkeypatch), verdicts(others, False, monkeypatch))
        for others in range(16)
    )


def test_the_verdict_shows_no_more_of_a_unit_than_it_pays(monkeypatch):
    assert most_untold(monkeypatch) <= 1e-9


def test_half_the_price_is_seen(monkeypatch):
    """One bit of the count shows two thirds of what the whole count would."""
    whole = SupportCount.rho.fget
    monkeypatch.setattr(SupportCount, "rho", property(lambda self: whole(self) / 2))
    assert most_untold(monkeypatch) > 1e-4


def test_a_count_that_nobody_pays_for_is_seen(monkeypatch):
    monkeypatch.setattr(SupportCount, "rho", property(lambda self: 0.0))
    assert most_untold(monkeypatch) > 1e-3


def test_noise_alone_seldom_passes():
    assert chance(SupportCount.within(RHO, 1), 0) < 0.0014


SIZE, SURE = 3, 8.0


def speech(text, history):
    """Notes say 1 and then the end; the public model says 0."""
    if "note" in text:
        return [0.0, SURE, 0.0] if not history else [0.0, 0.0, SURE]
    return [0.0, -SURE, 0.0] if not history else [0.0, 0.0, SURE]


class Fixed(Randomness):
    """The same coins in every run: noise alone passes the line 13 times in 10,000."""

    def __init__(self):
        self.random = random.Random(3)

    def uniform(self):
        return self.random.random()

    def below(self, bound):
        return self.random.randrange(bound)


def private_llm(**settings) -> PrivateContextLLM:
    model = SyntheticModel(SIZE, speech, frozenset({2}))
    given = {"epsilon": 8.0, "max_tokens": 4, "agreement": "off", **settings}
    return PrivateContextLLM(model, randomness=Fixed(), **given)


NOTES = [f"note {n}: b" for n in range(40)]


def test_an_answer_of_many_notes_is_supported_and_one_of_none_is_not():
    llm = private_llm()
    assert llm.answer("q", NOTES).supported is True
    assert llm.answer("q", []).supported is False
    likely_and_not_stated = [f"note {n}" for n in range(40)]
    assert llm.answer("q", likely_and_not_stated).supported is False
    assert llm.public_numbers(llm.answer("q", NOTES))["supported"] is True
    assert private_llm(unsupported="ignore").answer("q", NOTES).supported is None


@pytest.mark.parametrize("ended", ["drawn", "closed"])
def test_an_ended_answer_keeps_no_documents(ended):
    stream = private_llm().stream("q", NOTES)
    with stream:
        next(stream)
        if ended == "drawn":
            list(stream)
    assert stream._finish.support._stating is None


def test_who_states_most_of_what_is_new_may_support_it():
    documents = ["We open at noon, in the hall.", "The hall is cold.", "We open late.", ""]
    states = stating("When do you open?", [(text,) for text in documents])
    assert states("We open at noon, in the hall.").tolist() == [True, False, False, False]
    # "Das ist einmal" stands in any German text.
    told = stating("Wann?", [("Das ist um acht, und einmal um neun.",)])
    assert told("Das ist um neun.").tolist() == [True]
    assert told("Das ist einmal Wesel.").tolist() == [False]
    assert states("We open.").all()  # nothing new: `only_repeats` sees to that


def test_an_unsupported_answer_is_replaced_where_that_was_asked_for():
    llm = private_llm(unsupported="refuse")
    with llm.stream("q", []) as stream:
        assert list(stream) == [UNSUPPORTED]
    assert (stream.answer.text, stream.answer.supported) == (UNSUPPORTED, False)
    with llm.stream("q", NOTES) as stream:
        pieces = list(stream)
    assert pieces == [stream.answer.text] != [UNSUPPORTED]
    # Closed before anybody knows: what is not known to be supported is not shown.
    stream = llm.stream("q", NOTES)
    stream.close()
    assert (stream.answer.text, stream.answer.supported) == (UNSUPPORTED, None)


@pytest.mark.parametrize("accounting", ["individual", "fixed"])
def test_the_count_is_charged_once_and_only_where_it_is_drawn(accounting):
    asked = private_llm(accounting=accounting, strength=0.01).answer("q", NOTES)
    ignored = private_llm(accounting=accounting, strength=0.01, unsupported="ignore").answer(
        "q", NOTES
    )
    a_draw = 0.01**2 / 8
    assert asked.rho == pytest.approx(0.04 + asked.tokens * a_draw, rel=1e-6)
    assert ignored.rho == pytest.approx(ignored.tokens * a_draw, rel=1e-6)
    closed = private_llm(accounting=accounting).stream("q", NOTES)
    closed.close()
    assert closed.answer.rho == 0
