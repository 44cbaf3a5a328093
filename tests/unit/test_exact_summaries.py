"""What a summary tells of a unit is what it is charged, exactly: subjects, themes and sentences.

As in `tests.unit.test_exact_keys` every noise is enumerated, with and without a unit. A unit says
the words before a colon where it is asked what it is about, and those behind it where it is asked
why it was written. Only the number of units is not counted here: searches have tests of their own.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpicl_rag import Document, PrivateContextLLM
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.ledger.account import Account
from dpicl_rag.mechanisms import private_counts
from dpicl_rag.mechanisms.private_counts import Histogram
from dpicl_rag.retrieval.retrievers import all_units
from dpicl_rag.surveys import count_plans, summaries, surveying
from dpicl_rag.surveys.vocabulary import Theme
from tests.support.scored_units import distribution, gaussian_pmf
from tests.support.scripted_reader import ScriptedReader, document_of
from tests.unit.retrieval.test_private_distributions import deficit
from tests.unit.test_exact_agreement import Book
from tests.unit.test_exact_keys import trace
from tests.unit.test_exact_spending import Coins
from tests.unit.test_exact_surveys import Letters

__all__ = ["trace"]

MUCH = {"epsilon": 12.0, "delta": 0.01}
MORE = {"epsilon": 60.0, "delta": 0.01, "likely": 1e-60}  # few noises of three counts are likely
LIKELY = 1e-24
FEW = ("dog: aa bb", "cat: bb", "sun: aa")
BOTH = ("dog: aa bb", "cat: aa bb")
MANY = ("dog: aa bb", "dog: aa", "cat: bb", "cat: bb", "sun: aa")
HEAVY = pytest.mark.heavy
DOG, CAT = (
    Theme((word,), np.eye(3, dtype=np.float32)[at]) for at, word in enumerate(("dog", "cat"))
)


def said(prompt):
    """What a document is about, or why it was written."""
    subject, _, why = document_of(prompt).partition(": ")
    return subject if "short phrases" in prompt else why


class Tosses(Coins):
    """A word of several is chosen by a coin that is fair."""

    def below(self, bound):
        return self.choose([(number, 1 / bound) for number in range(bound)])


@pytest.fixture(autouse=True)
def made_up(trace, monkeypatch):
    """All units are read, thresholds are low, and every noise on counts of themes is a choice."""

    def draw(self, counts, randomness):
        sigma = self.noise.sigma
        pmf = list(gaussian_pmf(sigma, math.ceil(12 * sigma)).items())
        noisy = [count + randomness.choose(pmf) for count in counts]
        trace.append((("counts", tuple(noisy)),))
        return noisy

    more = replace(SHARES, threshold_pool=0.5, answers=1)
    monkeypatch.setattr("dpicl_rag.configuration.SHARES", more)
    monkeypatch.setattr(summaries, "SentenceTransformerEmbedder", Letters)
    monkeypatch.setattr(summaries, "_search", lambda documents, run: all_units(documents))
    monkeypatch.setattr(Histogram, "draw", draw)


@pytest.fixture
def told_themes(monkeypatch):
    """Two themes that cost nothing: what is left is what units say of them."""
    words = {"dog": 9, "cat": 9}
    least = replace(count_plans.SHARES, summary_words=1e-3, summary_themes=1e-3)
    monkeypatch.setattr(count_plans, "SHARES", least)
    honest = Account.pay

    def pay(self, rho, *given, delta=0.0):
        honest(self, rho, *given, delta=delta if rho == 0 or rho > 0.01 else 0.0)

    monkeypatch.setattr(Account, "pay", pay)
    monkeypatch.setattr(summaries, "subject_words", lambda *_: ())
    monkeypatch.setattr(summaries, "themes_of", lambda *_: [DOG, CAT])
    monkeypatch.setattr(
        summaries, "Surveyed", lambda themes, _, counts: surveying.Surveyed(themes, words, counts)
    )
    monkeypatch.setattr(Histogram, "draw", lambda *_: [9, 8, 0])


@pytest.fixture
def unasked_themes(monkeypatch):
    """Nobody is asked on: what is left is what units are about."""
    monkeypatch.setattr(summaries, "_largest", lambda survey: [])


def views(trace, words, unit=None, likely=LIKELY, **settings):
    """Distribution of all that is released, and of what ``u`` paid; and the delta booked."""
    corpus = [Document(word, f"other {at}") for at, word in enumerate(words)]
    corpus += [] if unit is None else [Document(unit, "u")]
    deltas = set()

    def run(choose):
        trace.clear()
        spent = dict.fromkeys([one.unit for one in corpus] + ["u", "delta"], 0.0)

        class Books:
            def status(self):
                return []

            def reserve(self, *, rho, delta, units, **_):
                return Book(rho, delta, units, spent)

        model = SyntheticModel(3, lambda *_: [0.0] * 3)
        given = {"reader": ScriptedReader(said), "randomness": Tosses(choose), **MUCH, **settings}
        llm = PrivateContextLLM(model, **given)
        llm._ledger = Books()
        found = llm.summarise(None, corpus)
        deltas.add(spent["delta"])
        told = tuple((one.title, *one.agreed.items()) for one in found.themes)
        return (tuple(trace), told, found.text, found.rho), round(spent["u"], 12)

    return distribution(run, likely), max(deltas)


def keys(view):
    """What was released of units by their own words."""
    return {key for found in view[0] for key, _ in found if key != "counts"}


def worst(trace, words, unit, **settings):
    """By how much the charge falls short, and the chance of the unit's own words less delta."""
    having, delta = views(trace, words, unit, **settings)
    without, _ = views(trace, words, **settings)
    common = {key for view, _ in without for key in keys(view)}
    within = {seen: chance for seen, chance in having.items() if keys(seen[0]) <= common}
    return deficit(within, without), sum(having.values()) - sum(within.values()) - delta


