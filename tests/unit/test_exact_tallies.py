"""What counts and tallies show of a unit is what that unit pays, exactly.

The whole path is enumerated with and without a unit, and with one in the place of another: search,
opinions, noise on every count, and what each unit pays. The law that a charge must keep to is that
of `tests.unit.test_exact_agreement`, without a delta.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from dpicl_rag import Document, PrivateContextLLM
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.privacy_filters import FixedFilter, IndividualFilter
from dpicl_rag.mechanisms.private_counts import Histogram
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.surveys import count_plans, tallies
from tests.support.readings import SEEING
from tests.support.scored_units import distribution, gaussian_pmf
from tests.unit.retrieval.test_private_distributions import deficit
from tests.unit.test_exact_agreement import Book

SIZE, LIKELY = 3, 1e-24
LABELS = ("a", "b", "c")
OTHERS = ("a", "b", "ab")
SOME = ("a", "b", "ab", "nothing")
ACCOUNTING = pytest.mark.parametrize("accounting", ["individual", "fixed"])
MOST = pytest.mark.parametrize("most", [1, 2])
# So much that noise has few outcomes.
MUCH = {"epsilon": 12.0, "delta": 0.01}


def speech(text, drawn):
    """A document says its last word's letters, each as likely; "nothing" is no distribution."""
    said = text.rpartition(" ")[2]
    if said == "nothing":
        return [math.nan] * SIZE
    return [4.0 if LABELS[at] in said else 0.0 for at in range(SIZE)]


@pytest.fixture(autouse=True)
def two_labels(monkeypatch):
    """A made-up model has labels of one letter; "a" is yes. It can count."""
    monkeypatch.setattr(tallies, "LABELS", ("a", "b"))
    monkeypatch.setattr(tallies, "yes_or_no_of", lambda _: SEEING)
    # So that noise on the number of units has few outcomes, too.
    monkeypatch.setattr(count_plans, "SHARES", replace(SHARES, counted_units=0.5))


def views(ask, words, unit=None, **settings):
    """Distribution of all that is released with the coin of ``u``, and of what ``u`` paid."""
    model = SyntheticModel(SIZE, speech)
    said = [Document(f"says {word}", f"other {at}") for at, word in enumerate(words)]
    corpus = said if unit is None else [*said, Document(f"says {unit}", "u")]

    def run(choose):
        spent = dict.fromkeys([one.unit for one in said] + ["u", "delta"], 0.0)
        coins, tossed = [], []

        def toss(sides):
            tossed.append(sides)
            coins.append(choose(sides))
            return coins[-1]

        class Coins(Randomness):
            def uniform(self):
                # Below a half or above it; the rate of the samples here.
                return toss([(0.25, 0.5), (0.75, 0.5)])

            def below(self, bound):
                share = settings["max_calls"] / bound
                return toss([(0, share), (bound - 1, 1 - share)])

        class Books:
            def reserve(self, *, rho, delta, units, **_):
                return Book(rho, delta, units, spent)

            def status(self):
                return []

        llm = PrivateContextLLM(model, randomness=Coins(), **{**MUCH, **settings})
        llm._ledger = Books()

        def noise(self, randomness):
            pmf = gaussian_pmf(self.sigma, math.ceil(8 * self.sigma), fine=self.fine)
            return choose(list(pmf.items()))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DiscreteGaussian, "draw", noise)
            found = ask(llm, corpus)
        if coins and unit is None:
            # A unit that is not there tosses a coin too, and nothing follows from it.
            toss(tossed[-1])
        return (found, coins[-1] if coins else None), round(spent["u"], 12)

    return distribution(run, LIKELY)


def counted(search=list, **options):
    def ask(llm, corpus):
        return llm.count("how?", search(corpus), **options).yes

    return ask


def tallied(labels=LABELS, search=list, **options):
    def ask(llm, corpus):
        return tuple(llm.tally("how?", labels, search(corpus), **options).counts.values())

    return ask


@pytest.fixture(autouse=True)
def shown(monkeypatch):
    """Noisy counts are shown as they were drawn: cut at zero they would say less."""
    monkeypatch.setattr("dpicl_rag.results.Estimate.of", lambda noisy, noise, rate=1.0: noisy)
    # What is corrected is a function of these two, and of public numbers.
    monkeypatch.setattr(tallies, "corrected", lambda yes, units, *public: (yes, units))


def worst(ask, unit, **settings):
    """By how much the charge of a unit falls short."""
    return deficit(views(ask, OTHERS, unit, **settings), views(ask, OTHERS, **settings))


