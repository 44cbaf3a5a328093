"""What a private search shows of a unit is what that unit pays, exactly.

Everything that depends on a search sees at most the threshold, the noisy count and which *other*
units were retrieved: the view. With
P and Q the distributions of the view with and without a unit, and c(view) what the unit pays, a
charge is enough if for every order a

    E_Q[(P / Q)^a exp(-a (a - 1) c)] <= 1,    and the same with P and Q exchanged.

That is the step of the filter's proof (Feldman, Zrnic 2021, Theorem 3.1). It is computed here from
the exact distribution of the noise, for honest retrievers and for broken ones.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpicl_rag.accounting.stability import Adjacency
from dpicl_rag.documents import group_by_unit
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval import Candidates, NoisyThreshold, NoisyTopK, Retrieved, Search
from dpicl_rag.retrieval.base import CoinRate, NoisyCount
from dpicl_rag.retrieval.search_bars import ChosenThreshold
from dpicl_rag.retrieval.vectors import scan
from tests.support.scored_units import (
    Choose,
    ScoredUnits,
    distribution,
    enumerated_keeps,
    gaussian_pmf,
)

SIGMA = 0.5
ORDERS = (1.01, 1.5, 2.0, 4.0)
THREE = (0.8, 0.6, 0.4)
EIGHT = tuple(tenths / 10 for tenths in range(9, 1, -1))
Units = Mapping[str, Sequence[float]]
Make = Callable[[ScoredUnits], Search]
View = tuple[int, NoisyCount | None, tuple[str, ...]]
Views = dict[tuple[View, float], float]


@pytest.fixture(autouse=True)
def enumerated_coins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coins are choices, as noise is."""
    monkeypatch.setattr(CoinRate, "keeps", enumerated_keeps)


def views(
    make: Make, units: Units, unit: str = "u", admitted: Callable[[str], bool] | None = None
) -> Views:
    """Distribution of the view and of what ``unit`` paid."""
    search = make(ScoredUnits(units))
    noise = list(gaussian_pmf(search.noise.sigma, math.ceil(8 * SIGMA)).items())
    rho = search.noise.rho
    scored = search.search("q")
    counted = None if admitted is None else [admitted(u) for u in scored.units]
    choose_threshold = type(search.bar).choose

    def run(choose: Choose) -> tuple[View, float]:
        candidates = copy.copy(scored)
        choices: list[ChosenThreshold] = []

        def remembered(*given: Any) -> ChosenThreshold:
            choices.append(choose_threshold(search.bar, *given))
            return choices[-1]

        vars(search)["noise"] = SimpleNamespace(
            sigma=SIGMA, rho=rho, draw=lambda randomness: choose(noise)
        )
        vars(search.bar)["choose"] = remembered
        found = candidates.choose(counted, SimpleNamespace(choose=choose))
        paid = dict(zip(candidates.units, found.unit_rho, strict=True)).get(unit, 0.0)
        others = tuple(d.text for d in found.documents if d.unit != unit)
        return (choices[0].place, found.count, others), paid

    return distribution(run)


def deficit(with_unit: Views, without: Views) -> float:
    """Largest log of the expectation above; not above 0 if the charge is enough."""
    paid: dict[View, float] = {}
    present: dict[View, float] = {}
    for (view, charge), chance in with_unit.items():
        assert paid.setdefault(view, charge) == charge, "a charge must follow from the view"
        present[view] = present.get(view, 0.0) + chance
    absent: dict[View, float] = {}
    for (view, _), chance in without.items():
        absent[view] = absent.get(view, 0.0) + chance
    return max(
        _log_mean(above, below, {view: order * (order - 1) * c for view, c in paid.items()}, order)
        for order in ORDERS
        for above, below in ((present, absent), (absent, present))
    )


