"""What private retrievers return, what they cost, and what they refuse."""

import random
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpicl_rag.accounting.stability import Adjacency, Stability
from dpicl_rag.errors import BudgetExceededError, ConfigurationError
from dpicl_rag.ledger import Ledger
from dpicl_rag.mechanisms import randomness
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, Randomness, SeededRandomness
from dpicl_rag.retrieval import PrivateThresholdRetriever, PrivateTopKRetriever, Retriever, Search
from dpicl_rag.retrieval import score_histogram as module
from dpicl_rag.retrieval.score_histogram import (
    ScoreHistogram,
    histograms_rho,
    score_histograms,
    suggest_threshold,
)
from dpicl_rag.retrieval.search_bars import COARSE
from dpicl_rag.retrieval.vectors import scan
from tests.support.scored_units import ScoredUnits

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE
KINDS = [PrivateThresholdRetriever, PrivateTopKRetriever]
SIGMAS = {PrivateThresholdRetriever: 3.0, PrivateTopKRetriever: 7.5}


def many(count: int = 500) -> ScoredUnits:
    """Units whose scores are spread evenly from 0 to 0.95."""
    return ScoredUnits({f"u{n}": [0.95 * n / count, -0.2] for n in range(count)})


@pytest.fixture
def coins() -> Randomness:
    with pytest.warns(NotPrivateWarning, match="seeded coins"):
        return SeededRandomness(3)


@pytest.mark.parametrize(("kind", "spread"), [(PrivateThresholdRetriever, 20), (KINDS[1], 15)])
def test_about_as_many_units_as_wanted(
    kind: Callable[..., Search], spread: int, coins: Randomness
) -> None:
    retriever = kind(many(), 80, sigma=SIGMAS[kind])
    found = [len(retriever.search("q").choose(randomness=coins).units) for _ in range(40)]
    # The evenly spread scores put about 11 units in a step of 0.02, and 5 in one of 0.01.
    assert abs(statistics.median(found) - 80) < spread


def test_exactly_the_units_that_reach_the_threshold_have_paid(coins: Randomness) -> None:
    retriever = PrivateThresholdRetriever(many(), 80, sigma=3.0)
    near = scan(retriever.source, ["q"])
    score = dict(zip(near.units, near.scores.tolist(), strict=True))
    for _ in range(20):
        search = retriever.search("q")
        found = search.choose(randomness=coins)
        paid = [u for u, rho in zip(search.units, found.unit_rho, strict=True) if rho]
        reached = max(bar for bar in COARSE if bar <= min(score[unit] for unit in paid))
        before = min((bar for bar in COARSE if bar > reached), default=1.0)
        assert paid == [unit for unit in search.units if score[unit] >= reached]
        assert {unit for unit in paid if score[unit] >= before} <= set(found.units) <= set(paid)
        assert set(found.unit_rho) <= {0.0, retriever.rho(ADD)}


def test_no_unit_pays_more_than_rho(coins: Randomness) -> None:
    retriever = PrivateTopKRetriever(many(), 40, sigma=7.5)
    found = [retriever.search("q").choose(randomness=coins) for _ in range(20)]
    charges = [rho for one in found for rho in one.unit_rho]
    assert 0 < max(charges) <= retriever.rho(ADD)
    assert min(charges) < retriever.rho(ADD)


def test_rho_is_that_of_the_counts() -> None:
    source = many(1)
    threshold = PrivateThresholdRetriever(source, sigma=3.0)
    assert threshold.rho(ADD) == pytest.approx(1 / 18)
    assert threshold.rho(REPLACE) == pytest.approx(1 / 9)
    for length, counts in ((1, 0), (2, 1), (5, 3), (64, 6), (65, 7)):
        grid = [1 - place / 100 for place in range(length)]
        top_k = PrivateTopKRetriever(source, 4, sigma=5.0, thresholds=grid)
        assert top_k.rho(ADD) == pytest.approx(counts / 50)
        assert top_k.rho(REPLACE) == top_k.rho(ADD)


