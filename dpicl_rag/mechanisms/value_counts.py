"""Noisy counts of the values of a public domain: no threshold against rare keys, and no delta."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from dpicl_rag import _validate
from dpicl_rag.accounting import pure_dp
from dpicl_rag.accounting.stability import Adjacency, Stability
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian, DiscreteLaplace
from dpicl_rag.mechanisms.private_counts import Agreed
from dpicl_rag.mechanisms.randomness import Randomness

_NEGLIGIBLE = 1e-9
_OF_LATER = 0.1  # of false answers, what later groups of values may give together
_CONTESTED = 0.75  # of the largest count, a second one above which units do not agree


@dataclass(frozen=True, slots=True)
class ValueCounts:
    """The most frequent of the public values that private units name, if enough of them do.

    Every value of the domain gets noise, also one that nobody names: what may come out does not
    tell whether somebody is there. So it is a histogram with public bins, which discrete Laplace
    noise makes purely private (Ghosh, Roughgarden, Sundararajan 2009) and discrete Gaussian noise
    zCDP (Canonne, Kamath, Steinke 2020, Theorem 4). The threshold is for truth alone: where one
    unit names a value, or none does, something is released with probability ``false`` at most.
    So is a value where another that excludes it has as many or more. And nothing is released where
    the second count is above three quarters of the first: units that say two things do not agree.

    Attributes:
        noise: On every count.
        groups: Public values, the likelier ones first. No value is in two of them.
        thresholds: The least noisy count that is released, for values of each group.
        rho: zCDP rho for any unit.
        false: Probability of a release where nobody or one unit alone names a value, and of the
            lesser of two.
        epsilon: For any unit, where it is purely private; None else.
        delta: 0.
        keys: Values that one unit names at most: one.
        parts: Of the vote of a unit: one.
    """

    noise: DiscreteLaplace | DiscreteGaussian
    groups: tuple[tuple[str, ...], ...] = field(repr=False)
    thresholds: tuple[int, ...]
    rho: float
    false: float
    epsilon: float | None = None
    delta: float = 0.0
    keys: int = 1
    parts: int = 1

    @staticmethod
    def within(
        rho: float,
        groups: Sequence[tuple[str, ...]],
        false: float,
        stability: Stability,
        adjacency: Adjacency,
        *,
        gaussian: bool = False,
    ) -> ValueCounts:
        """Counts with Gaussian noise, the least that a price pays for.

        Args:
            rho: zCDP rho, above 0.
            groups: Public values, the likelier ones first.
            false: See above; above 0 and below 1.
            stability: From the corpus to those who name values.
            adjacency: Of corpora.
            gaussian: A budget for Gaussian noise pays, see `DiscreteGaussian`.

        Raises:
            ConfigurationError: A number is outside its range.
        """
        noise = DiscreteGaussian.within(rho, stability.votes_l2(adjacency), fine=gaussian)
        return ValueCounts(noise, tuple(groups), _thresholds(noise, groups, false), rho, false)

    @staticmethod
    def pure(
        epsilon: float,
        groups: Sequence[tuple[str, ...]],
        false: float,
        stability: Stability,
        adjacency: Adjacency,
    ) -> ValueCounts | None:
        """Counts with Laplace noise; None where a unit may move a count by more than one.

        Args:
            epsilon: For any unit, above 0.
            groups: See `within`.
            false: See `within`.
            stability: See `within`.
            adjacency: See `within`.

        Raises:
            ConfigurationError: A number is outside its range.
        """
        added, changed = stability.moved(adjacency)
        if added + changed != 1:
            return None
        # One that changes takes its value from one count, and gives another to the next.
        moved = added + 2 * changed
        noise = DiscreteLaplace(epsilon / moved)
        thresholds, rho = _thresholds(noise, groups, false), moved * pure_dp.zcdp(epsilon / moved)
        return ValueCounts(noise, tuple(groups), thresholds, rho, false, epsilon)

    @property
    def threshold(self) -> int:
        """The least noisy count that is released, of likely values."""
        return self.thresholds[0]

    def chance(self, units: int) -> float:
        """Probability that a likely value is as high as it must be, where so many units name it."""
        return self.noise.tail(self.threshold - units)

    def counted(self, keys: Sequence[str]) -> tuple[str, ...]:
        """The value of one unit, of what it names; none where that is outside the domain."""
        return tuple(key for key in keys if any(key in group for group in self.groups))[:1]

    def draw(self, held: Sequence[Sequence[str]], randomness: Randomness) -> list[Agreed]:
        """Draw the count of every value, and release those that reach the threshold, largest first.

        None is released where noise may have put the largest above one that excludes it, or where
        that one is nearly as large.

        Args:
            held: What each unit names: the first value of the domain counts. Private.
            randomness: Where the noise comes from.
        """
        counts = Counter(key for own in held for key in self.counted(own))
        found = [
            Agreed(value, count, self.noise.reach)
            for group, threshold in zip(self.groups, self.thresholds, strict=True)
            for value in group
            if (count := counts[value] + self.noise.draw(randomness)) >= threshold
        ]
        found.sort(key=lambda agreed: (agreed.count, agreed.key), reverse=True)
        return [] if self._is_contested(found) else found

    def _is_contested(self, found: Sequence[Agreed]) -> bool:
        """True where noise alone leads by as much too often, or a second value is nearly as large.

        A function of noisy counts.
        """
        counts = [one.count for one in found if _shape(one.key) == _shape(found[0].key)]
        if len(counts) < 2:
            return False
        first, second = counts[:2]
        near = second > _CONTESTED * first
        return near or _chance_of_lead(self.noise, first - second) > self.false


def _shape(value: str) -> tuple[bool, bool]:
    """Values of one shape exclude each other: a weekday and a time may both be right."""
    return any(map(str.isdigit, value)), any(map(str.isalpha, value))


@lru_cache(maxsize=256)
def _chance_of_lead(noise: DiscreteLaplace | DiscreteGaussian, lead: int) -> float:
    """Probability that one of two draws is so much above the other, a given one; rounded up."""
    end = noise.least(_NEGLIGIBLE)
    chances = ((x, noise.tail(x) - noise.tail(x + 1)) for x in range(-end, end))
    whole = math.fsum(chance * noise.tail(x + lead) for x, chance in chances)
    return min(1.0, whole + 2 * _NEGLIGIBLE)


def _thresholds(
    noise: DiscreteLaplace | DiscreteGaussian, groups: Sequence[tuple[str, ...]], false: float
) -> tuple[int, ...]:
    """The least ones: in sum their tails are ``false``, also where one unit names a value."""
    first, *later = groups
    shares = [1 - _OF_LATER, *[_OF_LATER / len(later)] * len(later)] if later else [1.0]
    return tuple(
        _threshold(noise, len(group), share * _validate.probability("false", false))
        for group, share in zip((first, *later), shares, strict=True)
    )


def _threshold(noise: DiscreteLaplace | DiscreteGaussian, values: int, false: float) -> int:
    least = noise.least(false / values)
    alone = noise.tail(least - 1) + (values - 1) * noise.tail(least)
    # One higher is enough in any case: what one unit adds is taken off again.
    return least if alone <= false else least + 1
