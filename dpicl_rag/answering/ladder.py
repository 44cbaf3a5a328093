"""The ladder: counts of whole answers, the cheap ones first.

How many units agree is not known beforehand. So the first count has much noise, and costs little;
each later one has half as much, and the last takes all that is left. Every step has noise of its
own, and is paid for.

Where a lifetime pays, thresholds are so high that most steps would be paid for in vain. There the
number of units that agree most is counted first: it says with how much noise to begin, and where
too few agree nothing else is paid for. How much of the price that top count takes, and from which
count on keys are counted, is chosen for the least price of an answer and of a failure together.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from statistics import NormalDist

from dpicl_rag.accounting.budget import SHARES, Budget
from dpicl_rag.accounting.pure_dp import zcdp
from dpicl_rag.accounting.stability import Adjacency, Stability
from dpicl_rag.mechanisms.private_counts import Agreement, TopCount
from dpicl_rag.mechanisms.value_counts import ValueCounts
from dpicl_rag.retrieval.base import NoisyCount

_MOSTLY = 0.9

_REACH = 5  # sigmas of the top count that are looked at; more are of no weight

_LISTED = 3
"""Keys of a unit, from which they are items of a list: an early count would tell only those that
nearly as many name as the most frequent one, and all are asked for."""

_LEAST_PLANNED = 2e-3
"""Rho of all counts below which no plan is made, an epsilon of 0.3 or so: sums have thousands of
numbers, and more than a hundred units have to agree."""

_FEWER = 1.5  # sigmas of the top count below what is needed: with more it is tried there

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
        first: A count of keys that is cheaper than the top count, and comes before it.
        gaussian: Whether a budget for Gaussian noise alone pays.
    """

    steps: tuple[KeyCounts, ...]
    top: TopCount | None
    least: int
    stability: Stability
    adjacency: Adjacency
    single: bool = False
    instead_of: int | None = None
    first: KeyCounts | None = None
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
        given = budget.stability, budget.adjacency, self.steps[-1].keys
        step = Agreement.selecting(epsilon, delta, *given) if epsilon > 0 else None
        if step is None or _units_for((step,)) >= self.units:
            return self
        return replace(self, steps=(step,), instead_of=self.units)

    def or_values(self, domain: Domain, false: float) -> Ladder:
        """The same counts, or those of a public list where no more units are needed for them.

        Args:
            domain: The list.
            false: See `ValueCounts`; of all counts together.
        """
        given = self.stability, self.adjacency, self.gaussian
        return self._or(_of_values(self.rho, domain, false, *given))

    def or_values_once(self, budget: Budget, domain: Domain, false: float) -> Ladder:
        """The same count, or a purely private one of a public list, if no more units are needed.

        Args:
            budget: See `or_selected`.
            domain: The list.
            false: See `ValueCounts`.
        """
        given = budget.stability, budget.adjacency
        step = ValueCounts.pure(budget.pure_epsilon(zcdp), domain, false, *given)
        return self if step is None else self._or(Ladder((step,), None, 0, *given, single=True))

    def _or(self, other: Ladder) -> Ladder:
        return self if other.units > self.units else replace(other, instead_of=self.units)

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
        ladder = _of_agreement(rho, delta, keys or 1, stability, adjacency, gaussian)
        return replace(ladder, single=keys is not None)

    @property
    def counts(self) -> tuple[KeyCounts, ...]:
        """All counts of keys, as far as a top count does not add cheaper ones."""
        return self.steps if self.first is None else (self.first, *self.steps)

    @property
    def thresholds(self) -> tuple[int, ...]:
        """About how many units must say the same, at each count of keys."""
        return tuple(math.ceil(step.threshold / step.parts) for step in self.counts)

    @property
    def rho(self) -> float:
        """The most that it costs any unit, zCDP."""
        return sum(step.rho for step in self.counts) + (0.0 if self.top is None else self.top.rho)

    @property
    def units(self) -> int:
        """Number of units that must say the same, so that it is released 9 times in 10."""
        return _units_of(self)

    def after(self, count: int) -> tuple[KeyCounts, ...]:
        """The steps that a top count leaves, of the same price at most; none if it is too low."""
        assert self.top is not None
        if count < self.least:
            return ()
        (last,) = self.steps
        if last.keys >= _LISTED:
            return self.steps
        low = NoisyCount(count, self.top.noise.sigma).low
        given = self.stability, self.adjacency, self.gaussian
        if self.single:
            steps = _steps_of_keys(last, min(low, SHARES.first_threshold_of_keys * count), *given)
        else:
            # Fewer say the same sentence than name the same; so it is begun lower, if that is no
            # dearer than an early step may be.
            lowest = max(SHARES.first_threshold_of_top * count, self._lowest_first(last))
            steps = _steps(last.rho, last.delta, min(low, lowest), *given)
        return steps if len(steps) > 1 else self.steps

    def outcome(self, units: int) -> tuple[float, float]:
        """Probability that what so many units say is released, and the rho that is paid on average.

        Both are public. That so many say the same is assumed, and that all others differ.
        """
        return _outcome(self, units)

    def _lowest_first(self, last: KeyCounts) -> float:
        """The least number at the first of several steps that such a price pays for."""
        scale = self.stability.votes_l2(self.adjacency)
        # Rounded up, so that the price is not above its share.
        sigma = scale / math.sqrt(2 * SHARES.early_step * last.rho) * (1 + 1e-6)
        return 1 + _tail(last.delta) * sigma / scale


