"""A question over a whole corpus, exactly: what a unit shows by everything is what it pays.

Count, threshold, thinning, strength by need, draws and support, in one run of the private path
whose coins are all enumerated. The view holds what is released on the way (the noisy count) and in
the end (tokens, support), which *other* units were read, and the unit's own coin: for every outcome
of it the answer is as private as without thinning. A world without the unit tosses it too. With P
and Q the view's distributions with and without a unit, and c(view) what the unit pays in all, a
charge is enough if for every order a

    E_Q[(P / Q)^a exp(-a (a - 1) c)] <= 1,    and the same with P and Q exchanged:

see `tests.unit.retrieval.test_private_distributions`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from dpicl_rag import PrivateContextLLM
from dpicl_rag.accounting.budget import Shares
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.privacy_filters import IndividualFilter
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval import Candidates, NoisyThreshold, Retrieved, Search
from dpicl_rag.retrieval.base import CoinRate, NoisyCount
from tests.support.scored_units import ScoredUnits, distribution, enumerated_keeps, gaussian_pmf
from tests.unit.retrieval.test_private_distributions import deficit

SIZE, SURE, EPSILON, SIGMA = 2, 6.0, 12.0, 0.75
LIKELY = 1e-24  # what is less likely than this is left out: expectations only fall by it


def speech(text: str, history: tuple[int, ...]) -> list[float]:
    """Units say token 1, the public model nearly always token 0, as does a quiet unit."""
    return [0.0, SURE] if "/" in text and "quiet" not in text else [SURE / 2, 0.0]


class Coins(Randomness):
    """Every coin is a choice that the enumeration makes."""

    def __init__(self, choose):
        self.choose = choose

    def draw(self, scores):
        return self.choose(list(enumerate(scores.softmax(-1).tolist())))


class Noted(NoisyThreshold):
    """Remembers what it chose."""

    def choose(self, *given):
        vars(self)["chosen"] = super().choose(*given)
        return self.chosen


class Read:
    """The default search, which notes what it found."""

    capacity, sigma = 2, SIGMA
    thinned = True
    corpus_name = None

    def __init__(self, units: Mapping[str, list[float]]):
        bar = Noted(self.capacity if self.thinned else 100, thresholds=(0.5,))
        self.own = Search(ScoredUnits(units), bar, sigma=self.sigma)
        self.stability, self.rho = self.own.stability, self.own.rho
        self.found = None

    def coin(self, unit, choose):
        """Whether the unit was sampled, or would have been."""
        rate = self.own.bar.chosen.last.rate
        if rate == 1 or unit in self.candidates:
            return rate == 1 or unit in self.found.units
        return bool(choose([(1, rate), (0, 1 - rate)]))

    def search(self, question):
        search = self.own.search(question)
        self.candidates = search.units

        def draw(admitted, randomness):
            self.found = self.changed(search.choose(admitted, randomness))
            return self.found

        return Candidates(search.units, draw)

    def changed(self, found: Retrieved) -> Retrieved:
        return found


class Book:
    """A ledger's hold that adds up what each unit pays."""

    def __init__(self, rho, units):
        self.rho, self.delta, self.limits = rho, 0.0, [rho] * len(units)
        self.spent = dict.fromkeys(units, 0.0)

    def holds_delta(self, delta):
        return delta <= self.delta

    def commit(self, most, unit_rho, *, delta):
        for unit, rho in zip(self.spent, unit_rho, strict=True):
            self.spent[unit] += rho

    def close(self):
        pass


def views(units, unit="u", kind=Read, **settings):
    """Distribution of the view and of what ``unit`` paid."""
    model = SyntheticModel(SIZE, speech, frozenset())

    def run(choose):
        retriever, books = kind(units), []
        given = {
            "epsilon": EPSILON,
            "max_tokens": 1,
            "public_power": 1.0,
            "agreement": "auto",
        } | settings
        llm = PrivateContextLLM(model, randomness=Coins(choose), **given)

        class Books:
            def status(self):
                return []

            def reserve(self, *, rho, units, **_):
                books.append(Book(rho, units))
                return books[0]

        llm._ledger = Books()
        answer = llm.answer("q", retriever)
        others = tuple(sorted(set(retriever.found.units) - {unit}))
        coin = retriever.coin(unit, choose)
        said = answer.text, answer.supported, round(answer.rho, 12)
        seen = (retriever.own.bar.chosen.count, coin, others, *said)
        return seen, round(books[0].spent.get(unit, 0.0), 12)

    return distribution(run, LIKELY)


@pytest.fixture(autouse=True)
def enumerated_noise(monkeypatch):
    """Noise is a choice too."""
    tables = {}

    def draw(self, randomness):
        table = tables.setdefault(
            self.sigma,
            list(gaussian_pmf(self.sigma, math.ceil(8 * self.sigma), fine=self.fine).items()),
        )
        return randomness.choose(table)

    monkeypatch.setattr(DiscreteGaussian, "draw", draw)
    monkeypatch.setattr(CoinRate, "keeps", enumerated_keeps)


