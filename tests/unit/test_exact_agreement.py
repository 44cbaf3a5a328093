"""Answers by agreement, exactly: what a unit shows by everything that is released is what it pays.

The whole private path runs, with every coin enumerated: the counts of sentences and of names and
numbers, tokens where nobody agrees, the count of support, and a second answer that knows the first.
What one count releases has the law that `tests.unit.mechanisms.test_agreement` computes. With P and
Q the distributions of all that is released with and without a unit, and c what it pays in all, a
charge is enough if P gives the unit's own words a chance of delta at most, and on all else, for
every order a,

    E_Q[(P / Q)^a exp(-a (a - 1) c)] <= 1,    and the same with P and Q exchanged:

approximate zCDP (Bun, Steinke 2016, definition 8.1) with a charge that follows from the outcome.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dpicl_rag import Document, PrivateContextLLM, configuration
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.answering import answer_plan, ladder, support
from dpicl_rag.answering.ladder import Ladder
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.auditing.worst_models import SyntheticRows
from dpicl_rag.knowledge.answer_file import Entry
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.privacy_filters import FixedFilter, IndividualFilter
from dpicl_rag.mechanisms.private_counts import Agreed, Agreement
from dpicl_rag.mechanisms.randomness import Randomness
from tests.support.scored_units import distribution, gaussian_pmf
from tests.support.top_counts import enumerate_top_counts
from tests.unit.mechanisms.test_agreement import released
from tests.unit.retrieval.test_private_distributions import deficit

END, SIZE = 3, 4
BOTH = pytest.mark.parametrize("accounting", ["individual", "fixed"])
WAYS = pytest.mark.parametrize("counts", ["ladder", "top count"], indirect=True)
OTHERS = ("a", "a", "a", "b")
LIKELY = 1e-24
# So much that the steps of a ladder have little noise, and few outcomes.
MUCH = {"epsilon": 12.0, "delta": 0.01, "units": 6, "max_tokens": 2}
# "a" is no name, and what was released takes three tokens.
NAMED = {"named": "b", "agreement": "only", "max_tokens": 3}
# The same where the public row does not say it to the question that is asked; it gets a full stop.
NEAR = {**NAMED, "recalled": "nothing!", "max_tokens": 4}


def speech(text: str, drawn: tuple[int, ...]) -> list[float]:
    """A document spells its last letter and ends; what has none ends at once."""
    letter = text[-1:]
    if not letter or letter not in "abc" or " " not in text:
        return [0.0] * END + [6.0]
    said = ord(letter) - ord("a") if not drawn else END
    return [4.0 if token == said else 0.0 for token in range(SIZE)]


MODEL = SyntheticModel(SIZE, speech, frozenset({END}))


class Coins(Randomness):
    """Every coin is a choice that the enumeration makes."""

    def __init__(self, choose):
        self.choose = choose

    def draw(self, scores):
        return self.choose(list(enumerate(scores.softmax(-1).tolist())))


class Book:
    """A ledger's hold: what each unit pays, and what thresholds cost."""

    def __init__(self, rho, delta, units, spent):
        self.rho, self.delta, self.units, self.spent = rho, delta, units, spent
        self.limits = None if units is None else [rho - spent[unit] for unit in units]

    def holds_delta(self, delta):
        return delta <= self.delta

    def commit(self, most, unit_rho=None, *, delta):
        self.spent["delta"] += delta
        for at, unit in enumerate(self.spent if self.units is None else self.units):
            if unit != "delta":
                self.spent[unit] += most if unit_rho is None else unit_rho[at]

    def close(self):
        pass


@pytest.fixture(autouse=True)
def shares(monkeypatch):
    """The pool of a budget has more to give, so that thresholds are low, and top counts too."""
    more = replace(SHARES, threshold_pool=0.5, answers=1, early_threshold=0.4, top_counts=(0.15,))
    for module in (configuration, answer_plan, ladder):
        monkeypatch.setattr(module, "SHARES", more)


@pytest.fixture(autouse=True)
def counts(request, monkeypatch):
    """What is counted: every step of a ladder, as without a ledger, or a top count before it."""
    if getattr(request, "param", "ladder") == "ladder":

        def behind(rho, delta, stability, adjacency, keys, **_):
            first = SHARES.first_threshold * MUCH["units"]
            return Ladder.within(rho, delta, first, stability, adjacency)

        monkeypatch.setattr(Ladder, "behind_top_count", staticmethod(behind))