@pytest.mark.parametrize("kind", KINDS)
def test_the_search_ends_at_the_lowest_threshold(
    kind: Callable[..., Search], coins: Randomness
) -> None:
    source = ScoredUnits({"near": [0.7], "at the end": [0.41], "far": [0.39]})
    retriever = kind(source, 1000, sigma=SIGMAS[kind], thresholds=(0.8, 0.6, 0.4))
    search = retriever.search("q")
    assert sorted(search.units) == ["at the end", "near"]
    assert [d.unit for d in search.choose(randomness=coins).documents] == search.units


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_corpus_gives_no_documents(kind: Callable[..., Search]) -> None:
    search = kind(ScoredUnits({}), 4, sigma=SIGMAS[kind]).search("q")
    assert search.units == []
    assert search.choose().documents == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_noise_is_drawn_once_and_anew_for_each_search(
    kind: Callable[..., Search], coins: Randomness
) -> None:
    # 68 units reach 0.82: whether the search stops there is a toss-up.
    retriever = kind(many(), 68, sigma=SIGMAS[kind])
    search = retriever.search("q")
    search.choose(randomness=coins)
    with pytest.raises(ConfigurationError, match="drawn once"):
        search.choose()
    found = [retriever.search("q").choose(randomness=coins) for _ in range(30)]
    assert len({len(one.documents) for one in found}) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_units_that_are_not_admitted_do_not_count_and_do_not_pay(
    kind: Callable[..., Search], coins: Randomness
) -> None:
    retriever = kind(many(), 50, sigma=SIGMAS[kind])
    search = retriever.search("q")
    found = search.choose([False] * len(search.units), coins)
    assert set(found.unit_rho) == {0.0}
    # Nobody counts, so the search goes to its end; they are retrieved by their own score.
    assert len(found.documents) == 2 * len(search.units)
    with pytest.raises(ConfigurationError, match="one entry for each unit"):
        retriever.search("q").choose([True])


def test_the_last_bin_passes_by_coins_and_all_of_it_pays(coins: Randomness) -> None:
    source = ScoredUnits({f"u{n}": [0.9] for n in range(2000)})
    retriever = PrivateThresholdRetriever(source, 100, sigma=3.0)
    first, second = (retriever.search("q").choose(randomness=coins) for _ in range(2))
    for found in (first, second):
        # Six standard deviations of Binomial(2000, 1/20) are 59.
        assert abs(len(found.documents) - 100) < 59
        assert set(found.unit_rho) == {retriever.rho(ADD)}
    both = {d.unit for d in first.documents} & {d.unit for d in second.documents}
    assert len(both) < 40


