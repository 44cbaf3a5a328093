"""What holds for every retriever: exact, private, given, and thinned by coins over any of them."""

from collections.abc import Callable
from typing import Any

import pytest

from dpicl_rag.accounting.stability import Adjacency, Stability
from dpicl_rag.documents import Document, group_by_unit
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms import randomness
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, SeededRandomness
from dpicl_rag.retrieval import (
    ExactRetriever,
    GivenDocuments,
    PoissonSampledRetriever,
    PrivateThresholdRetriever,
    PrivateTopKRetriever,
    Retriever,
    ThresholdRetriever,
    TopKRetriever,
)
from tests.support.scored_units import ScoredUnits

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE
Make = Callable[[ScoredUnits], Retriever]

UNITS = {f"secret {n}": [0.95 - 0.02 * n, 0.3][: 1 + n % 2] for n in range(30)}
GRID = (0.9, 0.8, 0.7, 0.6, 0.5)


def given(source: ScoredUnits) -> GivenDocuments:
    # Passages of a unit come apart in a list that someone hands over.
    records = sorted(source.whole.records, key=lambda record: record.text[-1])
    return GivenDocuments([Document(record.text, record.unit) for record in records])


EXACT: dict[str, tuple[Make, Stability]] = {
    "given": (given, Stability(1, 0)),
    "given by a top-k": (
        lambda source: GivenDocuments(given(source).retrieve("q"), Stability(0, 1)),
        Stability(0, 1),
    ),
    "threshold": (lambda source: ThresholdRetriever(source, 0.6), Stability(1, 0)),
    "top-k": (lambda source: TopKRetriever(source, 5), Stability(0, 1)),
}
PRIVATE: dict[str, tuple[Make, Stability]] = {
    "private threshold": (
        lambda source: PrivateThresholdRetriever(source, 8, sigma=3.0, thresholds=GRID),
        Stability(1, 0),
    ),
    "private threshold with a capacity": (
        lambda source: PrivateThresholdRetriever(source, 20, sigma=3.0, thresholds=GRID, thin_to=5),
        Stability(1, 0),
    ),
    "private top-k": (lambda source: PrivateTopKRetriever(source, 8, sigma=2.0), Stability(1, 0)),
}


def thinned(make: Make) -> Make:
    return lambda source: PoissonSampledRetriever(make(source), 0.5)


SINGLE = EXACT | PRIVATE
EVERY = SINGLE | {
    f"coins over {name}": (thinned(make), stability) for name, (make, stability) in SINGLE.items()
}


@pytest.fixture(params=EVERY)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def retriever(name: str) -> Retriever:
    return EVERY[name][0](ScoredUnits(UNITS))


def test_it_is_a_retriever_with_its_stability(name: str, retriever: Retriever) -> None:
    assert isinstance(retriever, Retriever)
    assert retriever.stability == EVERY[name][1]


def test_what_a_search_costs_is_known_beforehand(name: str, retriever: Retriever) -> None:
    exact = name.removeprefix("coins over ") in EXACT
    assert (retriever.rho(ADD) == 0) == (retriever.rho(REPLACE) == 0) == exact
    assert retriever.rho(ADD) <= retriever.rho(REPLACE)
    if name not in SINGLE:
        single = SINGLE[name.removeprefix("coins over ")][0](ScoredUnits(UNITS))
        assert retriever.rho(ADD) == single.rho(ADD)
        assert retriever.rho(REPLACE) == single.rho(REPLACE)


def test_candidates_hold_what_is_found_and_each_has_its_charge(retriever: Retriever) -> None:
    for _ in range(5):
        search = retriever.search("q")
        assert len(set(search.units)) == len(search.units)
        found = search.choose()
        assert {document.unit for document in found.documents} <= set(search.units)
        assert len(found.unit_rho) == len(search.units)
        assert all(0 <= rho <= retriever.rho(ADD) for rho in found.unit_rho)


def test_a_unit_comes_whole_and_in_the_order_of_the_candidates(retriever: Retriever) -> None:
    search = retriever.search("q")
    found = group_by_unit(search.choose().documents)
    assert list(found) == [unit for unit in search.units if unit in found]
    for unit, passages in found.items():
        assert sorted(d.text for d in passages) == [f"{unit}/{n}" for n in range(len(UNITS[unit]))]


def test_a_search_chooses_once(retriever: Retriever) -> None:
    search = retriever.search("q")
    search.choose()
    with pytest.raises(ConfigurationError, match="drawn once"):
        search.choose()
    retriever.search("q").choose()


def test_all_coins_are_those_that_it_is_handed(
    retriever: Retriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    for source in ("randbits", "randbelow"):
        monkeypatch.setattr(randomness.secrets, source, None)
    with pytest.warns(NotPrivateWarning):
        one, two = SeededRandomness(3), SeededRandomness(3)
    for _ in range(3):
        first, second = (retriever.search("q").choose(randomness=coins) for coins in (one, two))
        assert (first.documents, first.unit_rho) == (second.documents, second.unit_rho)


def test_who_is_not_admitted_pays_nothing(retriever: Retriever) -> None:
    search = retriever.search("q")
    assert set(search.choose([False] * len(search.units)).unit_rho) == {0.0}


@pytest.mark.parametrize("length", [0, 1, 999])
def test_admitted_must_fit_and_the_error_tells_no_count(retriever: Retriever, length: int) -> None:
    search = retriever.search("q")
    with pytest.raises(ConfigurationError) as caught:
        search.choose([True] * length)
    assert str(caught.value) == "admitted must have one entry for each unit"
    search.choose()


def test_an_empty_corpus_is_a_search_like_any_other(name: str) -> None:
    search = EVERY[name][0](ScoredUnits({})).search("q")
    found = search.choose()
    assert (search.units, found.documents, found.unit_rho) == ([], [], [])


def test_representations_say_nothing(retriever: Retriever) -> None:
    search = retriever.search("q")
    assert "secret" not in repr([retriever, search, search.choose()])


@pytest.mark.parametrize("missing", ["stability", "retrieve"])
def test_an_exact_retriever_must_declare_its_stability(missing: str) -> None:
    parts: dict[str, Any] = {"stability": Stability(1, 0), "retrieve": lambda self, question: []}
    assert type("Whole", (ExactRetriever,), parts)().rho(ADD) == 0
    del parts[missing]
    with pytest.raises(TypeError, match=missing):
        type("Part", (ExactRetriever,), parts)()
