"""Random groups of a Poisson sample: every coin and every choice enumerated, beside the charge."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from unittest import mock

import numpy as np
import pytest
import torch

from dpicl_rag.accounting import (
    Adjacency,
    Budget,
    Gaussian,
    PoissonSubsampled,
    PureDP,
    Stability,
    epsilon_for,
)
from dpicl_rag.accounting.subsampling import profile_of
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.selection import ReportNoisyMax
from dpicl_rag.methods import Groups, OneEach, make
from dpicl_rag.methods.base import Calibrated
from dpicl_rag.methods.votes import VOTE
from dpicl_research import context_rows

SMALL, LIKELY = 0.02, 0.05
EPSILONS = np.array([0.0, 0.02, 0.3, 1.0, 2.5])
ROUNDING = 1e-9
SURE = 40.0

Rule = Callable[[frozenset[int]], int]
"""From the units of a group to its label: what any language model might say to them."""

Place = Callable[[list[tuple[float, float]], Groups], list[tuple[int, ...]]]
"""From every unit's coin and choice to the groups."""


def own_choices(draws, layout):
    """The code of the evaluation, with given coins."""
    flat = [number for draw in draws for number in draw]
    with mock.patch.object(context_rows, "_uniform", lambda name, number: flat[:number]):
        return context_rows.Coins(0, 0).subsets(layout, len(draws))


def by_rank(draws, layout):
    """A plant: the sample is cut in its own order, so that an arrival moves those behind it."""
    sampled = [unit for unit, (coin, _) in enumerate(draws) if coin < layout.rate]
    pairs = [tuple(sampled[at : at + 2]) for at in range(0, len(sampled), 2)]
    return (pairs + [()] * layout.count)[: layout.count]


def in_two(draws, layout):
    """A plant: who is sampled joins the next group too."""
    groups = own_choices(draws, layout)
    return [tuple(sorted({*groups[at - 1], *group})) for at, group in enumerate(groups)]


def all_draws(units: int, layout: Groups) -> Iterator[tuple[list[tuple[float, float]], float]]:
    """Every coin and choice of some units, with their probability."""
    rate, count = layout.rate, layout.count
    joined = [((rate / 2, (group + 0.5) / count), rate / count) for group in range(count)]
    away = ((1 + rate) / 2, 0.5), 1 - rate
    for drawn in itertools.product([*joined, away], repeat=units):
        yield [draw for draw, _ in drawn], math.prod(chance for _, chance in drawn)


class Corpora:
    """Outputs of a method over some units, with one rule: exact, over all coins and choices."""

    def __init__(self, method, calibrated, layout: Groups, labels: int, place: Place):
        self.method, self.calibrated, self.layout = method, calibrated, layout
        self.labels, self.place = labels, place
        self.known: dict[tuple[int, ...], torch.Tensor] = {}

    def output(self, units: tuple[int, ...], rule: Rule) -> torch.Tensor:
        whole = torch.zeros(self.labels, dtype=torch.float64)
        for draws, chance in all_draws(len(units), self.layout):
            groups = self.place(draws, self.layout)
            votes = (rule(frozenset(units[at] for at in group)) for group in groups)
            whole += chance * self.drawn(tuple(sorted(votes)))
        return whole

    def drawn(self, votes: tuple[int, ...]) -> torch.Tensor:
        if votes not in self.known:
            rows = torch.full((len(votes), self.labels), -SURE, dtype=torch.float64)
            rows[range(len(votes)), list(votes)] = 0.0
            views = {self.layout: torch.log_softmax(rows, -1)}
            self.known[votes] = self.method.distribution(views, self.calibrated)
        return self.known[votes]

    def neighbours(self, rules: list[Rule], most: int) -> Iterator[tuple[torch.Tensor, ...]]:
        """Outputs with and without a unit, wherever it stands among up to ``most``."""
        for rule, size in itertools.product(rules, range(1, most + 1)):
            whole = tuple(range(size))
            with_unit = self.output(whole, rule)
            for out in whole:
                yield with_unit, self.output((*whole[:out], *whole[out + 1 :]), rule)


def rules(labels: int) -> list[Rule]:
    """The unit 0 says all; the first one says all; and nothing that one could think of."""

    def random_rule(seed: int) -> Rule:
        table = np.random.default_rng(seed).integers(labels, size=256)
        return lambda group: int(table[sum(1 << unit for unit in group)])

    return [
        lambda group: int(0 in group),
        lambda group: min(group) % 2 if group else 0,
        lambda group: labels - 1 if 0 in group else len(group) % labels,
        *map(random_rule, range(6)),
    ]