def test_a_nearer_unit_is_not_lost_to_coins(coins: Randomness) -> None:
    near, far = {f"n{n}": [0.9] for n in range(40)}, {f"f{n}": [0.7] for n in range(500)}
    retriever = PrivateThresholdRetriever(ScoredUnits({**far, **near}), 64, sigma=0.5)
    found = retriever.search("q").choose(randomness=coins)
    assert set(near) <= set(found.units)
    assert 0 < len(found.units) - len(near) < 60
    assert found.count is not None
    assert found.count.value == pytest.approx(64, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_takes_it_for_a_retriever_that_costs_nothing(kind: Callable[..., Search]) -> None:
    retriever = kind(many(3), 2, sigma=SIGMAS[kind])
    with pytest.raises(ConfigurationError, match="noise or coins decide"):
        retriever.retrieve("q")
    assert isinstance(retriever, Retriever)
    assert retriever.rho(ADD) > 0
    assert retriever.stability == Stability(1, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_out_of_range(kind: Callable[..., Search]) -> None:
    for bad in (0, -1, 2.5):
        with pytest.raises(ConfigurationError, match="must be a whole number"):
            kind(many(1), bad)
        with pytest.raises(ConfigurationError, match="thin_to must be a whole number"):
            kind(many(1), 4, thin_to=bad)
    for sigma in (0, -1, float("nan")):
        with pytest.raises(ConfigurationError, match="sigma must be a finite number above 0"):
            kind(many(1), 4, sigma=sigma)
    for thresholds in ((), (0.5, 0.5), (0.4, 0.5), (1.5, 0.5), (0.5, float("nan"))):
        with pytest.raises(ConfigurationError, match="thresholds must fall"):
            kind(many(1), 4, thresholds=thresholds)


@pytest.mark.parametrize("kind", KINDS)
def test_noise_and_coins_are_the_operating_systems_where_none_are_given(
    kind: Callable[..., Search], coins: Randomness, monkeypatch: pytest.MonkeyPatch
) -> None:
    retriever = kind(many(), 79, sigma=SIGMAS[kind], thin_to=20)
    # In the operating system's place stand the numbers of a seed: every coin must be one of them.
    monkeypatch.setattr(randomness.secrets, "randbelow", random.Random(3).randrange)
    found = retriever.search("q").choose()
    same = retriever.search("q").choose(randomness=coins)
    assert 0 < len(found.units) < 60
    assert (found.documents, found.unit_rho) == (same.documents, same.unit_rho)


def test_representations_are_public() -> None:
    threshold, top_k = (
        PrivateThresholdRetriever("C", sigma=3.0),
        PrivateTopKRetriever("C", 8, sigma=7.5),
    )  # type: ignore[arg-type]
    assert repr([threshold, top_k]) == (
        "[Search(source='C', bar=NoisyThreshold(units=64), passages_per_unit=None, "
        "counted=False, sigma=3.0, thin_to=None, rate=1.0), "
        "Search(source='C', bar=NoisyTopK(units=8), passages_per_unit=None, "
        "counted=False, sigma=7.5, thin_to=None, rate=1.0)]"
    )
    search = PrivateThresholdRetriever(many(9), 2, sigma=3.0).search("q")
    assert repr(search) == "Candidates(<private>)"
    assert "u8" not in repr(search.choose())


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with Ledger(tmp_path / "ledger.db") as opened:
        yield opened


class NoNoise:
    rho = 1 / 18

    def __init__(self, sigma: float, *, fine: bool = False) -> None:
        self.sigma = sigma

    def draw(self, randomness: Randomness) -> int:
        return 0


SCORES = ScoredUnits({"a": [0.9, 0.7], "b": [0.7], "c": [0.62, 0.1], "d": [0.1]})
GRID = (0.8, 0.6, 0.4)


def test_a_histogram_counts_each_unit_once(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DiscreteGaussian", NoNoise)
    (found,) = score_histograms(SCORES, ["q"], ledger=ledger, corpus="notes", thresholds=GRID)
    assert found == ScoreHistogram("q", GRID, (1, 2, 0), 3.0)
    assert found.passing == (1, 3, 3)


def test_a_neighbour_moves_one_count_by_one(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DiscreteGaussian", NoNoise)
    generator = random.Random(0)
    for _ in range(20):
        units = {
            f"u{n}": [round(generator.uniform(-1, 1), 2) for _ in range(generator.randint(1, 4))]
            for n in range(8)
        }
        one, two = (
            score_histograms(ScoredUnits(u), ["q"], ledger=ledger, corpus="n", thresholds=GRID)[0]
            for u in (units, {**units, "new": [0.9, 0.7, 0.5]})
        )
        moved = [after - before for before, after in zip(one.counts, two.counts, strict=True)]
        assert moved == [1, 0, 0]


def test_a_histogram_has_the_noise_that_it_pays_for(ledger: Ledger) -> None:
    grid = [1 - place / 500 for place in range(600)]
    (found,) = score_histograms(
        SCORES, ["q"], ledger=ledger, corpus="n", thresholds=grid, sigma=5.0
    )
    # The four units hardly move 600 counts; their spread is within six of its own deviations.
    assert statistics.pstdev(found.counts) == pytest.approx(5.0, rel=6 / (2 * 600) ** 0.5)


def test_histograms_are_charged_before_they_are_returned(ledger: Ledger) -> None:
    ledger.set_budget(corpus="notes", rho=0.3)
    score_histograms(SCORES, ["one", "two"], ledger=ledger, corpus="notes", caller="ann")
    corpus, caller = ledger.status()
    assert corpus.spent == pytest.approx(2 / 18)
    assert caller.spent == pytest.approx(2 / 18)
    assert histograms_rho(3.0, 2) == pytest.approx(2 / 18)
    assert histograms_rho(3.0, 2, REPLACE) == pytest.approx(4 / 18)
    score_histograms(SCORES, ["q"], ledger=ledger, corpus="other", adjacency=REPLACE)
    assert ledger.status()[1].spent == pytest.approx(2 / 18)


def test_nothing_is_counted_where_the_budget_cannot_pay(ledger: Ledger) -> None:
    ledger.set_budget(corpus="notes", rho=0.1)
    source = ScoredUnits({"a": [0.9]})
    with pytest.raises(BudgetExceededError):
        score_histograms(source, ["one", "two"], ledger=ledger, corpus="notes")
    assert source.scans == 0
    assert ledger.status()[0].spent == 0


def test_histograms_refuse_what_makes_no_sense(ledger: Ledger) -> None:
    with pytest.raises(ConfigurationError, match="not one string"):
        score_histograms(SCORES, "why", ledger=ledger, corpus="n")
    with pytest.raises(ConfigurationError, match="number of questions"):
        score_histograms(SCORES, [], ledger=ledger, corpus="n")
    with pytest.raises(ConfigurationError, match="thresholds must fall"):
        score_histograms(SCORES, ["q"], ledger=ledger, corpus="n", thresholds=(0.1, 0.2))


def test_a_threshold_is_suggested_from_the_mean() -> None:
    few, most = (ScoreHistogram("q", GRID, counts, 3.0) for counts in ((2, 10, 20), (8, 40, 20)))
    assert suggest_threshold([few], 10) == 0.6
    assert suggest_threshold([few, most], 30) == 0.6
    assert suggest_threshold([few, most], 31) == 0.4
    assert suggest_threshold([few], 1000) == 0.4
    with pytest.raises(ConfigurationError, match="same thresholds"):
        suggest_threshold([], 10)
    with pytest.raises(ConfigurationError, match="same thresholds"):
        suggest_threshold([few, ScoreHistogram("q", (0.5,), (1,), 3.0)], 10)