def _log_mean(
    above: Mapping[Any, float], below: Mapping[Any, float], paid: Mapping[Any, float], order: float
) -> float:
    if any(chance > 1e-12 and view not in below for view, chance in above.items()):
        return math.inf
    terms = [
        below[view] * (above[view] / below[view]) ** order * math.exp(-paid.get(view, 0.0))
        for view in above
        if view in below
    ]
    return math.log(math.fsum(terms))


def units_in(*counts: int, thresholds: Sequence[float] = THREE) -> dict[str, list[float]]:
    """Units just above each threshold: ``counts[i]`` of them above the i-th."""
    return {
        f"{place}-{number}": [threshold + 0.01]
        for place, (threshold, count) in enumerate(zip(thresholds, counts, strict=True))
        for number in range(count)
    }


def worst(make: Make, others: Units, scores: Sequence[float]) -> float:
    without = views(make, others)
    return max(deficit(views(make, {**others, "u": [s, -0.5]}), without) for s in scores)


def threshold(bar: type[NoisyThreshold] = NoisyThreshold, search: type[Search] = Search) -> Make:
    return lambda source: search(source, bar(2, THREE), sigma=SIGMA)


def top_k(search: type[Search] = Search) -> Make:
    return lambda source: search(source, NoisyTopK(3, EIGHT), sigma=SIGMA)


OTHERS = units_in(1, 1, 2)
OTHERS_OF_EIGHT = units_in(1, 0, 1, 1, 1, 1, 0, 1, thresholds=EIGHT)
# One score in every bin, one below all, and one that meets a threshold.
SCORES = (0.95, 0.7, 0.6, 0.41, 0.1)
SCORES_OF_EIGHT = (0.95, 0.75, 0.65, 0.45, 0.25, 0.1)


def test_the_charge_of_the_threshold_is_enough() -> None:
    assert worst(threshold(), OTHERS, SCORES) <= 1e-9
    assert worst(threshold(), units_in(3, 1, 1), SCORES) <= 1e-9


def test_the_charge_of_the_top_k_is_enough() -> None:
    assert worst(top_k(), OTHERS_OF_EIGHT, SCORES_OF_EIGHT) <= 1e-9


def test_the_charge_with_thinning_is_enough() -> None:
    def make(source: ScoredUnits) -> Search:
        return Search(source, NoisyThreshold(3, THREE[:2]), sigma=SIGMA, thin_to=2)

    assert worst(make, units_in(1, 2, thresholds=THREE[:2]), (0.9, 0.7, 0.1)) <= 1e-9


class HalfCharge(Search):
    """A planted fault: half the price."""

    noise = cached_property(lambda _: SimpleNamespace(sigma=SIGMA, rho=1 / (4 * SIGMA**2)))


def test_half_the_charge_is_not_enough() -> None:
    """A factor of two is seen: these tests are tight enough to trust."""
    assert worst(threshold(search=HalfCharge), OTHERS, SCORES) > 1e-4
    assert worst(top_k(search=HalfCharge), OTHERS_OF_EIGHT, (0.95,)) > 1e-4


class HalfSensitivity(Search):
    """A planted fault: noise for half the sensitivity, charged as if it were all of it."""

    noise = cached_property(lambda _: SimpleNamespace(sigma=SIGMA / 2, rho=1 / (2 * SIGMA**2)))


class CoinsByTrueCount(NoisyThreshold):
    """A planted fault: coins of the last bin at a rate from its true number."""

    def choose(self, counts: Sequence[int], noise: Any, randomness: Randomness) -> ChosenThreshold:
        chosen = super().choose(counts, noise, randomness)
        before = sum(counts[: chosen.place])
        rate = CoinRate.of(counts[chosen.place], max(1, self.units - before))
        return ChosenThreshold(chosen.place, chosen.count, chosen.looks, rate)


class ExactCounts(NoisyThreshold):
    """A planted fault: the threshold from the counts themselves."""

    def choose(self, counts: Sequence[int], noise: Any, randomness: Randomness) -> ChosenThreshold:
        totals = np.cumsum(counts)
        place = int(np.argmax(totals >= self.units)) if totals[-1] >= self.units else 2
        return ChosenThreshold(
            place, NoisyCount(float(totals[place]), 1.0), [int(bin_ <= place) for bin_ in range(3)]
        )