@lru_cache(maxsize=64)  # settings are few, and answers many
def _of_agreement(
    rho: float, delta: float, keys: int, stability: Stability, adjacency: Adjacency, gaussian: bool
) -> Ladder:
    """One count of what occurs, behind a top count."""

    def behind(left: float) -> KeyCounts:
        return Agreement.within(left, delta, stability, adjacency, keys, gaussian=gaussian)

    return _best(rho, None, behind, stability, adjacency, gaussian)


@lru_cache(maxsize=64)
def _of_values(
    rho: float,
    domain: Domain,
    false: float,
    stability: Stability,
    adjacency: Adjacency,
    gaussian: bool,
) -> Ladder:
    """Counts of public values: a cheap one, and one behind a top count."""
    early = SHARES.early_threshold * false
    price = SHARES.first_of_values * rho * (1 - 1e-9)
    first = ValueCounts.within(price, domain, early, stability, adjacency, gaussian=gaussian)

    def behind(left: float) -> KeyCounts:
        late = false - early
        return ValueCounts.within(left, domain, late, stability, adjacency, gaussian=gaussian)

    return _best(rho, first, behind, stability, adjacency, gaussian)


def _best(
    rho: float,
    first: KeyCounts | None,
    behind: Callable[[float], KeyCounts],
    stability: Stability,
    adjacency: Adjacency,
    gaussian: bool,
) -> Ladder:
    """The ladder of the least price for an answer and a failure together.

    Half as many units need four times the price. So what an answer costs at most, and a failure on
    average, is compared at one number of units: times the square of the units that are needed.

    Args:
        rho: zCDP rho of all.
        first: A count before the top count.
        behind: Makes the count behind it, of a price.
        stability: From the corpus to the experts.
        adjacency: Of corpora.
        gaussian: A budget for Gaussian noise alone pays.
    """
    paid = 0.0 if first is None else first.rho
    if first is None and rho < _LEAST_PLANNED:
        top = TopCount.within(SHARES.top_counts[-1] * rho, stability, adjacency, gaussian=gaussian)
        last = behind((rho - top.rho) * (1 - 1e-9))
        least = math.ceil(_units_for((last,)) - _FEWER * top.noise.sigma)
        return Ladder((last,), top, least, stability, adjacency, True, gaussian=gaussian)
    found: Ladder | None = None
    least_price = math.inf
    for share in SHARES.top_counts:
        top = TopCount.within(share * rho, stability, adjacency, gaussian=gaussian)
        last = behind((rho - paid - top.rho) * (1 - 1e-9))
        units = _units_for((last,) if first is None else (first, last))
        while units**2 < least_price:
            # What the top count may lose, so that so many units are still enough.
            if (spare := 1 - _passing(first, last, units)) > 0:
                least = units + 1 - top.noise.least(spare)
                # Where no two units say the same.
                failed = paid + top.rho + top.noise.tail(least - 1) * last.rho
                if (price := units**2 * (1 + SHARES.failures * failed / rho)) < least_price:
                    given = (last,), top, least, stability, adjacency, True
                    least_price = price
                    found = Ladder(*given, first=first, gaussian=gaussian)
            units += 1
    assert found is not None
    return found


