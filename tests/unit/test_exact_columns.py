"""What a column's counts show of a unit is what every unit pays, exactly.

The whole path is enumerated with and without a unit, and with one in the place of another: values
of several documents, coins that choose among them, noise on each count, and the price. The law that
a charge must keep to is that of `tests.unit.test_exact_agreement`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from itertools import product

import pytest

from dpicl_rag import ConfigurationError, Document, PrivateContextLLM, Request
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.private_counts import Agreement, Histogram
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.results import Estimate
from dpicl_rag.retrieval.retrievers import GivenDocuments
from tests.support.scored_units import distribution, gaussian_pmf
from tests.unit.retrieval.test_private_distributions import deficit
from tests.unit.test_exact_agreement import Book, shares
from tests.unit.test_exact_keys import Noise

__all__ = ["shares"]

MUCH = {"epsilon": 12.0, "delta": 0.01}
MODEL = SyntheticModel(3, lambda *_: [0.0] * 3)
OTHERS = ("a", "b", "ab")
GIVEN = ("a", "b", "c")


def documents(unit, letters):
    """A document for each letter, and one without the column; "-" stands for no value."""
    said = [Document("text", unit, {"letter": f" {one} ".replace("-", " ")}) for one in letters]
    return [*said, Document("text", unit, {"other": "a"}), *said]


def llm_over(ledger, coins=None, **settings):
    llm = PrivateContextLLM(MODEL, randomness=coins, **{**MUCH, **settings})
    llm._ledger = ledger
    return llm


def views(units, letters=None, *, labels=GIVEN, most=1, **settings):
    """Distribution of all that is released and of what ``u`` paid; and what thresholds cost."""
    corpus = [one for at, own in enumerate(units) for one in documents(f"other {at}", own)]
    corpus += documents("u", letters) if letters is not None else []
    request = Request.of("column", column="letter", labels=labels, most=most)
    deltas = set()

    def run(choose):
        spent = dict.fromkeys([one.unit for one in corpus] + ["u", "delta"], 0.0)

        class Books:
            def status(self):
                return []

            def reserve(self, *, rho, delta, units, **_):
                return Book(rho, delta, units, spent)

        class Coins(Randomness):
            def below(self, bound):
                return choose([(at, 1 / bound) for at in range(bound)])

        def noise(self, randomness):
            law = gaussian_pmf(self.sigma, math.ceil(12 * self.sigma), fine=self.fine)
            return Noise(law, choose)

        def listed(self, held, randomness):
            return [replace(one, count=one.count.value) for one in honest(self, held, randomness)]

        honest = Agreement.draw
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DiscreteGaussian, "draw", noise)
            patch.setattr(Agreement, "draw", listed)
            # True counts: `noised` adds the noise.
            patch.setattr(Histogram, "draw", lambda self, counts, randomness: counts)
            patch.setattr(Estimate, "of", staticmethod(lambda n, *_: Estimate(n, n, n)))
            found = llm_over(Books(), Coins(), **settings).run(request, corpus)
        deltas.add(spent["delta"])
        return tuple((key, one.units) for key, one in found.counts.items()), round(spent["u"], 12)

    found = distribution(run, 1e-30)
    if labels:
        found = noised(found, llm_over(None, **settings).plan(corpus, request).mechanism.noise)
    return found, max(deltas)


def noised(found, noise):
    """The distribution of counts with noise on each, of that of true ones."""
    law = gaussian_pmf(noise.sigma, math.ceil(8 * noise.sigma), fine=noise.fine)
    released = defaultdict(float)
    for (view, paid), chance in found.items():
        for shifts in product(law.items(), repeat=len(view)):
            noisy = tuple(
                (key, n + shift) for (key, n), (shift, _) in zip(view, shifts, strict=True)
            )
            released[noisy, paid] += chance * math.prod(likely for _, likely in shifts)
    return released


def worst(having, without, alone=()):
    """By how much the charge falls short, and the chance of values of one unit alone."""
    beyond, within = 0.0, {}
    for (view, paid), chance in having.items():
        if any(key in alone for key, _ in view):
            beyond += chance
        else:
            within[view, paid] = chance
    return deficit(within, without), beyond


@pytest.mark.one_in(2)
@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("unit", ["a", "ab", "abc", "-", "d"])
def test_counts_of_public_values_are_paid_for(unit, most):
    short, _ = worst(views(OTHERS, unit, most=most)[0], views(OTHERS, most=most)[0])
    assert short <= 1e-9


@pytest.mark.parametrize("labels", [GIVEN, ()])
def test_a_unit_pays_for_itself_where_not_all_can(labels):
    given = {"labels": labels, "accounting": "individual"}
    having, delta = views(OTHERS, "ac", **given)
    without, _ = views(OTHERS, **given)
    short, beyond = worst(having, without, () if labels else {"c"})
    assert short <= 1e-9
    assert beyond <= delta * (1 + 1e-9)


def test_a_unit_in_the_place_of_another_is_paid_for():
    given = {"adjacency": "replace_one", "labels": GIVEN[:2]}
    short, _ = worst(views(OTHERS, "ab", **given)[0], views(OTHERS, "-", **given)[0])
    assert short <= 1e-9
    short, _ = worst(views(OTHERS, "a", **given)[0], views(OTHERS, "b", **given)[0])
    assert short <= 1e-9


@pytest.mark.one_in(2)
@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("unit", ["a", "ab", "c", "ac", "cd", "-"])
def test_values_that_nobody_gave_are_paid_for(unit, most):
    others = ("a", "a", "b") if most == 2 else ("a", "a", "ab")
    having, delta = views(others, unit, labels=(), most=most)
    without, _ = views(others, labels=(), most=most)
    short, beyond = worst(having, without, {*"cd"})
    assert short <= 1e-9
    assert beyond <= delta * (1 + 1e-9)


@pytest.mark.parametrize(
    ("fields", "settings", "why"),
    [
        ({}, {}, "name the column"),
        ({"column": "letter", "labels": ("a", "a")}, {}, "each value once"),
        ({"column": "letter", "labels": ("a",), "most": 2}, {}, "no fewer than a unit may have"),
        ({"column": "letter"}, {"agreement": "off"}, "by a threshold"),
    ],
)
def test_what_cannot_be_counted_is_refused_in_one_line(fields, settings, why):
    with pytest.raises(ConfigurationError, match=why) as refused:
        llm_over(None, **settings).run(Request.of("column", **fields), documents("u", "a"))
    assert "\n" not in str(refused.value)


def test_a_part_of_the_units_is_refused():
    request = Request.of("column", column="letter")
    with pytest.raises(ConfigurationError, match="of all units"):
        llm_over(None).run(request, GivenDocuments(documents("u", "a")))


def test_what_was_counted_is_told_by_value():
    corpus = [one for at in range(40) for one in documents(f"{at}", "a" if at < 30 else "b")]
    found = llm_over(None).run(Request.of("column", column="letter"), [*corpus, "a text"])
    assert list(found.counts) == ["a", "b"]
    assert 25 <= found.counts["a"].low <= 30 <= found.counts["a"].high <= 35
    assert found.text.startswith(f"About {found.counts['a'].units} documents")
    assert f"fewer than about {found.smallest} documents are not listed." in found.text
    assert llm_over(None).ask(None, corpus, column="letter", labels=GIVEN).smallest is None
