"""A search and the selection behind it: together they are within epsilon and delta, exactly."""

import copy
import math
from collections import defaultdict
from types import SimpleNamespace

import pytest

from dpicl_rag.accounting.budget import Budget
from dpicl_rag.accounting.conversion import rho_to_delta
from dpicl_rag.answering.answer_plan import planned_answer
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.mechanisms.discrete_noise import TruncatedGeometric
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval import NoisyThreshold, Search
from tests.support.scored_units import ScoredUnits, distribution, gaussian_pmf

SIGMA = 0.9
EPSILON, DELTA = 8.0, 0.02
SCORES = {"near": 0.9, "far": 0.7, "out": 0.1}
OTHERS = (
    {},
    {"a1": ("near", "a")},
    {"a1": ("far", "a"), "a2": ("far", "a")},
    {"a1": ("near", "a"), "a2": ("far", "a"), "b1": ("far", "b")},
    {"a1": ("near", "a"), "a2": ("near", "a"), "a3": ("far", "a"), "a4": ("far", "a")},
)


def planned(units, keys):
    source = ScoredUnits({unit: [SCORES[where]] for unit, (where, *_) in units.items()})
    search = Search(source, NoisyThreshold(2, (0.8, 0.6)), sigma=SIGMA)
    config = PrivacyConfig.create(epsilon=EPSILON, delta=DELTA, agreement="only")
    return planned_answer(config, search, booked=False, keys=keys)


def told(units, keys, laws):
    """Distribution of all that is released: the count of the search, then keys with theirs.

    Args:
        units: Where each is, and its keys.
        keys: Of one unit, at most; a coin chooses one of them.
        laws: What is selected of the keys that were found.
    """
    search, plan = planned(units, keys)
    assert plan.ladder.instead_of is not None
    (step,) = plan.ladder.steps
    counts = list(gaussian_pmf(SIGMA, math.ceil(7 * SIGMA)).items())
    scored = search.search("q")

    def found(choose):
        search.__dict__["noise"] = SimpleNamespace(
            sigma=SIGMA, rho=search.rho("add_or_remove_one"), draw=lambda _: choose(counts)
        )
        near = copy.copy(scored).choose(None, Randomness())
        return near.count.value, tuple(sorted(units[unit][1:] for unit in near.units))

    def selected(choose):
        coin = lambda bound: choose([(at, 1 / bound) for at in range(bound)])  # noqa: E731
        agreed = step.draw(held, SimpleNamespace(choose=choose, below=coin))
        return tuple((one.key, one.count) for one in agreed)

    law = defaultdict(float)
    for (count, held), chance in distribution(found).items():
        if held not in laws:
            laws[held] = distribution(selected)
        for seen, then in laws[held].items():
            law[count, seen] += chance * then
    return law


def beyond(p, q):
    return max(
        math.fsum(max(0.0, a[seen] - math.exp(EPSILON) * b.get(seen, 0.0)) for seen in a)
        for a, b in ((p, q), (q, p))
    )


def worst(keys, others=OTHERS):
    """The largest hockey-stick divergence between corpora with and without one unit."""
    found, laws = 0.0, {}
    for rest in others:
        without = told(rest, keys, laws)
        for where in SCORES:
            for held in (("a",), ("c",), ("a", "b"), ("c", "d"))[: 2 * keys]:
                found = max(found, beyond(told({**rest, "u": (where, *held)}, keys, laws), without))
    return found


@pytest.fixture(autouse=True)
def every_value(monkeypatch):
    """Each value of the noise is tried."""

    def draw(self, randomness):
        whole = sum(self.weights)
        values = enumerate(self.weights)
        return randomness.choose([(self.highest - at, own / whole) for at, own in values])

    monkeypatch.setattr(TruncatedGeometric, "draw", draw)


@pytest.mark.parametrize("keys", [1, pytest.param(2, marks=pytest.mark.heavy)])
def test_together_they_are_within_epsilon_and_delta(keys):
    assert worst(keys) <= DELTA


def test_a_search_that_nobody_pays_for_is_seen(monkeypatch):
    monkeypatch.setattr(Budget, "beside_search", lambda self: (self.epsilon, self.delta))
    assert worst(1, OTHERS[1:3]) > 2 * DELTA


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
@pytest.mark.parametrize("search_rho", [1e-4, 0.002, 0.02])
def test_epsilon_and_delta_are_split(epsilon, search_rho):
    budget = Budget(epsilon, 1e-5, search_rho=search_rho)
    left, delta = budget.beside_search()
    assert 0 < left < epsilon
    assert rho_to_delta(search_rho, epsilon - left) + delta <= 1e-5
    assert rho_to_delta(search_rho, epsilon - left) + delta > 0.999e-5
    assert Budget(epsilon, 1e-5).beside_search() == (epsilon, 1e-5)
