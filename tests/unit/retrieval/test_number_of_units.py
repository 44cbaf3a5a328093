"""The number of units that a search aims at: said in public, and limited by coins."""

import pytest

from dpicl_rag import (
    ConfigurationError,
    CountedRetriever,
    PoissonSampledRetriever,
    ThresholdRetriever,
    TopKRetriever,
)
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.retrieval import GivenDocuments, PrivateThresholdRetriever, PrivateTopKRetriever
from dpicl_rag.retrieval.search import as_search
from tests.support.scored_units import ScoredUnits

SOURCE = ScoredUnits({f"u{number:03}": [0.9] for number in range(400)})
EXACT = ThresholdRetriever(SOURCE, 0.5)


def sampled(retriever, rate=0.5):
    return PoissonSampledRetriever(retriever, rate)


@pytest.mark.parametrize(
    ("retriever", "most"),
    [
        (TopKRetriever(SOURCE, 9), 9),
        (PrivateThresholdRetriever(SOURCE, 20), 20),
        (PrivateThresholdRetriever(SOURCE, 20, thin_to=5), 5),
        (PrivateTopKRetriever(SOURCE, 20, thin_to=5), 5),
        (sampled(TopKRetriever(SOURCE, 9)), 4),
        (CountedRetriever(TopKRetriever(SOURCE, 9)), 9),
        (CountedRetriever(EXACT, thin_to=7), 7),
        (sampled(CountedRetriever(EXACT, thin_to=8)), 4),
        (EXACT, None),
        (sampled(EXACT), None),
        (CountedRetriever(EXACT), None),
        (GivenDocuments(["a"]), None),
    ],
)
def test_what_a_search_aims_at_is_public(retriever, most):
    assert as_search(retriever).aim == most


@pytest.mark.parametrize(
    ("retriever", "most"),
    [
        (TopKRetriever(SOURCE, 9), 9),
        (PrivateThresholdRetriever(SOURCE, 20), 10),
        (PrivateThresholdRetriever(SOURCE, 20, thin_to=5), 5),
        (PrivateTopKRetriever(SOURCE, 20), 10),
        (sampled(EXACT), 5),
        (CountedRetriever(EXACT, 2.0), 10),
        (CountedRetriever(EXACT, 2.0, thin_to=4), 4),
        (EXACT, 10),
        (GivenDocuments(["a"]), 10),
    ],
)
def test_a_limit_is_aimed_at(retriever, most):
    search = as_search(retriever)
    found = search.limited(10)
    assert found.aim == most
    assert found.sigma == search.sigma


def test_what_cannot_be_limited_says_what_to_do():
    with pytest.raises(ConfigurationError, match="lower top_k, or raise max_calls"):
        TopKRetriever(SOURCE, 9).limited(8)


@pytest.mark.parametrize("most", [1, 40, 399, 1000])
def test_about_so_many_are_found_at_a_rate_from_the_noisy_count(most, monkeypatch):
    monkeypatch.setattr(DiscreteGaussian, "draw", lambda self, randomness: 3)
    search = CountedRetriever(EXACT, 2.0).limited(most)
    found = [search.search("q").choose() for _ in range(30)]
    rate = min(1.0, most / 403)
    assert {one.rate for one in found} == {rate}
    mean = sum(len(one.units) for one in found) / len(found)
    assert mean == pytest.approx(400 * rate, abs=4 * (400 * rate * (1 - rate) / 30) ** 0.5 + 1e-9)
    # Also those that coins left out were counted, and pay.
    assert {rho for one in found for rho in one.unit_rho} == {1 / 8}


def test_rates_of_coins_behind_each_other_multiply(monkeypatch):
    monkeypatch.setattr(DiscreteGaussian, "draw", lambda self, randomness: 0)
    found = sampled(CountedRetriever(EXACT, 2.0).limited(100)).search("q").choose()
    assert found.rate == pytest.approx(0.125)