@pytest.fixture
def trace(monkeypatch):
    """What each count has released, in order; every outcome of it is a choice."""
    seen: list[tuple[str, int] | str | None] = []
    tables: dict = {}

    def draw(self, held, randomness):
        keys = sorted(key for (key,) in held)
        asked = self, tuple(keys)
        if asked not in tables:
            tables[asked] = list(released(self, keys).items())
        law = tables[asked]
        found, _ = law[randomness.choose([(at, chance) for at, (_, chance) in enumerate(law)])]
        seen.append(found)
        return [] if found is None else [Agreed(*found, within=1)]

    def noise(self, randomness):
        return randomness.choose(
            list(gaussian_pmf(self.sigma, math.ceil(8 * self.sigma), fine=self.fine).items())
        )

    monkeypatch.setattr(Agreement, "draw", draw)
    enumerate_top_counts(monkeypatch, seen)
    monkeypatch.setattr(DiscreteGaussian, "draw", noise)
    return seen


class Earlier:
    """Public knowledge of what was released so far."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def recall(self, question: str) -> list[str]:
        return list(self.texts)


class Named(Earlier):
    """A memory in which names alone were released to another question."""

    memory = property(lambda self: self)

    def __init__(self, answer: str, recalled: str | None) -> None:
        when = datetime(2026, 11, 25, tzinfo=UTC)
        self.texts = [recalled or f"says {answer}"]
        self.entry = Entry(1, "", None, "who?", answer, 1.0, 0.0, when, True, False)

    def require_documents(self, *_) -> None:
        pass

    def published(self, *_) -> None:
        return None

    def same(self, *_) -> None:
        return None

    def nearest(self, question: str) -> list[Entry]:
        return [self.entry]

    def keep(self, *_) -> None:
        pass


def views(
    trace,
    words,
    unit=None,
    questions=1,
    likely=LIKELY,
    question="how?",
    named=None,
    recalled=None,
    model=MODEL,
    **settings,
):
    """Distribution of all that is released, and of what unit ``u`` paid; and the delta booked."""
    said = [Document(f"says {word}", f"other {at}") for at, word in enumerate(words)]
    corpus = said if unit is None else [*said, Document(f"says {unit}", "u")]
    deltas = set()

    def run(choose):
        trace.clear()
        spent = dict.fromkeys([one.unit for one in said] + ["u", "delta"], 0.0)
        earlier = Earlier()

        class Books:
            def status(self):
                return []

            def reserve(self, *, rho, delta, units, **_):
                return Book(rho, delta, units, spent)

        given = {**MUCH, "agreement": "auto", **settings}
        knows = earlier if questions > 1 else None
        llm = PrivateContextLLM(model, randomness=Coins(choose), knowledge=knows, **given)
        llm._ledger = Books()
        if named is not None:
            llm._knowledge = Named(named, recalled)
        seen = []
        for _ in range(questions):
            answer = llm.answer(question, corpus)
            told = answer.text, answer.by, answer.supported, answer.agreeing, answer.parts
            seen.append(told)
            earlier.texts.append(answer.text)
        deltas.add(spent["delta"])
        return (tuple(trace), *seen), round(spent["u"], 12)

    return distribution(run, likely), max(deltas)


def keys(view):
    """What counts have released."""
    return [found[0] for found in view[0] if isinstance(found, tuple)]


def worst(trace, words, unit, **settings):
    """By how much the charge falls short, and the chance of the unit's own words less delta."""
    having, delta = views(trace, words, unit, **settings)
    without, _ = views(trace, words, **settings)
    alone = set() if unit in words else {unit}
    beyond, within = 0.0, {}
    for (view, paid), chance in having.items():
        if any(key in alone for key in keys(view)):
            beyond += chance
        else:
            within[view, paid] = chance
    return deficit(within, without), beyond - delta


@pytest.mark.one_in(3)
@BOTH
@WAYS
@pytest.mark.parametrize("unit", ["a", "b", "c", "nothing!"])
def test_a_unit_pays_for_all_that_it_shows(trace, accounting, unit):
    short, beyond = worst(trace, OTHERS, unit, accounting=accounting, agreement="only")
    assert short <= 1e-9
    assert beyond <= 1e-12


@pytest.mark.heavy
@BOTH
@WAYS
@pytest.mark.parametrize("unit", ["a", "c"])
def test_and_for_tokens_and_their_support_where_nobody_agrees(trace, accounting, unit):
    short, beyond = worst(trace, ("a", "a", "b"), unit, accounting=accounting)
    assert short <= 1e-9
    assert beyond <= 1e-12


