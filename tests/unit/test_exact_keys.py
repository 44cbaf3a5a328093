"""Answers of several keys, exactly: what a unit shows by all of its keys is what it pays.

As in `tests.unit.test_exact_agreement` the whole private path runs with every coin enumerated, here
of a model that can be silent: to a question for a list or a reason each unit votes for several
words, and all that reach the threshold are released, with their counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest

from dpicl_rag import Rehearsal
from dpicl_rag.answering import private_run
from dpicl_rag.answering.canonical_form import SentenceVote
from dpicl_rag.answering.ladder import Ladder
from dpicl_rag.answering.question import Question
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.private_counts import Agreement
from tests.support.scored_units import gaussian_pmf
from tests.support.top_counts import enumerate_top_counts
from tests.unit.retrieval.test_private_distributions import deficit
from tests.unit.test_exact_agreement import shares, views

__all__ = ["shares"]

SPACE, END, SIZE = 26, 27, 28
BOTH = pytest.mark.parametrize("accounting", ["individual", "fixed"])
WAYS = pytest.mark.parametrize("counts", ["alone", "top count"], indirect=True)
LIST, REASON = "Which words are said?", "Why?"
OTHERS = ("aa bb", "aa bb", "aa")
LIKELY = 1e-24


def speech(text: str, drawn: tuple[int, ...]) -> list[float]:
    """A document spells its words and ends; what it has in brackets it says backwards."""
    words = text.split()[1:] if text.startswith("says ") else []
    told = "{".join(word[-2:0:-1] if word.startswith("(") else word for word in words)
    said = ord(told[len(drawn)]) - ord("a") if len(drawn) < len(told) else END
    return [6.0 if token == said else -6.0 for token in range(SIZE)]


MODEL = SyntheticModel(SIZE, speech, frozenset({END}))
SETTINGS = {"model": MODEL, "likely": LIKELY, "max_tokens": 12, "agreement": "only"}


class Noisy:
    """A count whose noise is a choice, made once it is compared: what is below is one outcome."""

    def __init__(self, count: int, noise: Noise) -> None:
        self._law = {count + shift: chance for shift, chance in noise.law.items()}
        self._choose = noise.choose
        self.value: int | None = None

    def _below(self, least: int) -> float:
        return math.fsum(chance for value, chance in self._law.items() if value < least)

    def __ge__(self, threshold: int) -> bool:
        seen = [(value, chance) for value, chance in self._law.items() if value >= threshold]
        self.value = self._choose([(None, self._below(threshold)), *seen])
        return self.value is not None

    def __lt__(self, other: Noisy) -> bool:
        return self.value < other.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Noisy) and self.value == other.value

    __hash__ = None


@dataclass(frozen=True)
class Noise:
    """Noise that is not drawn yet, and who chooses it."""

    law: Mapping[int, float]
    choose: Callable

    def __radd__(self, count: int) -> Noisy:
        return Noisy(count, self)


@pytest.fixture(autouse=True)
def silent(monkeypatch):
    knows = Rehearsal(told=10, right=10, right_by_default=10, far=10, silent=10)
    monkeypatch.setattr(private_run, "rehearsal_of", lambda model: knows)


@pytest.fixture(autouse=True)
def counts(request, monkeypatch):
    """What is counted: keys alone, as without a ledger, or a top count before them."""
    if getattr(request, "param", "alone") == "alone":

        def behind(rho, delta, stability, adjacency, keys, **_):
            return Ladder.of_keys(rho, delta, keys, stability, adjacency)

        monkeypatch.setattr(Ladder, "behind_top_count", staticmethod(behind))


@pytest.fixture
def trace(monkeypatch):
    """What each count has released, in order; every outcome of it is a choice."""
    seen: list[tuple[tuple[str, int], ...] | str] = []
    honest = Agreement.draw

    def noise(self, randomness):
        return Noise(
            gaussian_pmf(self.sigma, math.ceil(12 * self.sigma), fine=self.fine), randomness.choose
        )

    def draw(self, held, randomness):
        found = [replace(one, count=one.count.value) for one in honest(self, held, randomness)]
        seen.append(tuple((one.key, one.count) for one in found))
        return found

    monkeypatch.setattr(DiscreteGaussian, "draw", noise)
    monkeypatch.setattr(Agreement, "draw", draw)
    enumerate_top_counts(monkeypatch, seen, cheaper=False)
    return seen


def keys(view):
    """What counts have released."""
    return {key for found in view[0] if isinstance(found, tuple) for key, _ in found}


def worst(trace, words, unit, question, **settings):
    """By how much the charge falls short, and the chance of the unit's own words less delta."""
    given = {**SETTINGS, "question": question, **settings}
    having, delta = views(trace, words, unit, **given)
    without, _ = views(trace, words, **given)
    common = {key for view, _ in without for key in keys(view)}
    within = {seen: chance for seen, chance in having.items() if keys(seen[0]) <= common}
    return deficit(within, without), sum(having.values()) - sum(within.values()) - delta


