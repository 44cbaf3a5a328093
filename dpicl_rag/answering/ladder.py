"""The ladder: counts of whole answers, the cheap ones first.

How many units agree is not known beforehand. So the first count has much noise, and costs little;
each later one has half as much, and the last takes all that is left. Every step has noise of its
own, and is paid for.

Where a lifetime pays, thresholds are so high that most steps would be paid for in vain. There the
number of units that agree most is counted first: it says with how much noise to begin, and where
too few agree nothing else is paid for.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from statistics import NormalDist

from dpicl_rag.accounting.budget import SHARES, Budget
from dpicl_rag.accounting.pure_dp import zcdp
from dpicl_rag.accounting.stability import Adjacency, Stability
from dpicl_rag.mechanisms.private_counts import Agreement, TopCount
from dpicl_rag.mechanisms.value_counts import ValueCounts
from dpicl_rag.retrieval.base import NoisyCount

_MOSTLY = 0.9

_REACH = 5  # sigmas of the top count that are looked at; more are of no weight

_FEWER = 1.5  # sigmas of the top count below what is needed: with more it is tried


KeyCounts = Agreement | ValueCounts
"""Counts of keys: of those that occur, or of a public list."""

Domain = Sequence[tuple[str, ...]]
"""Public values, the likelier ones first."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """Counts whose prices add up to no more than a rho and a delta. Public.

    Attributes:
        steps: Counts of keys, each with its threshold; behind a top count the fewest there are.
        top: What is counted before them, if anything.
        least: The least top count with which steps are tried.
        stability: From the corpus to the experts.
        adjacency: Of corpora.
        single: Whether keys alone are counted. Else whole sentences are counted first.
        instead_of: Units that a dearer count needs, where another took its place.
        gaussian: Whether a budget for Gaussian noise alone pays.
    """

    steps: tuple[KeyCounts, ...]
    top: TopCount | None
    least: int
    stability: Stability
    adjacency: Adjacency
    single: bool = False
    instead_of: int | None = None
    gaussian: bool = False

    @staticmethod
    def within(
        rho: float, delta: float, first: float, stability: Stability, adjacency: Adjacency
    ) -> Ladder:
        """A ladder without a top count.

        Args:
            rho: zCDP rho of all steps.
            delta: Of all thresholds.
            first: About how many units must agree at the first step. Public.
            stability: From the corpus to the experts.
            adjacency: Of corpora.
        """
        steps = _steps(rho, delta, first, stability, adjacency)
        return Ladder(steps, None, 0, stability, adjacency)

    @staticmethod
    def of_keys(
        rho: float, delta: float, keys: int, stability: Stability, adjacency: Adjacency
    ) -> Ladder:
        """One count of keys, for answers whose wordings have one in common.

        Args:
            rho: zCDP rho of the count.
            delta: Of its thresholds.
            keys: Of one unit, at most.
            stability: From the corpus to the experts.
            adjacency: Of corpora.
        """
        step = Agreement.within(rho * (1 - 1e-9), delta, stability, adjacency, keys)
        return Ladder((step,), None, 0, stability, adjacency, single=True)

    def or_selected(self, budget: Budget) -> Ladder:
        """The same count, or optimal partition selection where fewer units are enough for it.

        Args:
            budget: Of an answer that is released once, and of the search before it. Nothing is
                released after the count.
        """
        epsilon, delta = budget.beside_search()
        given = budget.stability, budget.adjacency
        step = Agreement.selecting(epsilon, delta, *given) if epsilon > 0 else None
        if step is None or _units_for((step,)) >= self.units:
            return self
        return replace(self, steps=(step,), instead_of=self.units)

    def or_values(self, domain: Domain, false: float) -> Ladder:
        """The same counts, or those of a public list where no more units are needed for them.

        Of a list few are needed, so a top count would tell too little.

        Args:
            domain: The list.
            false: See `ValueCounts`; of all steps together.
        """
        shares, given = SHARES.steps_of_values, (self.stability, self.adjacency)
        own, each = self.rho * (1 - 1e-9), false / len(shares)
        steps = tuple(
            ValueCounts.within(share * own, domain, each, *given, gaussian=self.gaussian)
            for share in shares
        )
        return self._or(steps)

    def or_values_once(self, budget: Budget, domain: Domain, false: float) -> Ladder:
        """The same count, or a purely private one of a public list, if no more units are needed.

        Args:
            budget: See `or_selected`.
            domain: The list.
            false: See `ValueCounts`.
        """
        given = budget.stability, budget.adjacency
        step = ValueCounts.pure(budget.pure_epsilon(zcdp), domain, false, *given)
        return self if step is None else self._or((step,))

    def _or(self, steps: tuple[ValueCounts, ...]) -> Ladder:
        units = self.units
        if _units_for(steps) > units:
            return self
        return replace(self, steps=steps, top=None, least=0, single=True, instead_of=units)

    @staticmethod
    def behind_top_count(
        rho: float,
        delta: float,
        stability: Stability,
        adjacency: Adjacency,
        keys: int | None = None,
        *,
        gaussian: bool = False,
    ) -> Ladder:
        """A ladder that a top count begins, see `after`.

        Args:
            rho: zCDP rho of the top count and all steps.
            delta: Of all thresholds.
            stability: From the corpus to the experts.
            adjacency: Of corpora.
            keys: Of one unit, at most, where keys alone are counted.
            gaussian: A budget for Gaussian noise alone pays.
        """
        price = min(SHARES.top_count * rho, SHARES.top_count_rho)
        top = TopCount.within(price, stability, adjacency, gaussian=gaussian)
        left = (rho - top.rho) * (1 - 1e-9)
        given = stability, adjacency
        last = Agreement.within(left, delta, *given, keys or 1, gaussian=gaussian)
        least = math.ceil(_units_for((last,)) - _FEWER * top.noise.sigma)
        single = keys is not None
        return Ladder((last,), top, least, *given, single=single, gaussian=gaussian)

    @property
    def rho(self) -> float:
        """The most that it costs any unit, zCDP."""
        return sum(step.rho for step in self.steps) + (0.0 if self.top is None else self.top.rho)

    @property
    def units(self) -> int:
        """Number of units that must say the same, so that it is released 9 times in 10."""
        return _units_behind(self) if self.top else _units_for(self.steps)

    def after(self, count: int) -> tuple[KeyCounts, ...]:
        """The steps that a top count leaves, of the same price at most; none where it is too low.

        Args:
            count: The top count as it was drawn.
        """
        assert self.top is not None
        if count < self.least:
            return ()
        if self.single:
            return self.steps
        (last,) = self.steps
        # Fewer say the same sentence than name the same; so it is begun lower, if that is no dearer
        # than an early step may be.
        low = NoisyCount(count, self.top.noise.sigma).low
        lowest = max(SHARES.first_threshold_of_top * count, self._lowest_first(last))
        given = self.stability, self.adjacency, self.gaussian
        steps = _steps(last.rho, last.delta, min(low, lowest), *given)
        return steps if len(steps) > 1 else self.steps

    def _lowest_first(self, last: KeyCounts) -> float:
        """The least number at the first of several steps that such a price pays for."""
        scale = self.stability.votes_l2(self.adjacency)
        # Rounded up, so that the price is not above its share.
        sigma = scale / math.sqrt(2 * SHARES.early_step * last.rho) * (1 + 1e-6)
        return 1 + _tail(last.delta) * sigma / scale


@lru_cache(maxsize=64)  # settings are few, and answers many
def _units_behind(ladder: Ladder) -> int:
    assert ladder.top is not None
    noise, left = ladder.top.noise, lru_cache(maxsize=None)(ladder.after)
    reach = math.ceil(_REACH * noise.sigma)
    drawn = [(at, noise.tail(at) - noise.tail(at + 1)) for at in range(-reach, reach + 1)]

    def released(units: int) -> float:
        chances: dict[tuple[KeyCounts, ...], float] = defaultdict(float)
        for at, chance in drawn:
            chances[left(units + at)] += chance
        return math.fsum(chance * _released(steps, units) for steps, chance in chances.items())

    return _least(released)


def _tail(delta: float) -> float:
    """Sigmas of the threshold of an early step, about."""
    return -NormalDist().inv_cdf(SHARES.early_threshold * delta)


def _units_for(steps: tuple[KeyCounts, ...]) -> int:
    return _least(lambda units: _released(steps, units))


def _least(released: Callable[[int], float]) -> int:
    """The least number of units that is mostly released; more are released more often."""
    high = 1
    while released(high) < _MOSTLY:
        high *= 2
    return bisect_left(range(high), _MOSTLY, lo=high // 2 + 1, key=released)


def _released(steps: tuple[KeyCounts, ...], units: int) -> float:
    """Probability that one of some steps releases what so many units say, at least."""
    reached = 1 - math.prod(1 - step.chance(units) for step in steps)
    return reached * (1 - sum(step.false for step in steps if isinstance(step, ValueCounts)))


def _steps(
    rho: float,
    delta: float,
    first: float,
    stability: Stability,
    adjacency: Adjacency,
    gaussian: bool = False,
) -> tuple[Agreement, ...]:
    within = partial(Agreement.within, stability=stability, adjacency=adjacency, gaussian=gaussian)
    # A billionth is kept back for the rounding of these sums.
    steps, left, delta_left = [], rho * (1 - 1e-9), delta * (1 - 1e-9)
    scale = stability.votes_l2(adjacency)
    sigma = max(1.0, scale * (first - 1) / _tail(delta))
    while (price := (scale / sigma) ** 2 / 2) <= SHARES.early_step * left:
        step = within(price, SHARES.early_threshold * delta_left)
        steps.append(step)
        left, delta_left, sigma = left - step.rho, delta_left - step.delta, sigma / 2
    return (*steps, within(left, delta_left))
