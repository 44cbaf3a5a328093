"""Released counts, and a search that releases one."""

from __future__ import annotations

import math

import pytest

from dpicl_rag import CountedRetriever, PoissonSampledRetriever, ThresholdRetriever
from dpicl_rag.accounting import Adjacency, Stability
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval import (
    GivenDocuments,
    NoisyThreshold,
    PrivateThresholdRetriever,
    as_retriever,
)
from dpicl_rag.retrieval.base import NoisyCount
from tests.support.scored_units import ScoredUnits

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE
SOURCE = ScoredUnits({"a": [0.9], "b": [0.7], "c": [0.6], "d": [0.1]})


def test_a_thinned_count_knows_its_coins():
    count = NoisyCount(100.0, 5.0).thinned(0.25)
    assert count == NoisyCount(25.0, math.sqrt(1.25**2 + 100 * 0.25 * 0.75))
    assert NoisyCount(10.0, 2.0).thinned(1.0) == NoisyCount(10.0, 2.0)
    assert (NoisyCount(10.0, 2.0).low, NoisyCount(-3.0, 2.0).low) == (8.0, 0.0)
    assert NoisyCount(10.0, 2.0).high == 14.0


@pytest.fixture
def no_noise(monkeypatch):
    monkeypatch.setattr(DiscreteGaussian, "draw", lambda self, randomness: 0)


@pytest.mark.usefixtures("no_noise")
def test_units_that_were_counted_pay_and_the_count_is_theirs():
    retriever = CountedRetriever(ThresholdRetriever(SOURCE, 0.5), sigma=2.0)
    search = retriever.search("q")
    place = search.units.index("b")
    found = search.choose([unit != "b" for unit in search.units])
    assert found.count == NoisyCount(2, 2.0)
    assert set(found.units) == {"a", "b", "c"}
    assert found.unit_rho[place] == 0
    assert sum(found.unit_rho) == pytest.approx(2 / 8)
    assert retriever.rho(ADD) == pytest.approx(1 / 8)


@pytest.mark.parametrize(
    ("noise", "place", "rate"),
    [
        ([0, 0, 0], 2, 64 / 70),
        ([8, -7, 0], 2, 64 / 70),  # of nobody: a count that noise alone may have made
        ([9, 0, 0], 2, 55 / 70),
        ([64, 0, 0], 0, 1.0),
        ([0, 0, -65], 3, 1.0),
    ],
)
def test_a_count_that_may_be_noise_alone_tells_of_no_unit(monkeypatch, noise, place, rate):
    draws = iter([*noise, 0])
    monkeypatch.setattr(DiscreteGaussian, "draw", lambda self, randomness: next(draws))
    bar = NoisyThreshold(64, thresholds=(0.8, 0.7, 0.6, 0.5))
    chosen = bar.choose([0, 0, 70, 0], DiscreteGaussian(6.0), Randomness())
    assert (chosen.place, chosen.last.rate) == (place, pytest.approx(rate))
    # What was counted is released as it is.
    counted = [a + b for a, b in zip([0, 0, 70, 0], [*noise, 0], strict=True)][: place + 1]
    assert chosen.count.value == pytest.approx(sum(counted[:-1]) + rate * counted[-1])


def test_noise_follows_from_the_budget_where_it_is_not_set():
    for retriever in (
        CountedRetriever(ThresholdRetriever(SOURCE, 0.5)),
        PrivateThresholdRetriever(SOURCE, 2),
        PoissonSampledRetriever(PrivateThresholdRetriever(SOURCE, 2), 0.5),
    ):
        with pytest.raises(ConfigurationError, match="budget"):
            retriever.rho(ADD)
        for adjacency in (ADD, REPLACE):
            priced = retriever.within(0.15, adjacency)
            assert priced.rho(adjacency) == pytest.approx(0.015)
        assert retriever.within(7.0, ADD).rho(ADD) == pytest.approx(0.04)
        own = retriever.within(0.3, ADD)
        assert own.within(7.0, ADD).rho(ADD) == own.rho(ADD)


def test_a_search_of_noise_is_not_counted_twice():
    with pytest.raises(ConfigurationError, match="count of its own"):
        CountedRetriever(PrivateThresholdRetriever(SOURCE, 2))


def test_a_list_that_a_unit_changes_is_counted_at_its_sensitivity():
    given = GivenDocuments(["a", "b"], Stability(added=0, changed=3))
    assert CountedRetriever(given, 1.0).rho(ADD) == pytest.approx(9 / 2)


@pytest.mark.usefixtures("no_noise")
def test_a_corpus_handed_over_is_searched_for_about_so_many_units():
    retriever = as_retriever(ScoredUnits({f"u{n}": [0.9] for n in range(40)}), units=5)
    assert (retriever.bar, retriever.thin_to) == (NoisyThreshold(5), None)
    found = retriever.within(1.0, ADD).search("q").choose()
    assert 0 < len(found.units) < 20
    assert found.count is not None
    assert found.count.value == pytest.approx(5)


def test_the_rate_of_coins_follows_from_the_released_count(monkeypatch):
    """By the true one, whoever sees the rate would know how many were found."""
    monkeypatch.setattr(DiscreteGaussian, "draw", lambda self, randomness: 7)
    source = ScoredUnits({f"u{n}": [0.9] for n in range(20)})
    found = CountedRetriever(ThresholdRetriever(source, 0.5), sigma=2.0, thin_to=9).search("q")
    chosen = found.choose()
    assert chosen.rate == 9 / 27
    assert chosen.count == NoisyCount(27, 2.0).thinned(9 / 27)