@pytest.mark.one_in(3)
@ACCOUNTING
@pytest.mark.parametrize("unit", SOME)
def test_a_count_is_paid_for(unit, accounting):
    assert worst(counted(), unit, accounting=accounting) <= 1e-9


QUICK = [(unit, most) for unit in SOME for most in (1, 2) if most == 1 or unit in ("ab", "nothing")]
SLOW = [pytest.param(unit, 2, marks=pytest.mark.heavy) for unit in ("a", "b")]


@pytest.mark.one_in(12)
@ACCOUNTING
@pytest.mark.parametrize(("unit", "most"), [*QUICK, *SLOW])
def test_a_tally_is_paid_for(unit, most, accounting):
    assert worst(tallied(most=most), unit, accounting=accounting) <= 1e-9


@pytest.mark.one_in(3)
@pytest.mark.heavy
@ACCOUNTING
@pytest.mark.parametrize("ask", [counted(sample=0.5), tallied(("a", "b"), sample=0.5)])
@pytest.mark.parametrize("unit", ["a", pytest.param("b", marks=pytest.mark.guard)])
def test_a_sample_is_paid_for_by_those_in_it(unit, ask, accounting):
    assert worst(ask, unit, accounting=accounting) <= 1e-9


def test_who_says_nothing_to_a_tally_pays_nothing_and_no_to_a_count_for_the_number_of_units():
    assert {paid for _, paid in views(tallied(), OTHERS, "nothing")} == {0.0}
    [whole] = {paid for _, paid in views(counted(), OTHERS, "a")}
    for unit in ("b", "nothing"):
        [paid] = {paid for _, paid in views(counted(), OTHERS, unit)}
        assert paid == pytest.approx(0.5 * whole)


def named(llm, corpus):
    return llm.count("how of Mossbeck?", corpus).yes


@pytest.mark.parametrize("unit", ["Mossbeck a", "Mossbeck b", "a"])
def test_a_count_of_a_name_is_paid_for_by_those_who_have_it(unit):
    without, with_it = views(named, OTHERS), views(named, OTHERS, unit)
    assert deficit(with_it, without) <= 1e-9
    if unit == "a":
        assert {paid for _, paid in with_it} == {0.0}


@pytest.mark.heavy
@MOST
def test_one_in_the_place_of_another_is_paid_for(most):
    settings = {"adjacency": "replace_one"}
    for ask in (counted(), tallied(most=most)):
        laws = [views(ask, OTHERS, unit, **settings) for unit in SOME]
        for left in laws:
            for right in laws:
                assert deficit(left, right) <= 1e-9


# Planted faults.


def test_a_number_of_units_that_nobody_pays_for_is_seen(monkeypatch):
    honest = IndividualFilter.pay_votes

    def free(self, rho, voting, delta):
        return voting if voting.all() else honest(self, rho, voting, delta)

    monkeypatch.setattr(IndividualFilter, "pay_votes", free)
    assert worst(counted(), "b", accounting="individual") > 0.001


@pytest.mark.heavy
@ACCOUNTING
def test_two_labels_that_are_charged_as_one_are_seen(monkeypatch, accounting):
    within = Histogram.within

    def as_one(rho, labels, most, *reach, **more):
        return within(rho, labels, 1, *reach, **more)

    monkeypatch.setattr(Histogram, "within", staticmethod(as_one))
    assert worst(tallied(most=2), "ab", accounting=accounting) > 0.1


def test_a_changed_vote_that_is_charged_as_one_that_comes_is_seen(monkeypatch):
    within = Histogram.within

    def as_come(rho, labels, most, stability, adjacency, **_):
        return within(rho, labels, most, stability, "add_or_remove_one")

    monkeypatch.setattr(Histogram, "within", staticmethod(as_come))
    laws = [views(tallied(), OTHERS, unit, adjacency="replace_one") for unit in ("a", "b")]
    assert deficit(*laws) > 0.1


@pytest.mark.parametrize("kind", [IndividualFilter, FixedFilter])
def test_a_count_that_nobody_pays_for_is_seen(monkeypatch, kind):
    honest = kind.pay_votes
    monkeypatch.setattr(kind, "pay_votes", lambda self, rho, *given: honest(self, rho / 2, *given))
    accounting = "fixed" if kind is FixedFilter else "individual"
    assert worst(counted(), "a", accounting=accounting) > 0.1


def test_noise_on_what_was_said_alone_is_seen(monkeypatch):
    """Labels that nobody says are shown as zero: their number depends on one unit."""

    def draw(self, counts, randomness):
        return [count and count + self.noise.draw(randomness) for count in counts]

    monkeypatch.setattr(Histogram, "draw", draw)
    assert worst(tallied(), "c") == math.inf