@pytest.mark.one_in(2)
@WAYS
def test_a_unit_pays_for_both_of_its_keys(trace):
    short, beyond = worst(trace, OTHERS, "aa bb", REASON)
    assert short <= 1e-9
    assert beyond <= 1e-12


def test_keys_of_a_unit_alone_have_a_tail_each(trace):
    short, beyond = worst(trace, ("aa",), "bb cc", REASON)
    assert short <= 1e-9
    assert beyond <= 1e-12


@pytest.mark.heavy
@BOTH
@WAYS
@pytest.mark.parametrize(
    ("words", "unit", "question"),
    [
        (OTHERS, "aa bb", REASON),
        (OTHERS, "aa cc", REASON),
        (("aa", "aa", "aa"), "cc dd", REASON),
        (OTHERS, "aa bb (cc)", REASON),
        (("aa", "bb", "aa cc"), "aa bb cc", LIST),
        (("aa", "aa bb"), "aa cc dd", LIST),
        (("aa",), "bb cc dd ee", LIST),
    ],
)
def test_a_unit_pays_for_all_that_its_keys_show(trace, accounting, words, unit, question):
    short, beyond = worst(trace, words, unit, question, accounting=accounting)
    assert short <= 1e-9
    assert beyond <= 1e-12


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("left", "right"), [("aa bb", "bb cc"), ("aa bb", "cc dd"), ("cc", "aa bb")]
)
def test_a_replaced_unit_takes_its_keys_and_brings_others(trace, left, right):
    given = {**SETTINGS, "question": REASON, "accounting": "fixed", "adjacency": "replace_one"}
    one, delta = views(trace, OTHERS, left, **given)
    other, _ = views(trace, OTHERS, right, **given)
    common = set(left.split()) & set(right.split()) | {"aa", "bb"}
    kept, rest = (
        {seen: chance for seen, chance in law.items() if keys(seen[0]) <= common}
        for law in (one, other)
    )
    beyond = sum(one.values()) + sum(other.values()) - sum(kept.values()) - sum(rest.values())
    assert beyond <= delta
    assert deficit(kept, rest) <= 1e-9


def test_what_is_released_stands_in_a_document(trace):
    """Its expert says "ba", and the document "(ab)": nobody states that."""
    found, _ = views(trace, ("aa (ab)",) * 3, **SETTINGS, question=REASON)
    assert {key for view, _ in found for key in keys(view)} == {"aa"}


# Planted faults.


def test_the_sensitivity_of_one_key_is_seen(trace, monkeypatch):
    within = Agreement.within

    def loud(rho, delta, stability, adjacency, keys=1, **_):
        return replace(within(rho * keys, delta, stability, adjacency, keys), rho=rho)

    monkeypatch.setattr(Agreement, "within", staticmethod(loud))
    assert worst(trace, OTHERS, "aa bb", REASON)[0] > 0.01


@pytest.mark.heavy
def test_the_tail_of_one_key_is_seen(trace, monkeypatch):
    within = Agreement.within

    def lone(rho, delta, stability, adjacency, keys=1, **_):
        step = within(rho, delta, stability, adjacency, keys)
        return replace(step, delta=step.delta / keys)

    monkeypatch.setattr(Agreement, "within", staticmethod(lone))
    assert worst(trace, ("aa", "aa"), "bb cc", REASON)[1] > 1e-6


@pytest.mark.heavy
def test_a_unit_of_more_keys_than_it_pays_for_is_seen(trace, monkeypatch):
    monkeypatch.setattr(Question, "keys_counted", property(lambda self: 1))
    draw = Agreement.draw
    monkeypatch.setattr(Agreement, "draw", lambda self, *given: draw(replace(self, keys=2), *given))
    assert worst(trace, OTHERS, "aa bb", REASON)[0] > 0.01


def test_a_key_that_no_document_states_is_seen(trace, monkeypatch):
    honest = SentenceVote.within
    monkeypatch.setattr(SentenceVote, "within", lambda self, *_: honest(self, self.words))
    found, _ = views(trace, ("aa (ab)",) * 3, **SETTINGS, question=REASON)
    assert {key for view, _ in found for key in keys(view)} == {"aa", "ba"}


def test_the_words_of_a_unit_beside_the_keys_are_seen(trace, monkeypatch):
    """A sentence that is written over what units say, and not over what was released."""
    found: dict = {}
    draw = Agreement.draw

    def drawn(self, held, randomness):
        found["all"] = sorted(key for own in held for key in own)
        return draw(self, held, randomness)

    monkeypatch.setattr(Agreement, "draw", drawn)
    monkeypatch.setattr(
        "dpicl_rag.answering.whole_answers.written_sentence", lambda *_: " ".join(found["all"])
    )
    assert worst(trace, ("aa", "aa"), "aa bb", REASON, max_tokens=40)[0] > 1.0