@pytest.mark.heavy
@BOTH
@WAYS
def test_two_steps_are_reached_and_so_are_tokens(trace, accounting):
    found, delta = views(trace, OTHERS, "a", accounting=accounting)
    steps = {len([one for one in view[0] if not isinstance(one, str)]) for view, _ in found}
    assert steps >= {1, 2}
    assert {view[1][1] for view, _ in found} == {"agreement", "tokens"}
    assert delta <= 0.005


@pytest.mark.parametrize("unit", ["a", "c"])
def test_experts_that_are_asked_twice_have_one_vote(trace, monkeypatch, unit):
    """What chatter lets them say is nothing, so their vote comes at the second count."""
    honest = SyntheticRows.continue_each

    def continue_each(self, token_ids, most, asked):
        chatter = b"Hello" in bytes(token_ids)
        hears = [
            one and not (chatter and text[-1:] in "ac")
            for one, text in zip(asked, self._texts[1:], strict=True)
        ]
        return honest(self, token_ids, most, hears)

    monkeypatch.setattr(SyntheticRows, "continue_each", continue_each)
    settings = {"agreement": "only", "question": "Hello. how?"}
    short, beyond = worst(trace, OTHERS, unit, accounting="individual", **settings)
    assert short <= 1e-9
    assert beyond <= 1e-12


@pytest.mark.heavy
@BOTH
def test_two_sentences_are_two_answers(trace, accounting):
    settings = {"accounting": accounting, "agreement": "only", "sentences": 2, "max_tokens": 6}
    for unit in ("a", "c"):
        short, beyond = worst(trace, ("a", "a", "b"), unit, **settings)
        assert short <= 1e-9
        assert beyond <= 1e-12


@pytest.mark.heavy
@BOTH
@pytest.mark.parametrize("unit", ["a", "c"])
def test_an_answer_that_knows_the_first_is_paid_for_too(trace, accounting, unit):
    # The likely words of one law may be this unlikely in the other.
    settings = {"accounting": accounting, "agreement": "only", "questions": 2, "likely": 1e-60}
    short, beyond = worst(trace, ("a", "a", "a"), unit, **settings)
    assert short <= 1e-9
    assert beyond <= 1e-12


@pytest.fixture
def near_line(monkeypatch):
    """One unit more or less decides at about even odds: hardly any of the price is spare."""
    monkeypatch.setattr(support, "_LINE_AGAIN", 0.42)


@pytest.mark.heavy
@BOTH
@pytest.mark.usefixtures("near_line")
@pytest.mark.parametrize("asked", [NAMED, NEAR])
@pytest.mark.parametrize("unit", ["b", "c"])
def test_experts_that_name_what_was_released_are_paid_for(trace, accounting, unit, asked):
    short, beyond = worst(trace, ("b", "b", "b"), unit, **asked, accounting=accounting)
    assert short <= 1e-9
    assert beyond <= 1e-12


@pytest.mark.heavy
@BOTH
@pytest.mark.usefixtures("near_line")
@pytest.mark.parametrize("asked", [NAMED, NEAR])
def test_names_are_confirmed_and_are_not(trace, accounting, asked):
    found, _ = views(trace, ("b", "b", "b"), "b", **asked, accounting=accounting)
    assert {view[1][1] for view, _ in found} >= {"memory", "agreement"}


def test_a_replaced_unit_is_one_that_goes_and_one_that_comes(trace):
    settings = {"accounting": "fixed", "adjacency": "replace_one", "agreement": "only"}
    for left, right in (("a", "b"), ("b", "c"), ("c", "d")):
        one, delta = views(trace, OTHERS, left, **settings)
        other, _ = views(trace, OTHERS, right, **settings)
        for law, own, beside in ((one, left, other), (other, right, one)):
            alone = set() if own in OTHERS else {own}
            kept = {
                seen: chance
                for seen, chance in law.items()
                if not any(key in alone for key in keys(seen[0]))
            }
            assert sum(law.values()) - sum(kept.values()) <= delta
            rest = {
                seen: chance
                for seen, chance in beside.items()
                if not any(key not in OTHERS for key in keys(seen[0]))
            }
            assert deficit(kept, rest) <= 1e-9


# Planted faults.