def _passing(first: KeyCounts | None, last: KeyCounts, units: int) -> float:
    """How often a top count between two counts must pass, so that so many units are enough."""
    counts = (last,) if first is None else (first, last)
    true = 1 - sum(step.false for step in counts if isinstance(step, ValueCounts))
    early = 0.0 if first is None else first.chance(units)
    return (_MOSTLY / true - early) / ((1 - early) * last.chance(units))


@lru_cache(maxsize=64)
def _units_of(ladder: Ladder) -> int:
    after = None if ladder.top is None else lru_cache(maxsize=None)(ladder.after)
    return _least(lambda units: _outcome(ladder, units, after)[0])


def _outcome(
    ladder: Ladder, units: int, after: Callable[[int], tuple[KeyCounts, ...]] | None = None
) -> tuple[float, float]:
    """See `Ladder.outcome`; ``after`` may remember what it left before."""
    first, top = ladder.first, ladder.top
    missed, rho = (1.0, 0.0) if first is None else (1 - first.chance(units), first.rho)
    left = {ladder.steps: 1.0}
    if top is not None:
        rho += missed * top.rho
        left = _left(top, units, after or ladder.after)
    lost = []
    for steps, chance in left.items():
        still = missed * chance
        for step in steps:
            rho += still * step.rho
            still *= 1 - step.chance(units)
        lost.append(still)
    false = sum(step.false for step in ladder.counts if isinstance(step, ValueCounts))
    return (1 - math.fsum(lost)) * (1 - false), rho


def _left(
    top: TopCount, units: int, after: Callable[[int], tuple[KeyCounts, ...]]
) -> dict[tuple[KeyCounts, ...], float]:
    """The law of the steps that a top count leaves, where so many units say the same."""
    reach = math.ceil(_REACH * top.noise.sigma)
    tails = [top.noise.tail(at) for at in range(-reach, reach + 2)]
    chances: dict[tuple[KeyCounts, ...], float] = defaultdict(float)
    for at, (own, beyond) in enumerate(pairwise(tails)):
        chances[after(units + at - reach)] += own - beyond
    return chances


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


def _steps_of_keys(
    last: KeyCounts, first: float, stability: Stability, adjacency: Adjacency, gaussian: bool
) -> tuple[KeyCounts, ...]:
    """Counts of the price of one, cheaper ones first.

    Args:
        last: The count whose price they share.
        first: About how many must agree at the first of them. Public.
        stability: From the corpus to the experts.
        adjacency: Of corpora.
        gaussian: A budget for Gaussian noise alone pays.
    """
    most, given = SHARES.early_step_of_keys, (stability, adjacency)
    if isinstance(last, Agreement):
        return _steps(last.rho, last.delta, first, *given, gaussian, last.keys, most)
    within = partial(
        ValueCounts.within, stability=stability, adjacency=adjacency, gaussian=gaussian
    )
    steps: list[KeyCounts] = []
    left, false = last.rho * (1 - 1e-9), last.false
    # A threshold grows with the noise.
    price = left * (last.threshold / max(first, 1.0)) ** 2
    while price <= most * left:
        early = SHARES.early_threshold * false
        steps.append(within(price, last.groups, early))
        left, false, price = left - price, false - early, 4 * price
    return (*steps, within(left, last.groups, false))


def _steps(
    rho: float,
    delta: float,
    first: float,
    stability: Stability,
    adjacency: Adjacency,
    gaussian: bool = False,
    keys: int = 1,
    most: float = SHARES.early_step,
) -> tuple[Agreement, ...]:
    within = partial(
        Agreement.within, stability=stability, adjacency=adjacency, keys=keys, gaussian=gaussian
    )
    # A billionth is kept back for the rounding of these sums.
    steps, left, delta_left = [], rho * (1 - 1e-9), delta * (1 - 1e-9)
    scale = stability.votes_l2(adjacency)
    sigma = max(1.0, scale * (first - 1) / _tail(delta))
    while (price := keys * (scale / sigma) ** 2 / 2) <= most * left:
        step = within(price, SHARES.early_threshold * delta_left)
        steps.append(step)
        left, delta_left, sigma = left - step.rho, delta_left - step.delta, sigma / 2
    return (*steps, within(left, delta_left))
