"""Counts of public values, exactly: what neighbours release, and how often it is false."""

import math
from collections import Counter, defaultdict
from dataclasses import replace
from functools import lru_cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from dpicl_rag.accounting import pure_dp
from dpicl_rag.accounting.conversion import rho_to_delta
from dpicl_rag.accounting.stability import DIRECT, RANDOM_GROUPS, Adjacency
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.languages.answer_keys import answer_keys
from dpicl_rag.mechanisms import value_counts
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian, DiscreteLaplace
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.mechanisms.value_counts import ValueCounts
from tests.unit.mechanisms.test_agreement import beyond

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE
DOMAIN = (("Yes", "No"),)
QUESTIONS = ("Is it open?", "On which day?", "When does it open?", "Until when?")
SAID = [("Yes",), ("No",), ("Yes", "No"), ("Perhaps",), ()]
EPSILON, RHO = 2.0, 0.6


@lru_cache
def pmf(noise) -> dict[int, float]:
    """Chances of the noise, cut where hardly anything is left."""
    if isinstance(noise, DiscreteLaplace):
        weights = {x: math.exp(-float(noise.epsilon) * abs(x)) for x in range(-30, 31)}
    else:
        reach = math.ceil(12 * noise.sigma)
        weights = {x: math.exp(-x * x / (2 * noise.sigma**2)) for x in range(-reach, reach + 1)}
    whole = math.fsum(weights.values())
    return {x: weight / whole for x, weight in weights.items()}


def released(step: ValueCounts, held) -> dict:
    """Chance of each value with its count, as the largest that is released; None of no release."""
    counts = Counter(key for own in held for key in step.counted(own))
    noise = pmf(step.noise)
    lines = {
        value: line
        for group, line in zip(step.groups, step.thresholds, strict=True)
        for value in group
    }

    sure = least_lead(step)

    def below(value: str, count: int, beaten: str) -> float:
        """Chance that another value is not released, or surely counts far less; or both may be."""

        def gives_way(at: int) -> bool:
            both = (":" in value) != (":" in beaten)
            return (at, value) < (count, beaten) if both else at <= min(count - sure, 0.75 * count)

        return math.fsum(
            chance
            for x, chance in noise.items()
            if (at := counts[value] + x) < lines[value] or gives_way(at)
        )

    found: dict = {}
    for value, line in lines.items():
        for x, chance in noise.items():
            if (count := counts[value] + x) >= line:
                others = (below(other, count, value) for other in lines if other != value)
                found[value, count] = chance * math.prod(others)
    found[None] = 1 - math.fsum(found.values())
    return found


def least_lead(step: ValueCounts) -> int:
    """The least lead that noise alone has over other noise once in ``false`` at most."""
    noise = pmf(step.noise)
    lead, over = 0, 1.0
    while over > step.false:
        lead += 1
        over = math.fsum(
            noise[x] * noise[y] for x in noise for y in noise if x - y >= lead and noise[y] > 1e-15
        )
    return lead


def drawn(step: ValueCounts, held, monkeypatch) -> dict:
    """Chance of everything that a draw releases, by every noise on every value."""
    # Of Laplace noise more is left far out.
    reach = 18 / float(step.noise.epsilon) if isinstance(step.noise, DiscreteLaplace) else 9
    noise = {x: chance for x, chance in pmf(step.noise).items() if abs(x) <= reach}
    queue: list[int] = []
    monkeypatch.setattr(type(step.noise), "draw", lambda self, randomness: queue.pop(0))
    values = sum(map(len, step.groups))
    law: dict = defaultdict(float)
    for each in product(noise.items(), repeat=values):
        queue[:] = [x for x, _ in each]
        found = step.draw(held, Randomness())
        queue.clear()
        law[tuple((one.key, one.count) for one in found)] += math.prod(c for _, c in each)
    return dict(law)


def neighbours(adjacency, most):
    for size in range(most + 1):
        for held in combinations_with_replacement(SAID, size):
            if adjacency is ADD:
                yield from (([*held, one], list(held)) for one in SAID)
            else:
                yield from (([*held, a], [*held, b]) for a in SAID for b in SAID if a != b)


def made(kind: str, adjacency=ADD) -> ValueCounts:
    if kind == "pure":
        return ValueCounts.pure(EPSILON, DOMAIN, 0.01, DIRECT, adjacency)
    return ValueCounts.within(RHO, DOMAIN, 0.01, DIRECT, adjacency)