OTHERS = {"a": [0.9], "b": [0.8], "c": [0.7]}


def worst(kind=Read, others=OTHERS, unit="u", **settings):
    without = views(others, unit, kind, **settings)
    return max(
        deficit(views({**others, unit: [score]}, unit, kind, **settings), without)
        for score in (0.95, 0.2)
    )


@pytest.mark.guard
@pytest.mark.heavy
def test_what_a_unit_shows_by_count_thinning_strength_and_draws_is_what_it_pays():
    assert worst(unsupported="ignore") <= 1e-9


@pytest.mark.heavy
def test_the_support_count_is_paid_for_too():
    assert worst(others={"a": [0.9]}) <= 1e-9


class Knows:
    """Public knowledge of what the units say, so that the public row proposes it."""

    def recall(self, question):
        return ["known/"]


PROPOSED = {"knowledge": Knows(), "stop": ("b",), "epsilon": 30.0}
ONE = {"a": [0.9]}


@pytest.fixture
def dear_counts(monkeypatch):
    """Of little noise: few units pass a line, or fail to, and three counts have few outcomes."""
    monkeypatch.setattr("dpicl_rag.answering.answer_plan.SHARES", Shares(count=2.0, count_rho=2.0))
    monkeypatch.setattr(Read, "sigma", 0.5)


@pytest.mark.heavy
def test_a_proposal_that_units_confirm_is_paid_for(dear_counts):
    without, found = (views(units, **PROPOSED) for units in (ONE, {**ONE, "u": [0.95]}))
    assert deficit(found, without) <= 1e-9
    # Every way is seen: one count and no draw; two, and one draw of silent or of loud experts.
    assert len({view[-1] for view, _ in found}) == 3


class HalfSaid(Read):
    """A planted fault: the search costs a unit twice what it says."""

    def __init__(self, units):
        super().__init__(units)
        self.rho = lambda adjacency: self.own.rho(adjacency) / 2


def most_unsaid(kind=Read):
    """How much more the unit paid, at most, than the answer says that any unit may have."""
    found = views({**ONE, "u": [0.95]}, kind=kind, **PROPOSED)
    return max(paid - view[-1] for view, paid in found)


@pytest.mark.heavy
def test_an_answer_says_at_least_what_a_unit_paid(dear_counts):
    assert most_unsaid() <= 1e-9
    assert most_unsaid(HalfSaid) > 1e-3


@pytest.mark.heavy
@pytest.mark.parametrize("part", [0.0, 0.5])
def test_a_proposal_that_is_paid_in_part_or_not_at_all_is_seen(dear_counts, monkeypatch, part):
    paid = IndividualFilter.pay_aside

    def cheaper(self, rho, counted):
        return paid(self, part * rho, counted)

    monkeypatch.setattr(IndividualFilter, "pay_aside", cheaper)
    without, found = (views(units, **PROPOSED) for units in (ONE, {**ONE, "u": [0.95]}))
    assert deficit(found, without) > 1e-3


def test_a_unit_that_was_not_sampled_pays_for_the_count_alone():
    found = views({**OTHERS, "u": [0.95]}, unsupported="ignore")
    count_rho = 1 / (2 * SIGMA**2)
    paid = {charge for _, charge in found}
    assert min(paid) == pytest.approx(count_rho)
    assert max(paid) > 1.05 * count_rho


class TrueCount(Read):
    """A planted fault: strength from the number that was found."""

    def changed(self, found):
        units = len(found.units)
        return Retrieved(found.units, found.unit_rho, NoisyCount(float(units), 0.0))


class InOrder(Read):
    """A planted fault: the last two by name of those that pass, in place of coins."""

    thinned = False

    def changed(self, found):
        names = sorted(found.units, reverse=True)[: self.capacity]
        return Retrieved({n: found.units[n] for n in names}, found.unit_rho, found.count)


class FreeCount(Read):
    """A planted fault: nobody pays for the count."""

    def changed(self, found):
        return Retrieved(found.units, [0.0] * len(found.unit_rho), found.count)


@pytest.mark.heavy
@pytest.mark.parametrize("fault", [InOrder, FreeCount])
def test_a_planted_fault_is_seen(fault):
    assert worst(fault, unsupported="ignore") > 1e-3


@pytest.mark.heavy
def test_strength_from_the_true_count_is_seen(monkeypatch):
    """A unit that says nothing makes all others weaker, which nobody has paid for."""
    monkeypatch.setattr(Read, "capacity", 100)
    monkeypatch.setattr(Read, "sigma", 3.0)
    given = {"others": {name: [0.9] for name in "abcd"}, "unit": "quiet"}
    assert worst(**given, unsupported="ignore") <= 1e-9
    assert worst(TrueCount, **given, unsupported="ignore") > 1e-3
