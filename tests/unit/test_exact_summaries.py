"""What a summary tells of a unit is what it is charged, exactly: its survey and its sentences.

As in `tests.unit.test_exact_keys` every noise is enumerated, with and without a unit. A unit is of
the themes before a colon, and says the words behind it.
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
from dpicl_rag.surveys import summaries, surveying
from dpicl_rag.surveys.vocabulary import Theme, nearest_words
from tests.support.scored_units import distribution, gaussian_pmf
from tests.support.scripted_reader import ScriptedReader, document_of
from tests.unit.retrieval.test_private_distributions import deficit
from tests.unit.test_exact_agreement import Book
from tests.unit.test_exact_keys import trace
from tests.unit.test_exact_spending import Coins
from tests.unit.test_exact_surveys import Letters

__all__ = ["trace"]

MUCH = {"epsilon": 12.0, "delta": 0.01}
LIKELY = 1e-24
FEW = ("dog: aa", "cat: bb", "sun: aa")
BOTH = ("dog: aa bb", "cat: aa bb")
MANY = ("dog: aa bb", "dog: aa", "cat: bb", "cat: bb", "sun: aa")
HEAVY = pytest.mark.heavy
DOG, CAT = (
    Theme((word,), np.eye(3, dtype=np.float32)[at]) for at, word in enumerate(("dog", "cat"))
)


def said(prompt):
    """The words behind the colon of a document."""
    return document_of(prompt).partition(": ")[2]


@pytest.fixture(autouse=True)
def made_up(monkeypatch):
    """Two public themes, which cost nothing here: what is left is what units say of them."""
    more = replace(SHARES, threshold_pool=0.5, answers=1)
    monkeypatch.setattr("dpicl_rag.configuration.SHARES", more)
    monkeypatch.setattr(summaries, "SentenceTransformerEmbedder", Letters)
    found = surveying.Surveyed([DOG, CAT], {"dog": 9, "cat": 9}, [9, 8, 0])
    monkeypatch.setattr(summaries, "surveyed", lambda *_: found)


def views(trace, words, unit=None, **settings):
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
        given = {"reader": ScriptedReader(said), "randomness": Coins(choose), **MUCH, **settings}
        llm = PrivateContextLLM(model, **given)
        llm._ledger = Books()
        found = llm.summarise(None, corpus)
        deltas.add(spent["delta"])
        told = tuple((one.title, *one.agreed.items()) for one in found.themes)
        return (tuple(trace), told, found.text, found.rho), round(spent["u"], 12)

    return distribution(run, LIKELY), max(deltas)


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


@HEAVY
@pytest.mark.parametrize("unit", ["dog: aa bb", "cat: aa bb", "dog cat: bb", "dog: cc"])
def test_a_unit_pays_for_what_it_says_among_many(trace, unit):
    short, beyond = worst(trace, MANY, unit)
    assert short <= 1e-9
    assert beyond <= 1e-12


@HEAVY
def test_a_replaced_unit_pays_for_what_it_says(trace):
    laws = [views(trace, FEW, unit, adjacency="replace_one")[0] for unit in ("dog: aa", "cat: bb")]
    assert deficit(*laws) <= 1e-9


@HEAVY
def test_the_survey_and_the_sentences_behind_it_are_paid_for_together(trace, monkeypatch):
    """Whether units are asked follows from their number, which was released."""

    def surveyed(blocks, vocabulary, plan, votes, account, coins):
        counts = nearest_words(blocks, DOG.vector[None], 1, surveying.NEAR)
        account.pay(plan.price("themes"))
        sigma = plan.mechanism.shares.noise.sigma
        pmf = gaussian_pmf(sigma, math.ceil(8 * sigma))
        noisy = [count + coins.choose(list(pmf.items())) for count in counts]
        trace.append((("counts", tuple(noisy)),))
        return surveying.Surveyed([DOG], {"dog": 9}, noisy)

    monkeypatch.setattr(summaries, "surveyed", surveyed)
    short, beyond = worst(trace, ("dog: aa", "sun: aa"), "dog: aa")
    assert short <= 1e-9
    assert beyond <= 1e-12


# Planted faults.


@HEAVY
def test_a_unit_that_is_counted_in_two_themes_is_seen(trace, monkeypatch):
    honest = summaries.members_of

    def members(documents, embedder, themes, unit):
        return [honest(documents, embedder, themes[at : at + 1], unit)[0] for at in (0, 1)]

    monkeypatch.setattr(summaries, "members_of", members)
    assert worst(trace, BOTH, "dog cat: aa bb")[0] > 0.01


def test_sentences_that_are_not_paid_for_are_seen(trace, monkeypatch):
    monkeypatch.setattr(Account, "pay", lambda *_, **__: None)
    assert worst(trace, FEW, "cat: bb")[0] > 0.01