def allowed(kind: str, epsilon: float) -> float:
    return pure_dp.delta(EPSILON, epsilon) if kind == "pure" else rho_to_delta(RHO, epsilon)


def worst(step, kind, monkeypatch, adjacency=ADD) -> float:
    """How far the worst pair of neighbours passes the claim; 0 or less where it holds."""
    laws: dict = {}

    def law(held):
        key = tuple(sorted(held))
        if key not in laws:
            laws[key] = drawn(step, list(held), monkeypatch)
        return laws[key]

    return max(
        beyond(law(left), law(right), epsilon) - allowed(kind, epsilon)
        for left, right in neighbours(adjacency, 2 if adjacency is ADD else 1)
        for epsilon in (0.0, 0.5, 1.0, 1.9, EPSILON, 3.0)
    )


WAYS = pytest.mark.parametrize(
    ("kind", "adjacency"), [(kind, way) for kind in ("pure", "zcdp") for way in (ADD, REPLACE)]
)


@pytest.mark.one_in(3)
@WAYS
def test_neighbours_are_within_the_charge(monkeypatch, kind, adjacency):
    assert worst(made(kind, adjacency), kind, monkeypatch, adjacency) <= 1e-7


@pytest.fixture
def beside(monkeypatch):
    """Each value may be right beside the others, so what is near is released."""
    monkeypatch.setattr(value_counts, "_shape", lambda value: value)


@pytest.mark.one_in(3)
@WAYS
def test_so_are_those_of_values_that_may_all_be_right(monkeypatch, beside, kind, adjacency):
    assert worst(made(kind, adjacency), kind, monkeypatch, adjacency) <= 1e-7


def test_a_pure_count_costs_all_of_its_epsilon(monkeypatch):
    step = made("pure")
    laws = [drawn(step, held, monkeypatch) for held in ([("Yes",)] * 3, [("Yes",)] * 4)]
    assert beyond(*laws, EPSILON) <= 1e-7 < beyond(*laws, EPSILON - 0.01)
    assert step.rho == pure_dp.zcdp(EPSILON)
    assert step.delta == 0.0


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["pure", "zcdp"])
def test_faults_are_found(monkeypatch, beside, kind):
    step = made(kind)
    noise = step.noise
    loud = DiscreteLaplace(2 * EPSILON) if kind == "pure" else DiscreteGaussian(noise.sigma / 2)
    assert worst(replace(step, noise=loud), kind, monkeypatch) > 0.01
    honest = ValueCounts.counted
    monkeypatch.setattr(
        ValueCounts, "counted", lambda self, keys: tuple(keys) if len(keys) > 1 else keys[:0]
    )
    assert worst(step, kind, monkeypatch) > 0.001  # one that names both counts twice
    monkeypatch.setattr(ValueCounts, "counted", honest)


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
def test_the_law_of_the_largest_is_that_of_the_draw(monkeypatch, kind):
    step = made(kind)
    for held in ([], [("Yes",)] * 4, [("Yes",)] * 3 + [("No",), ("Perhaps",)]):
        law = released(step, held)
        assert math.fsum(law.values()) == pytest.approx(1.0)
        largest: dict = defaultdict(float)
        for found, chance in drawn(step, held, monkeypatch).items():
            largest[found[0] if found else None] += chance
        for outcome, chance in largest.items():
            assert chance == pytest.approx(law[outcome], abs=1e-7)


def test_what_stands_outside_the_domain_is_no_vote(monkeypatch):
    monkeypatch.setattr(DiscreteLaplace, "draw", lambda *_: 0)
    step = made("pure")
    assert step.counted(("Perhaps", "No", "Yes")) == ("No",)
    assert step.counted(("Perhaps",)) == ()
    assert step.draw([("Perhaps",)] * 50, Randomness()) == []
    (found,) = step.draw([("Perhaps", "No")] * 5, Randomness())
    assert (found.key, found.count, found.within) == ("No", 5, 1)


def false_answers(step: ValueCounts, lower: int = 0) -> float:
    """Chance that something comes out where nobody or one unit alone names a value, the larger."""
    lines = [threshold - lower for threshold in step.thresholds]
    silent = math.prod(
        (1 - step.noise.tail(line)) ** len(group)
        for group, line in zip(step.groups, lines, strict=True)
    )
    alone = (
        1 - silent / (1 - step.noise.tail(line)) * (1 - step.noise.tail(line - 1)) for line in lines
    )
    return max(1 - silent, *alone)