class Overlapping(NoisyThreshold):
    """A planted fault: every count holds all units above it, and one of them is charged."""

    def choose(self, counts: Sequence[int], noise: Any, randomness: Randomness) -> ChosenThreshold:
        noisy = (sum(counts[: p + 1]) + noise.draw(randomness) for p in range(3))
        place = next((p for p, count in enumerate(noisy) if count >= self.units), 2)
        return ChosenThreshold(place, None, [int(bin_ <= place) for bin_ in range(3)])


class PaidWhereRetrieved(NoisyThreshold):
    """A planted fault: steps back from the last bin it counted, whose units then pay nothing."""

    def choose(self, counts: Sequence[int], noise: Any, randomness: Randomness) -> ChosenThreshold:
        chosen = super().choose(counts, noise, randomness)
        place = max(0, chosen.place - 1)
        return ChosenThreshold(place, chosen.count, [int(bin_ <= place) for bin_ in range(3)])


@pytest.mark.parametrize("bar", [ExactCounts, Overlapping, PaidWhereRetrieved, CoinsByTrueCount])
def test_planted_faults_are_caught(bar: type[NoisyThreshold]) -> None:
    assert worst(threshold(bar), OTHERS, SCORES) > 1e-3


def test_noise_for_half_the_sensitivity_is_caught() -> None:
    assert worst(threshold(search=HalfSensitivity), OTHERS, SCORES) > 1e-3


class BestN(Search):
    """A planted fault: no more than the best two of the units that pass."""

    def search(self, question: str) -> Candidates:
        candidates = super().search(question)
        near = scan(self.source, [question])
        every = near.passages(range(len(near.units)))
        score = {passage.document.text: passage.score for passage in every}

        def draw(admitted: Sequence[bool], randomness: Randomness) -> Retrieved:
            found = copy.copy(candidates).choose(admitted, randomness)
            ranked = sorted(found.documents, key=lambda document: -score[document.text])
            return Retrieved(group_by_unit(ranked[:2]), found.unit_rho)

        return Candidates(candidates.units, draw)


def test_a_cap_is_caught() -> None:
    assert worst(threshold(search=BestN), OTHERS, SCORES) == math.inf


@pytest.mark.parametrize("score", [0.95, 0.7, 0.41])
def test_a_unit_that_is_not_admitted_changes_nothing_and_pays_nothing(score: float) -> None:
    found = views(threshold(), {**OTHERS, "u": [score]}, admitted=lambda unit: unit != "u")
    assert {paid for _, paid in found} == {0.0}
    assert found == pytest.approx(views(threshold(), OTHERS), rel=1e-12)


@pytest.mark.parametrize(
    ("make", "others", "scores"),
    [(threshold(), OTHERS, SCORES), (top_k(), OTHERS_OF_EIGHT, SCORES_OF_EIGHT)],
)
def test_rho_bounds_a_replacement_and_an_arrival(
    make: Make, others: Units, scores: Sequence[float]
) -> None:
    search = make(ScoredUnits({}))
    alone = views(make, others)

    def bare(found: Views) -> dict[View, float]:
        total: dict[View, float] = {}
        for (view, _), chance in found.items():
            total[view] = total.get(view, 0.0) + chance
        return total

    present = [bare(views(make, {**others, "u": [score]})) for score in scores]
    for adjacency, pairs in (
        (Adjacency.ADD_OR_REMOVE_ONE, [(found, bare(alone)) for found in present]),
        (Adjacency.REPLACE_ONE, [(one, two) for one in present for two in present]),
    ):
        rho = search.rho(adjacency)
        for one, two in pairs:
            for order in ORDERS:
                bound = order * (order - 1) * rho
                assert _log_mean(one, two, dict.fromkeys(one, bound), order) <= 1e-9