SENTENCES = pytest.mark.usefixtures("told_themes")
SUBJECTS = pytest.mark.usefixtures("unasked_themes")


@SENTENCES
@pytest.mark.parametrize(
    ("words", "unit"),
    [
        (FEW, "cat: aa bb"),
        pytest.param(BOTH, "dog cat: aa bb", marks=HEAVY),
        (FEW, "nothing: bb"),
    ],
)
def test_a_unit_pays_for_what_it_says_of_its_theme(trace, words, unit):
    short, beyond = worst(trace, words, unit)
    assert short <= 1e-9
    assert beyond <= 1e-12


@SENTENCES
def test_a_unit_pays_for_itself_where_not_all_can(trace):
    short, beyond = worst(trace, FEW, "cat: aa bb", accounting="individual")
    assert short <= 1e-9
    assert beyond <= 1e-12


@HEAVY
@SENTENCES
@pytest.mark.parametrize("unit", ["dog: aa bb", "cat: aa bb", "dog cat: bb", "dog: cc"])
def test_a_unit_pays_for_what_it_says_among_many(trace, unit):
    short, beyond = worst(trace, MANY, unit)
    assert short <= 1e-9
    assert beyond <= 1e-12


@HEAVY
@SENTENCES
def test_a_replaced_unit_pays_for_what_it_says(trace):
    laws = [views(trace, FEW, unit, adjacency="replace_one")[0] for unit in ("dog: aa", "cat: bb")]
    assert deficit(*laws) <= 1e-9


@SUBJECTS
@pytest.mark.parametrize(
    ("words", "unit"),
    [
        (("dog: aa",), "nothing: aa"),
        pytest.param(("dog: aa", "dog: aa"), "dog: aa", marks=HEAVY),
        pytest.param(("dog: aa", "cat: bb"), "dog cat: aa", marks=HEAVY),
        pytest.param(("dog: aa",), "sun: aa", marks=HEAVY),
    ],
)
def test_a_unit_pays_for_what_it_is_about(trace, words, unit):
    """Its word is counted, and the theme that it is of, by noises of their own."""
    short, beyond = worst(trace, words, unit, **MORE)
    assert short <= 1e-9
    assert beyond <= 1e-12


@HEAVY
@SUBJECTS
def test_a_replaced_unit_pays_for_what_it_is_about(trace):
    words = ("dog: aa", "cat: bb")
    given = {"adjacency": "replace_one", **MORE}
    laws = [views(trace, words, one, **given)[0] for one in ("dog: aa", "cat: aa")]
    assert deficit(*laws) <= 1e-9


@HEAVY
def test_all_that_a_summary_releases_is_paid_for_together(trace):
    """Whether units are asked follows from their number, which was released."""
    for accounting in (None, "individual"):
        given = {"accounting": accounting, **MORE}
        short, beyond = worst(trace, ("dog: aa",), "dog: aa", **given)
        assert short <= 1e-9
        assert beyond <= 1e-12


# Planted faults.


@HEAVY
@SENTENCES
def test_a_unit_that_is_asked_for_two_themes_is_seen(trace, monkeypatch):
    honest = summaries._Asking.votes

    def votes(self, largest, theme_of, units):
        return [
            vote
            for theme in largest
            for vote in honest(self, [theme], [theme for _ in theme_of], units)
        ]

    monkeypatch.setattr(summaries._Asking, "votes", votes)
    assert worst(trace, BOTH, "dog cat: aa bb")[0] > 0.01


@HEAVY
@SUBJECTS
def test_a_unit_whose_words_are_all_counted_is_seen(trace, monkeypatch):
    monkeypatch.setattr(private_counts, "bounded", lambda own, *_: list(own))
    assert worst(trace, ("dog: aa", "cat: bb"), "dog cat: aa", **MORE)[0] > 0.01


@HEAVY
@SENTENCES
def test_sentences_that_are_not_paid_for_are_seen(trace, monkeypatch):
    monkeypatch.setattr(Account, "pay", lambda *_, **__: None)
    assert worst(trace, FEW, "cat: bb")[0] > 0.01