@pytest.mark.parametrize("false", [0.05, 0.01, 0.001])
@pytest.mark.parametrize("question", QUESTIONS)
def test_at_most_so_many_answers_are_false_and_one_vote_fewer_is_not_enough(question, false):
    domain = answer_keys(question).domain
    for epsilon in (0.3, 1.0, 1.7, 4.0, 8.0, 20.0):
        for step in (
            ValueCounts.pure(epsilon, domain, false, DIRECT, ADD),
            ValueCounts.within(epsilon**2 / 8, domain, false, DIRECT, ADD),
        ):
            assert false_answers(step) <= false
            # Each group has a share of its own, and is not above it.
            assert false_answers(step, lower=1) > 0.9 * false or min(step.thresholds) == 1


@pytest.mark.parametrize("kind", ["pure", "zcdp"])
@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_the_lesser_of_two_is_hardly_ever_released(kind, ahead):
    step = made(kind)
    law = released(step, [("No",)] * (20 + ahead) + [("Yes",)] * 20)
    assert math.fsum(law[key] for key in law if key and key[0] == "Yes") <= step.false
    far = released(step, [("No",)] * 40 + [("Yes",)] * 20)
    assert math.fsum(far[key] for key in far if key and key[0] == "No") > 0.99


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"Monday": 8, "Tuesday": 6}, []),
        ({"Monday": 20, "Tuesday": 12}, ["Monday", "Tuesday"]),
        ({"Monday": 40, "Tuesday": 30}, ["Monday", "Tuesday"]),
        ({"Monday": 40, "Tuesday": 31}, []),
        ({"Monday": 20, "6:45": 19}, ["Monday", "6:45"]),
        ({"6:45": 20, "9:30": 20, "Monday": 20}, ["Monday", "9:30", "6:45"]),
        ({"6:45": 21, "Monday": 20, "9:30": 20}, []),
        ({"9:30": 20, "March 3": 20, "March 4": 1}, ["March 3", "9:30"]),
        ({"9:30": 1, "6:45": 1}, []),
    ],
)
def test_where_noise_may_have_decided_or_units_differ_nothing_is_released(said, told, monkeypatch):
    monkeypatch.setattr(DiscreteLaplace, "draw", lambda *_: 0)
    groups = (("Monday", "Tuesday", "6:45", "9:30", "March 3", "March 4"),)
    step = ValueCounts.pure(2.0, groups, 0.01, DIRECT, ADD)
    held = [(value,) for value, units in said.items() for _ in range(units)]
    assert [one.key for one in step.draw(held, Randomness())] == told


def test_groups_and_replacement_need_more_noise():
    noise = [
        ValueCounts.within(0.1, DOMAIN, 0.01, stability, adjacency).noise.sigma
        for stability, adjacency in ((DIRECT, ADD), (RANDOM_GROUPS, ADD), (DIRECT, REPLACE))
    ]
    assert noise == pytest.approx(np.array([1, math.sqrt(2), math.sqrt(2)]) * noise[0])


@pytest.mark.parametrize("epsilon", [0.01, 0.7, 3.0, 40.0])
def test_the_tail_of_laplace_noise_is_exact_and_rounded_up(epsilon):
    noise = DiscreteLaplace(epsilon)
    reach = math.ceil(750 / epsilon) + 2
    x = np.arange(-reach, reach + 1)
    chances = np.exp(-epsilon * np.abs(x).astype(np.longdouble))
    chances /= chances.sum()
    for least in (-7, -1, 0, 1, 2, 9, math.ceil(10 / epsilon)):
        exact = float(chances[x >= least].sum())
        assert exact <= noise.tail(least) <= exact * (1 + 1e-9) + 1e-300
    for probability in (0.4, 1e-3, 1e-9):
        least = noise.least(probability)
        assert noise.tail(least) <= probability
        assert least == 1 or noise.tail(least - 1) > probability


@pytest.mark.parametrize(
    ("price", "false"), [(0.0, 0.01), (math.inf, 0.01), (1.0, 0.0), (1.0, 1.0)]
)
def test_a_number_outside_its_range_is_one_clear_line(price, false):
    with pytest.raises(ConfigurationError):
        ValueCounts.within(price, DOMAIN, false, DIRECT, ADD)
    with pytest.raises(ConfigurationError):
        ValueCounts.pure(price, DOMAIN, false, DIRECT, ADD)