def deltas(p: torch.Tensor, q: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Hockey-stick divergences of p from q and of q from p at ``EPSILONS``."""

    def one(first: torch.Tensor, second: torch.Tensor) -> np.ndarray:
        steps = [(first - math.exp(e) * second).clamp(min=0).sum() for e in EPSILONS]
        return np.array([float(step) for step in steps])

    return one(p, q), one(q, p)


def excess(corpora: Corpora, event, most: int = 3) -> tuple[float, float]:
    """The most by which neighbours pass the charge, and the share of it that they reach.

    Both over all epsilons and both directions; the unit's arrival against the one direction of
    the charge, its leaving against the other.
    """
    claimed = profile_of(event)(EPSILONS)
    over, share = -math.inf, 0.0
    for pair in corpora.neighbours(rules(corpora.labels), most):
        for found, allowed in zip(deltas(*pair), claimed, strict=True):
            over = max(over, float((found - allowed).max()))
            share = max(share, float((found[:2] / allowed[:2]).max()))
    return over, share


def gaussian(rate: float, sigma: float, groups: int, labels: int, place: Place = own_choices):
    method = make("votes-gaussian", rate=rate, group_size=2)
    noise = Calibrated(ReportNoisyMax(VOTE, sigma, math.inf, 1.0), sigma, None, Budget(1.0, 0.1))
    return Corpora(method, noise, Groups(groups, rate), labels, place)


def charge(rate: float, sigma: float) -> PoissonSubsampled:
    """What the library says: a changed vote, sampled."""
    return PoissonSubsampled(rate, Gaussian(sigma / math.sqrt(2)))


@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize(("rate", "sigma"), [(0.3, 0.7), (0.6, 2.5)])
def test_every_neighbour_stays_within_the_charge(labels, groups, rate, sigma):
    over, share = excess(gaussian(rate, sigma, groups, labels), charge(rate, sigma))
    assert over <= ROUNDING
    if groups == 1:
        # A lead of one vote that one unit turns: two labels tell all that the votes tell.
        assert share == pytest.approx(1.0, abs=0.01 if labels == 2 else 0.25)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("rate", "group_size"), [(0.05, 4), (0.5, 2)])
@pytest.mark.parametrize("queries", [1, 1000])
def test_the_noise_is_for_that_charge(rate, group_size, queries):
    budget = Budget(4.0, 1e-5, queries=queries)
    calibrated = make("votes-gaussian", rate=rate, group_size=group_size).calibrate(budget)
    assert calibrated.event == charge(rate, calibrated.parameter)
    assert calibrated.rho is None
    assert 0.99 * 4.0 < epsilon_for(calibrated.event, budget) <= 4.0 * (1 + 1e-9)
    alone = make("votes-gaussian", rate=rate).calibrate(budget)
    assert calibrated.parameter == pytest.approx(math.sqrt(2) * alone.parameter, rel=1e-9)


@pytest.mark.heavy
def test_the_papers_own_method_is_charged_as_published():
    """Its sensitivity of sqrt(2) is right where votes change, and too much where they arrive."""
    for budget in (Budget(4.0, 1e-5, queries=100), Budget(4.0, 1e-5)):
        method = make("votes-gaussian", rate=0.05, group_size=4)
        exact, published = method.calibrate(budget), method.published(budget)
        assert published.noise == "published"
        assert published.parameter == pytest.approx(exact.parameter, rel=1e-12)
        assert epsilon_for(published.event, budget) == pytest.approx(4.0, rel=1e-2)
        alone = make("votes-gaussian", rate=0.05)
        wide = alone.published(budget).parameter
        assert wide == pytest.approx(math.sqrt(2) * alone.calibrate(budget).parameter)


# ---- the plants ----

CUT = {"rate": 0.9, "sigma": 2.5, "groups": 3, "labels": 2}


@pytest.mark.heavy
def test_groups_by_rank_are_found_out():
    event = charge(CUT["rate"], CUT["sigma"])
    assert excess(gaussian(**CUT), event, most=5)[0] <= ROUNDING
    over, share = excess(gaussian(**CUT, place=by_rank), event, most=5)
    assert over > 0.02
    assert share > 1.1


def test_a_unit_in_two_groups_is_found_out():
    over, share = excess(gaussian(0.6, 2.5, 3, 2, in_two), charge(0.6, 2.5))
    assert over > 0.02
    assert share > 1.5


@pytest.mark.parametrize("claimed", [0.15, 0.2])
def test_the_wrong_rate_is_found_out(claimed):
    """As if a unit in one group of two were sampled at half the rate, or a little off."""
    over, share = excess(gaussian(0.3, 2.5, 2, 2), charge(claimed, 2.5))
    assert over > 0.01
    assert share > 1.3


def test_a_changed_vote_charged_as_one_that_arrives_is_found_out():
    over, share = excess(gaussian(0.6, 2.5, 2, 2), PoissonSubsampled(0.6, Gaussian(2.5)))
    assert over > 0.02
    assert share > 1.3


# ---- purely private methods ----

PURE = ["votes", "permute-and-flip", "permute-and-flip-votes", "poe"]


def largest_ratio(corpora: Corpora, most: int = 3) -> float:
    pairs = corpora.neighbours(rules(corpora.labels), most)
    return max(float((torch.log(p) - torch.log(q)).abs().max()) for p, q in pairs)


def pure(name: str, rate: float, epsilon: float, place: Place = own_choices, claimed=None):
    true = {"group_size": 2, "rate": rate}
    calibrated = make(name, **{**true, **(claimed or {})}).calibrate(Budget(epsilon, 1e-2))
    return Corpora(make(name, **true), calibrated, Groups(3, rate), 3, place)


@pytest.mark.parametrize("name", PURE)
@pytest.mark.parametrize(("rate", "epsilon"), [(0.4, 1.0), (0.7, 3.0)])
def test_one_query_is_purely_private_and_nearly_all_of_it(name, rate, epsilon):
    found = largest_ratio(pure(name, rate, epsilon))
    assert 0.7 * epsilon < found <= epsilon + ROUNDING


@pytest.mark.parametrize("name", PURE)
def test_plants_are_found_out_there_too(name):
    for planted in (
        pure(name, 0.7, 3.0, in_two),
        pure(name, 0.7, 3.0, claimed={"rate": 0.1}),
        pure(name, 0.7, 3.0, claimed={"group_size": 1}),
    ):
        assert largest_ratio(planted) > 1.05 * 3.0


@pytest.mark.parametrize("name", ["permute-and-flip", "permute-and-flip-votes"])
def test_many_queries_of_a_pure_method_compose_exactly(name):
    budget = Budget(2.0, 1e-5, queries=50)
    calibrated = make(name, rate=0.1, group_size=4).calibrate(budget)
    event = calibrated.event
    assert isinstance(event, PoissonSubsampled)
    assert isinstance(event.event, PureDP)
    assert 0.99 * 2.0 < epsilon_for(event, budget) <= 2.0
    # More than sums of epsilon pay for, and more than without a sample.
    assert calibrated.parameter > make(name, group_size=4).calibrate(budget).parameter


@pytest.mark.parametrize("rate", [0.2, 0.7])
def test_the_profile_of_sampled_pure_privacy_is_that_of_randomised_response(rate):
    inner = 1.7
    p = torch.tensor([math.exp(inner), 1.0], dtype=torch.float64) / (math.exp(inner) + 1)
    mixed, alone = (1 - rate) * p.flip(0) + rate * p, p.flip(0)
    claimed = profile_of(PoissonSubsampled(rate, PureDP(inner)))(EPSILONS)
    for found, allowed in zip(deltas(mixed, alone), claimed, strict=True):
        assert found == pytest.approx(allowed, abs=1e-12)


# ---- what has no exact charge ----


@pytest.mark.parametrize("name", ["poe", "poe-groups", "poe-prior", "votes"])
def test_many_sampled_draws_of_the_exponential_mechanism_are_refused(name):
    method = make(name, rate=0.05, group_size=4)
    assert method.calibrate(Budget(1.0, 1e-5)).rho is None
    with pytest.raises(ConfigurationError, match="no exact charge is known for many draws"):
        method.calibrate(Budget(1.0, 1e-5, queries=2))


@pytest.mark.parametrize("name", ["votes-gaussian", "votes", "permute-and-flip"])
def test_samples_are_refused_where_they_do_not_amplify(name):
    method = make(name, rate=0.05, group_size=4)
    for budget in (
        Budget(1.0, 1e-5, Adjacency.REPLACE_ONE),
        Budget(1.0, 1e-5, stability=Stability(added=0, changed=1)),
    ):
        with pytest.raises(ConfigurationError, match="use rate 1"):
            method.calibrate(budget)
    with pytest.raises(ConfigurationError, match="a search is priced"):
        method.calibrate(Budget(1.0, 1e-5, search_rho=0.01))


def test_the_number_of_subsets_follows_from_public_numbers():
    method = make("votes-gaussian", rate=0.05, group_size=4)
    assert method.layouts(800) == (Groups(10, 0.05),)
    assert make("votes-gaussian", rate=0.07, group_size=3).layouts(300) == (Groups(7, 0.07),)
    assert make("votes-gaussian", rate=0.0083, group_size=4).layouts(4800)[0].count == 10
    assert method.layouts(3) == (Groups(1, 0.05),)
    assert make("hard", rate=0.05, group_size=4).layouts(800) == (Groups(10, 0.05),)
    assert make("poe", rate=0.5).layouts(8) == (OneEach(0.5),)
