"""What a survey shows of a unit is what every unit pays, exactly.

The whole path is enumerated with and without a unit, and with one in the place of another: words
that are counted, themes, units that are counted by theme, and the price. The law that a charge must
keep to is that of `tests.unit.test_exact_agreement`, without a delta.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from dpicl_rag import Document, PrivateContextLLM
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.ledger.account import Account
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.private_counts import Histogram
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.results import Estimate
from dpicl_rag.retrieval.base import CoinRate
from dpicl_rag.surveys import surveying, vocabulary
from dpicl_rag.surveys import tallies as vector_tally
from tests.support.scored_units import distribution, gaussian_pmf
from tests.support.scripted_reader import ScriptedReader, document_of
from tests.unit.retrieval.test_private_distributions import deficit
from tests.unit.test_exact_agreement import Book

LIKELY = 1e-36
SHOWN = []  # words as they were released
WORDS = ("dog", "cat", "sun")
TWO = WORDS[:2]
HEAVY = pytest.mark.heavy
OTHERS = ("dog", "dog cat", "sun")
SOME = ("dog", "cat", "sun", "dog cat", "nothing")
QUICK = [unit if unit == "dog" else pytest.param(unit, marks=HEAVY) for unit in SOME]
MUCH = {"epsilon": 12.0, "delta": 0.01}


class Letters:
    """Words are axes; a text lies between those that it names."""

    fingerprint = "letters"

    def embed(self, texts, *, query=False):
        rows = np.array([[float(word in text) for word in WORDS] for text in texts])
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


@pytest.fixture(autouse=True)
def made_up(monkeypatch):
    """Words are shown from 2 votes on, and noisy counts as they were drawn."""
    for room in (surveying, vector_tally):
        monkeypatch.setattr(room, "SentenceTransformerEmbedder", Letters)
    monkeypatch.setattr(Estimate, "of", staticmethod(lambda n, *_: Estimate(n, n, n)))


def no_theme(words, counts, vectors):
    SHOWN.extend(zip(words, counts, strict=True))
    return []


@pytest.fixture
def words_alone(monkeypatch):
    """No theme is made, so that what is counted by theme is the number of units alone."""
    monkeypatch.setattr(surveying, "themes_of", no_theme)


@pytest.fixture
def themes_alone(monkeypatch):
    """Every word is shown, whatever is counted, and costs nothing: the themes are public."""
    honest = surveying.surveyed

    def surveyed(blocks, vocabulary, plan, *given):
        counts = replace(plan.mechanism, words=_Free(plan.mechanism.words), least=0)
        parts = tuple(replace(one, rho=0.0) if one.name == "words" else one for one in plan.parts)
        free = replace(plan, mechanism=counts, parts=parts)
        return honest(blocks, vocabulary, free, *given)

    monkeypatch.setattr(surveying, "surveyed", surveyed)


class _Free:
    def __init__(self, histogram):
        self.rho, self.noise = 0.0, histogram.noise

    def draw(self, counts, randomness):
        return [5] * len(counts)


def views(
    words,
    unit=None,
    *,
    question=None,
    vocabulary=TWO,
    votes=1,
    sample=1.0,
    by="vectors",
    ask=None,
    before=0.0,
    **settings,
):
    """Distribution of all that is released, and of what ``u`` paid, who had paid before."""
    said = [Document(word, f"other {at}") for at, word in enumerate(words)]
    corpus = said if unit is None else [*said, Document(unit, "u")]

    def run(choose):
        SHOWN.clear()
        spent = dict.fromkeys([one.unit for one in said] + ["u", "delta"], 0.0) | {"u": before}

        class Books:
            def status(self):
                return []

            def reserve(self, *, rho, delta, units, **_):
                return Book(rho, delta, units, spent)

        def noise(self, randomness):
            pmf = gaussian_pmf(self.sigma, math.ceil(8 * self.sigma), fine=self.fine)
            return choose(list(pmf.items()))

        llm = PrivateContextLLM(SyntheticModel(3, lambda *_: [0.0] * 3), **{**MUCH, **settings})
        llm._ledger = Books()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DiscreteGaussian, "draw", noise)
            # The rate of samples here is a half.
            patch.setattr(Randomness, "uniform", lambda _: choose([(0.25, 0.5), (0.75, 0.5)]))
            if ask is not None:
                return ask(llm, corpus), round(spent["u"] - before, 12)
            given = {"vocabulary": vocabulary, "votes": votes, "sample": sample, "by": by}
            found = llm.survey(question, corpus, **given)
        shown = tuple(
            (tuple((word, count.units) for word, count in one.words.items()), one.units.units)
            for one in found.themes
        )
        return (tuple(SHOWN), shown, found.others.units), round(spent["u"] - before, 12)

    return distribution(run, LIKELY)


def worst(unit, **settings):
    """By how much the charge falls short."""
    return deficit(views(OTHERS, unit, **settings), views(OTHERS, **settings))


@pytest.mark.usefixtures("words_alone")
@pytest.mark.parametrize("unit", QUICK)
def test_words_and_the_number_of_units_are_paid_for(unit):
    assert worst(unit) <= 1e-9


EACH = {"accounting": "individual"}


@pytest.mark.usefixtures("words_alone")
@pytest.mark.parametrize("unit", QUICK)
def test_a_unit_pays_for_itself_where_not_all_can(unit):
    assert worst(unit, **EACH) <= 1e-9


@pytest.mark.usefixtures("words_alone")
@pytest.mark.parametrize("asked", [{}, {"ask": True}, pytest.param({"by": "model"}, marks=HEAVY)])
def test_a_unit_that_cannot_pay_takes_no_part(asked):
    views_of = tallies if asked else views
    if "by" in asked:
        views_of = partial(views, **BY_READER)
    spent = views_of(OTHERS, "dog", before=1e-6, **EACH)
    assert spent == pytest.approx(views_of(OTHERS, **EACH), abs=1e-12)


@pytest.mark.heavy
@pytest.mark.usefixtures("words_alone")
@pytest.mark.parametrize("unit", ["dog cat", "sun"])
def test_two_votes_are_paid_for(unit):
    assert worst(unit, vocabulary=WORDS, votes=2) <= 1e-9


@pytest.mark.heavy
@pytest.mark.usefixtures("words_alone")
@pytest.mark.parametrize("unit", ["dog", "nothing"])
def test_a_sample_of_units_is_paid_for(unit):
    assert worst(unit, sample=0.5) <= 1e-9


@pytest.mark.heavy
@pytest.mark.usefixtures("words_alone")
@pytest.mark.parametrize("unit", ["dog", "nothing"])
def test_a_unit_pays_for_itself_by_its_own_coin(unit):
    """Its coin may be thought of as released first: outside it is not there, and pays nothing."""
    having, without = (views(OTHERS, one, sample=0.5, **EACH) for one in (unit, None))
    inside = {seen: 2 * chance for seen, chance in having.items() if seen[1] > 0}
    outside = {seen: 2 * chance for seen, chance in having.items() if seen[1] == 0}
    assert outside == pytest.approx(without, abs=1e-12)
    assert deficit(inside, without) <= 1e-9


@pytest.mark.heavy
@pytest.mark.usefixtures("themes_alone")
@pytest.mark.parametrize(
    "unit", [pytest.param("dog", marks=pytest.mark.guard), "dog cat", "nothing"]
)
def test_units_that_are_counted_by_theme_are_paid_for(unit):
    assert worst(unit) <= 1e-9


@pytest.mark.heavy
@pytest.mark.parametrize("unit", ["dog", "nothing"])
def test_both_are_paid_for_together(unit, monkeypatch):
    monkeypatch.setattr(vocabulary, "_FAR", 2.0)  # one theme
    assert worst(unit) <= 1e-9


@pytest.mark.usefixtures("words_alone")
@pytest.mark.heavy
def test_one_in_the_place_of_another_is_paid_for():
    laws = [views(OTHERS, unit, adjacency="replace_one") for unit in ("dog", "cat", "nothing")]
    for left in laws:
        for right in laws:
            assert deficit(left, right) <= 1e-9


def tallies(words, unit=None, votes=1, **settings):
    """`views` of a tally by vectors."""

    def ask(llm, corpus):
        counts = llm.tally("", WORDS, corpus, by="vectors", most=votes).counts
        return tuple(count.units for count in counts.values())

    return views(words, unit, ask=ask, **settings)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("votes", [1, 2])
@pytest.mark.parametrize("unit", ["dog", "dog cat", "nothing"])
def test_a_tally_by_vectors_is_paid_for(unit, votes):
    given = {"votes": votes, "accounting": None if votes == 1 else "individual"}
    assert deficit(tallies(OTHERS, unit, **given), tallies(OTHERS, **given)) <= 1e-9


@pytest.mark.usefixtures("words_alone")
@pytest.mark.one_in(3)
@pytest.mark.parametrize("unit", ["dog", "sun", "nothing"])
def test_a_question_is_asked_of_each_unit_by_itself(unit):
    assert worst(unit, question="what of the sun?") <= 1e-9


def phrases(prompt):
    """The words of a document with commas between them; "nothing" says nothing."""
    said = document_of(prompt)
    return "NOTHING" if said == "nothing" else said.replace(" ", ", ")


BY_READER = {"by": "model", "reader": ScriptedReader(phrases)}


@pytest.mark.one_in(8)
@pytest.mark.usefixtures("words_alone")
@pytest.mark.parametrize("unit", QUICK)
def test_phrases_of_a_reader_are_paid_for(unit):
    assert worst(unit, **BY_READER) <= 1e-9
    assert worst(unit, **BY_READER, **EACH) <= 1e-9


@pytest.fixture
def size_shown(monkeypatch):
    """The noisy number of units is all that is shown; all of them are read."""
    monkeypatch.setattr(surveying, "surveyed", lambda *_: surveying.Surveyed([], {}, [0]))

    def of(count, most):
        SHOWN.append(count)
        return CoinRate(1, 1)

    monkeypatch.setattr(CoinRate, "of", staticmethod(of))


@pytest.mark.usefixtures("size_shown")
def test_the_number_of_units_by_which_calls_are_limited_is_paid_for():
    assert worst("nothing", max_calls=2, **BY_READER) <= 1e-9
    assert worst("nothing", max_calls=2, **BY_READER, **EACH) <= 1e-9


# Planted faults.


@pytest.mark.usefixtures("size_shown")
def test_a_limit_of_calls_that_is_not_paid_for_is_seen(monkeypatch):
    monkeypatch.setattr(Account, "pay", lambda *_, **__: None)
    assert worst("nothing", max_calls=2, **BY_READER) > 0.01


@pytest.mark.heavy
@pytest.mark.usefixtures("words_alone")
def test_a_call_that_sees_two_units_is_seen_in_a_survey():
    class Together(ScriptedReader):
        def replies(self, prompts, on_progress=None):
            return [max(super().replies(prompts))] * len(prompts)

    both = {"by": "model", "reader": Together(phrases)}
    assert deficit(views(("cat",) * 3, "dog", **both), views(("cat",) * 3, **both)) > 0.1


@pytest.mark.heavy
@pytest.mark.usefixtures("words_alone")
def test_votes_that_are_charged_as_one_are_seen(monkeypatch):
    within = Histogram.within

    def as_one(rho, labels, most, *reach, **more):
        return within(rho, labels, 1, *reach, **more)

    monkeypatch.setattr(Histogram, "within", staticmethod(as_one))
    assert worst("dog cat", vocabulary=WORDS, votes=2) > 0.1


def test_a_tally_by_vectors_at_half_its_price_is_seen(monkeypatch):
    honest = Account.pay
    monkeypatch.setattr(Account, "pay", lambda self, rho, *given: honest(self, rho / 2, *given))
    assert deficit(tallies(OTHERS, "dog"), tallies(OTHERS)) > 0.1


@pytest.mark.heavy
@pytest.mark.usefixtures("words_alone")
def test_a_number_of_units_that_is_not_paid_for_is_seen(monkeypatch):
    honest = Account.pay

    def pay(self, rho, *given, **more):
        first, self.counted = not hasattr(self, "counted"), True
        honest(self, rho if first else 0.0, *given, **more)

    monkeypatch.setattr(Account, "pay", pay)
    assert worst("nothing") > 0.1


@pytest.mark.heavy
@pytest.mark.usefixtures("words_alone")
def test_a_vocabulary_from_the_data_is_seen(monkeypatch):
    """Noise is on words that somebody votes for alone."""
    honest = Histogram.draw

    def draw(self, counts, randomness):
        left = iter(honest(self, [count for count in counts if count], randomness))
        return [next(left) if count else -100 for count in counts]

    monkeypatch.setattr(Histogram, "draw", draw)
    assert worst("cat") == math.inf


@pytest.mark.heavy
@pytest.mark.usefixtures("themes_alone")
def test_units_that_are_counted_by_theme_and_do_not_pay_are_seen(monkeypatch):
    monkeypatch.setattr(Account, "pay", lambda *_, **__: None)
    assert worst("dog") > 0.1


@pytest.mark.heavy
@pytest.mark.usefixtures("words_alone")
def test_a_threshold_from_the_data_is_seen(monkeypatch):
    """Words that fewer units are near to than to the first are not shown."""
    honest = surveying.nearest_words

    def nearest(*given):
        *counts, none = honest(*given)
        most = max(counts, default=0)
        return [*(count if count == most else -50 for count in counts), none]

    monkeypatch.setattr(surveying, "nearest_words", nearest)
    both = ("dog", "cat")
    assert deficit(views(both, "dog"), views(both)) == math.inf


@pytest.mark.usefixtures("words_alone")
def test_a_unit_hides_no_word_that_others_say():
    both = ("dog", "cat")
    assert deficit(views(both, "dog"), views(both)) <= 1e-9


@pytest.mark.usefixtures("words_alone")
def test_an_error_that_one_unit_decides_is_seen(monkeypatch):
    honest = surveying.nearest_words

    def nearest(blocks, *given):
        if any((vectors.sum(axis=1) == 0).any() for vectors, _ in blocks()):
            raise ValueError("a unit is near to nothing")
        return honest(blocks, *given)

    monkeypatch.setattr(surveying, "nearest_words", nearest)
    with pytest.raises(ValueError, match="near to nothing"):
        worst("nothing")
