"""What every accountant must satisfy.

A test class subclasses `AccountantContract` and gives cases. A case is an event with an exact
delta of one pair of output distributions that the event allows: no accountant may claim less.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpicl_rag.accounting import (
    Accountant,
    Adjacency,
    Composed,
    Event,
    PoissonSubsampled,
    PureDP,
    SelfComposed,
    SubsampledSum,
)
from dpicl_rag.errors import ConfigurationError

COUNTS = (1, 2, 9)
DELTAS = (1e-9, 1e-5, 1e-2)
EPSILONS = (0.0, 0.1, 1.0, 4.0)


class Pair:
    """Two distributions over finitely many outcomes, as log ratios and both probabilities."""

    def __init__(self, first: np.ndarray, second: np.ndarray) -> None:
        self.first, self.second = first, second

    @classmethod
    def two_points(cls, top: float, span: float) -> "Pair":
        """Log ratios ``top`` and ``top - span``; the worst bounded-range pair for some top."""
        chance = (1 - math.exp(top - span)) / (math.exp(top) - math.exp(top - span))
        second = np.array([chance, 1 - chance])
        return cls(second * np.exp([top, top - span]), second)

    def subsampled(self, rate: float) -> "Pair":
        """The first outcome distribution mixed into the second at ``rate``."""
        return Pair((1 - rate) * self.second + rate * self.first, self.second)

    def times(self, count: int) -> "Pair":
        """Product distribution by enumeration of all outcomes."""
        first, second = self.first, self.second
        for _ in range(count - 1):
            first = np.outer(first, self.first).ravel()
            second = np.outer(second, self.second).ravel()
        return Pair(first, second)

    def delta(self, epsilon: float) -> float:
        """Exact hockey-stick divergence, the larger of both directions."""
        factor = math.exp(epsilon)
        return max(
            float(np.maximum(self.first - factor * self.second, 0).sum()),
            float(np.maximum(self.second - factor * self.first, 0).sum()),
        )


def worst_of(pairs: list[Pair]) -> Callable[[int, float], float]:
    """Largest exact delta of any of the pairs composed with itself."""
    return lambda count, epsilon: max(pair.times(count).delta(epsilon) for pair in pairs)


def bounded_range_pairs(epsilon: float, rate: float = 1.0) -> list[Pair]:
    tops = np.linspace(0, epsilon, 11)[1:-1]
    return [Pair.two_points(float(top), epsilon).subsampled(rate) for top in tops]


def pure_pairs(epsilon: float, rate: float = 1.0) -> list[Pair]:
    return [Pair.two_points(epsilon, 2 * epsilon).subsampled(rate)]


def gaussian_delta(noise_multiplier: float) -> Callable[[int, float], float]:
    """Exact delta of composed Gaussian noise (Balle, Wang 2018, Theorem 8)."""

    def delta(count: int, epsilon: float) -> float:
        shift = math.sqrt(count) / noise_multiplier
        return float(
            norm.cdf(shift / 2 - epsilon / shift)
            - math.exp(epsilon) * norm.cdf(-shift / 2 - epsilon / shift)
        )

    return delta


def subsampled_gaussian_delta(
    noise_multiplier: float, rate: float
) -> Callable[[int, float], float]:
    """Lower bound: the outcome is rounded to a few bins, which can only hide something."""
    return _binned(noise_multiplier, [(0.0, 1 - rate), (1.0, rate)])


def subsampled_sum_delta(contexts: int, rate: float, sigma: float) -> Callable[[int, float], float]:
    """Lower bound, binned, where all contexts that a unit joins move alike."""
    chances = binom.pmf(range(contexts + 1), contexts, rate)
    return _binned(sigma, [(math.sqrt(2) * k, float(chance)) for k, chance in enumerate(chances)])


def _binned(sigma: float, mixture: list[tuple[float, float]]) -> Callable[[int, float], float]:
    edges = np.linspace(-3, 4, 6) * sigma

    def bins(mean: float) -> np.ndarray:
        found = np.diff(norm.cdf(edges, mean, sigma), prepend=0, append=1)
        found[-1] = norm.sf(edges[-1], mean, sigma)
        return found

    pair = Pair(sum(chance * bins(mean) for mean, chance in mixture), bins(0.0))
    return lambda count, epsilon: pair.times(min(count, 5)).delta(epsilon)


@dataclass(frozen=True)
class Case:
    """An event and a function of (count, epsilon) that no claimed delta may be below."""

    event: Event
    least_delta: Callable[[int, float], float]


class _Unknown(Event):
    """An event that no accountant knows."""


class AccountantContract:
    """Subclass it, name the class ``Test...``, and override the three attributes."""

    cases: tuple[Case, ...]
    unsupported: tuple[Event, ...] = (_Unknown(),)
    tolerance = 1e-6
    """Relative error allowed between delta and its inverse."""

    def accountant(self, adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE) -> Accountant:
        raise NotImplementedError

    def test_nothing_composed_costs_nothing(self) -> None:
        assert self.accountant().epsilon(1e-5) == 0
        assert self.accountant().delta(0.0) == 0

    def test_adjacency_is_explicit(self) -> None:
        for adjacency in Adjacency:
            assert self.accountant(adjacency).adjacency is adjacency
        with pytest.raises(TypeError):
            type(self.accountant())()  # type: ignore[call-arg]
        with pytest.raises(ConfigurationError, match="adjacency"):
            self.accountant("replace_one")  # type: ignore[arg-type]

    def test_count_is_repetition(self) -> None:
        for case in self.cases:
            for count in COUNTS[1:]:
                at_once = self.accountant().compose(case.event, count)
                nested = self.accountant().compose(SelfComposed(case.event, count))
                listed = self.accountant().compose(Composed((case.event,) * count))
                looped = self.accountant()
                for _ in range(count):
                    looped.compose(case.event)
                expected = at_once.epsilon(1e-5)
                for other in (nested, listed, looped):
                    assert other.epsilon(1e-5) == pytest.approx(expected, rel=1e-9)

    def test_counts_multiply_through_the_tree(self) -> None:
        for case in self.cases:
            tree = Composed((SelfComposed(Composed((case.event, case.event)), 2), case.event))
            expected = self.accountant().compose(case.event, 15).epsilon(1e-5)
            assert self.accountant().compose(tree, 3).epsilon(1e-5) == pytest.approx(expected)

    def test_order_does_not_matter(self) -> None:
        events = [case.event for case in self.cases]
        forward = self.accountant().compose(Composed(tuple(events)))
        backward = self.accountant().compose(Composed(tuple(events[::-1])))
        assert forward.epsilon(1e-5) == pytest.approx(backward.epsilon(1e-5), rel=1e-9)

    def test_more_costs_more(self) -> None:
        for case in self.cases:
            spent = [self.accountant().compose(case.event, n).epsilon(1e-5) for n in COUNTS]
            assert spent == sorted(spent)
            assert spent[-1] > spent[0]
            deltas = [self.accountant().compose(case.event, n).delta(0.5) for n in COUNTS]
            assert deltas == sorted(deltas)

    def test_adding_an_event_never_costs_less(self) -> None:
        accountant = self.accountant()
        before = 0.0
        for case in self.cases:
            after = accountant.compose(case.event).epsilon(1e-5)
            assert after >= before * (1 - 1e-9)
            before = after

    def test_epsilon_falls_as_delta_rises(self) -> None:
        for case in self.cases:
            accountant = self.accountant().compose(case.event, 3)
            epsilons = [accountant.epsilon(delta) for delta in DELTAS]
            assert epsilons == sorted(epsilons, reverse=True)
            deltas = [accountant.delta(epsilon) for epsilon in EPSILONS]
            assert deltas == sorted(deltas, reverse=True)
            assert all(0 <= delta <= 1 for delta in deltas)

    def test_epsilon_and_delta_are_inverse(self) -> None:
        met = 0
        for case in self.cases:
            accountant = self.accountant().compose(case.event, 3)
            for delta in DELTAS:
                epsilon = accountant.epsilon(delta)
                if epsilon == 0:
                    assert accountant.delta(0.0) <= delta * (1 + self.tolerance)
                else:
                    assert accountant.delta(epsilon) == pytest.approx(delta, rel=self.tolerance)
                    met += 1
        assert met > 0

    def test_never_below_an_exact_lower_bound(self) -> None:
        met = 0
        for case in self.cases:
            for count in COUNTS:
                accountant = self.accountant().compose(case.event, count)
                for epsilon in EPSILONS:
                    least = case.least_delta(count, epsilon)
                    # The last digits of the enumeration's own sums.
                    assert accountant.delta(epsilon) >= least * (1 - 1e-9) - 1e-14
                    met += least > 1e-6
                for delta in DELTAS:
                    assert case.least_delta(count, accountant.epsilon(delta)) <= delta * (1 + 1e-6)
        assert met > 0

    def test_mixed_composition_is_above_its_exact_lower_bound(self) -> None:
        """At least what the costliest single part gives away."""
        accountant = self.accountant().compose(Composed(tuple(c.event for c in self.cases)))
        for epsilon in EPSILONS:
            least = max(case.least_delta(1, epsilon) for case in self.cases)
            assert accountant.delta(epsilon) >= least * (1 - 1e-9) - 1e-14

    def test_a_wrong_tree_changes_nothing(self) -> None:
        good = self.cases[0].event
        for bad in self.unsupported:
            accountant = self.accountant().compose(good, 2)
            before = accountant.epsilon(1e-5)
            for tree in (bad, Composed((good, bad)), SelfComposed(Composed((good, bad, good)), 7)):
                with pytest.raises(ConfigurationError):
                    accountant.compose(tree)
                assert accountant.epsilon(1e-5) == before
            after = accountant.compose(good).epsilon(1e-5)
            assert after == self.accountant().compose(good, 3).epsilon(1e-5)

    def test_bad_counts_change_nothing(self) -> None:
        for count in (0, -1, 1.5, True, math.nan):
            accountant = self.accountant()
            with pytest.raises(ConfigurationError, match="count"):
                accountant.compose(self.cases[0].event, count)  # type: ignore[arg-type]
            assert accountant.epsilon(1e-5) == 0

    def test_subsampling_is_refused_under_replacement(self) -> None:
        accountant = self.accountant(Adjacency.REPLACE_ONE)
        with pytest.raises(ConfigurationError):
            accountant.compose(PoissonSubsampled(0.1, PureDP(1.0)))
        for case in self.cases:
            if isinstance(case.event, PoissonSubsampled | SubsampledSum):
                with pytest.raises(ConfigurationError, match="add-or-remove"):
                    accountant.compose(Composed((case.event,)))
        assert accountant.epsilon(1e-5) == 0

    def test_parameters_outside_their_range(self) -> None:
        accountant = self.accountant().compose(self.cases[0].event)
        for delta in (-1e-9, 1.0, 2.0, math.nan):
            with pytest.raises(ConfigurationError, match="delta"):
                accountant.epsilon(delta)
        for epsilon in (-1e-9, math.nan):
            with pytest.raises(ConfigurationError, match="epsilon"):
                accountant.delta(epsilon)
        assert accountant.delta(math.inf) == 0