def paying_once(kind):
    """A filter that pays for the first count of votes alone."""
    honest = kind.pay_votes

    def pay_votes(self, rho, voting, delta):
        first, self.counted = not getattr(self, "counted", False), True
        return honest(self, rho if first else 0.0, voting, delta)

    return pay_votes


@pytest.mark.heavy
@WAYS
@pytest.mark.parametrize("kind", [IndividualFilter, FixedFilter])
def test_a_ladder_that_is_paid_once_is_seen(trace, monkeypatch, kind):
    monkeypatch.setattr(kind, "pay_votes", paying_once(kind))
    accounting = "fixed" if kind is FixedFilter else "individual"
    assert worst(trace, OTHERS, "b", accounting=accounting, agreement="only")[0] > 0.01


@pytest.mark.heavy
@pytest.mark.parametrize("counts", ["top count"], indirect=True)
@pytest.mark.parametrize("kind", [IndividualFilter, FixedFilter])
def test_a_top_count_that_nobody_pays_for_is_seen(trace, monkeypatch, kind):
    honest = kind.pay_votes

    def pay_votes(self, rho, voting, delta):
        return honest(self, rho if delta else 0.0, voting, delta)

    monkeypatch.setattr(kind, "pay_votes", pay_votes)
    accounting = "fixed" if kind is FixedFilter else "individual"
    assert worst(trace, ("a", "a", "b"), "a", accounting=accounting, agreement="only")[0] > 0.01


@pytest.mark.heavy
@WAYS
def test_a_threshold_one_lower_is_seen(trace, monkeypatch):
    within = Agreement.within

    def lower(*given, **more):
        step = within(*given, **more)
        return replace(step, threshold=step.threshold - 1)

    monkeypatch.setattr(Agreement, "within", staticmethod(lower))
    assert worst(trace, OTHERS, "c", agreement="only")[1] > 1e-6


@pytest.mark.heavy
@WAYS
def test_delta_that_nobody_books_is_seen(trace, monkeypatch):
    commit = Book.commit
    monkeypatch.setattr(
        Book, "commit", lambda self, *given, delta, **more: commit(self, *given, delta=0.0, **more)
    )
    assert worst(trace, OTHERS, "c", agreement="only")[1] > 1e-9


@pytest.mark.heavy
@WAYS
def test_a_unit_that_votes_and_does_not_pay_is_seen(trace, monkeypatch):
    honest = IndividualFilter.pay_votes

    def pay_votes(self, rho, voting, delta):
        honest(self, rho, voting & False, delta)
        return voting

    monkeypatch.setattr(IndividualFilter, "pay_votes", pay_votes)
    assert worst(trace, OTHERS, "a", agreement="only")[0] > 0.01


@pytest.mark.heavy
@pytest.mark.usefixtures("near_line")
@pytest.mark.parametrize("asked", [NAMED, NEAR])
@pytest.mark.parametrize("kind", [IndividualFilter, FixedFilter])
def test_names_that_are_counted_at_half_their_price_are_seen(trace, monkeypatch, kind, asked):
    honest = kind.pay_aside
    monkeypatch.setattr(kind, "pay_aside", lambda self, rho, *given: honest(self, rho / 2, *given))
    accounting = "fixed" if kind is FixedFilter else "individual"
    assert worst(trace, ("b", "b", "b"), "b", **asked, accounting=accounting)[0] > 0.001


@pytest.mark.heavy
@pytest.mark.usefixtures("near_line")
def test_names_without_a_charge_for_those_that_name_are_seen(trace, monkeypatch):
    honest = IndividualFilter.pay_aside

    def pay_aside(self, rho, counted):
        honest(self, rho, counted & False)
        return counted

    monkeypatch.setattr(IndividualFilter, "pay_aside", pay_aside)
    assert worst(trace, ("b", "b", "b"), "b", **NAMED)[0] > 0.001


def test_words_of_a_unit_beside_the_form_are_seen(trace, monkeypatch):
    """A released sentence as the first of its units worded it."""
    found = {}

    def show(form, question, *, begins):
        return form + found["all"]

    draw = Agreement.draw

    def drawn(self, held, randomness):
        found["all"] = "".join(sorted(key for (key,) in held))
        return draw(self, held, randomness)

    monkeypatch.setattr("dpicl_rag.answering.whole_answers.shown_form", show)
    monkeypatch.setattr(Agreement, "draw", drawn)
    assert worst(trace, OTHERS, "b", agreement="only", max_tokens=12)[0] > 1.0
