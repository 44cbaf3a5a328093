"""Noisy counts of what private units hold or say: agreement, top counts, histograms."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dpicl_rag import _validate
from dpicl_rag.accounting.pure_dp import zcdp
from dpicl_rag.accounting.stability import Adjacency, Stability
from dpicl_rag.mechanisms.discrete_noise import MOST_EXPONENT, DiscreteGaussian, TruncatedGeometric
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.results import Estimate

# Of one part. Noise of less has tens of thousands of values, for no benefit.
_LEAST_EPSILON = 1e-3
_ROUNDED_UP = 1 + 1e-12


@dataclass(frozen=True, slots=True)
class Agreed:
    """A key that enough units hold. Public.

    Attributes:
        key: The key.
        count: How many hold it, with noise.
        within: The noise is at most this, 95 times in 100.
    """

    key: str
    count: int
    within: int

    @property
    def estimate(self) -> Estimate:
        """About how many hold it."""
        numbers = (self.count, self.count - self.within, self.count + self.within)
        return Estimate(*(max(0, number) for number in numbers))


@dataclass(frozen=True, slots=True)
class Agreement:
    """The frequent keys of private units: those whose noisy count reaches a threshold.

    Only keys that occur are counted, so no public list of them is needed: thresholded counts
    (Korolova, Kenthapadi, Mishra, Ntoulas 2009, "Releasing Search Queries and Clicks Privately")
    with discrete Gaussian noise. Approximate zCDP (Bun, Steinke 2016, "Concentrated Differential
    Privacy", section 8): rhos add, and deltas add.

    A unit whose m keys occur without it moves m counts by one, which is sqrt(m) in L2. That one of
    its keys that do not occur without it is released has probability ``delta`` at most; off that
    event both corpora have the same counts but for those of common keys. So it is
    ``delta``-approximate ``rho``-zCDP.

    With truncated geometric noise it is optimal partition selection, see `selecting`: fewer units
    are needed, for a rho that is much larger. That is for an answer which nothing adds up. Keys of
    one unit share its vote there, each alike.

    Of a unit with more keys than count, coins of its own choose those that do. So each key that it
    has is as likely to count, and what neighbours differ in is a mixture of what they would differ
    in for each choice.

    Attributes:
        noise: On every count.
        threshold: The least noisy count that is released.
        rho: zCDP rho for any unit.
        delta: Probability that a key is released which one unit alone brings.
        keys: Of one unit, at most.
        parts: Of the vote of a unit, which its keys share alike: counts are of these. 1 where each
            key has a whole vote.
        epsilon: It is (epsilon, delta)-DP, where that is what noise was chosen for; else None.
    """

    noise: DiscreteGaussian | TruncatedGeometric
    threshold: int
    rho: float
    delta: float
    keys: int = 1
    parts: int = 1
    epsilon: float | None = None

    @staticmethod
    def within(
        rho: float,
        delta: float,
        stability: Stability,
        adjacency: Adjacency,
        keys: int = 1,
        *,
        gaussian: bool = False,
    ) -> Agreement:
        """The least noise and the lowest threshold that a price pays for.

        Args:
            rho: zCDP rho, above 0.
            delta: Above 0 and below 1.
            stability: From the corpus to those who hold keys.
            adjacency: Of corpora.
            keys: Of one unit, at most.
            gaussian: A budget for Gaussian noise pays, see `DiscreteGaussian`.

        Raises:
            ConfigurationError: A number is outside its range.
        """
        _validate.count("keys", keys)
        moved = math.sqrt(keys) * stability.votes_l2(adjacency)
        noise = DiscreteGaussian.within(rho, moved, fine=gaussian)
        added, changed = stability.moved(adjacency)
        # A key that occurs in one of two corpora only is held by no more than ``most`` there, and
        # there are no more than ``alone`` such keys in both together.
        most, alone = added + changed, keys * (added + 2 * changed)
        threshold = most + noise.least(_validate.probability("delta", delta) / alone)
        return Agreement(noise, threshold, rho, alone * noise.tail(threshold - most), keys)

    @staticmethod
    def selecting(
        epsilon: float, delta: float, stability: Stability, adjacency: Adjacency, keys: int = 1
    ) -> Agreement | None:
        """Optimal partition selection, if it is asked once.

        The vote of a unit is of whole parts, as many for each of its keys: so one with a single key
        weighs as much as if no unit had more. A part that moves a count costs its share of epsilon;
        a vote is so many neighbours in a row. None where an expert that a unit adds or changes is
        not the only one, or there is too little epsilon.

        Args:
            epsilon: Of all counts that a unit moves.
            delta: The same, above 0 and below 1.
            stability: From the corpus to those who hold keys.
            adjacency: Of corpora.
            keys: Of one unit, at most.

        Raises:
            ConfigurationError: A number is outside its range.
        """
        added, changed = stability.moved(adjacency)
        # The vote of one expert; of one that changes, that before and that after.
        moved, parts = added + 2 * changed, math.lcm(*range(1, _validate.count("keys", keys) + 1))
        if added + changed != 1 or epsilon < moved * parts * _LEAST_EPSILON:
            return None
        each = _validate.positive("epsilon", epsilon) / moved
        part = min(each / parts, MOST_EXPONENT)
        # Of neighbours in a row each later delta is larger by a factor of e^epsilon.
        grown = 1 + _ROUNDED_UP * math.fsum(math.exp(at * part) for at in range(1, parts))
        noise = TruncatedGeometric.within(part, delta / (moved * grown))
        threshold, delta = 1 + noise.highest, moved * grown * noise.delta
        return Agreement(noise, threshold, moved * zcdp(each), delta, keys, parts, epsilon)

    def chance(self, units: int) -> float:
        """Probability that the one key of so many units is released; rounded up."""
        return self.noise.tail(self.threshold - units * self.parts)

    def counted(self, keys: Sequence[str]) -> Sequence[str]:
        """The keys of one unit that count: all."""
        return keys

    def draw(self, held: Sequence[Sequence[str]], randomness: Randomness) -> list[Agreed]:
        """Draw every count, and release the keys that reach the threshold, the largest first.

        Args:
            held: The keys of each unit that holds some; ``keys`` of them count, each once. Private.
            randomness: Where the noise and the coins come from.
        """
        counts = Counter[str]()
        for own in held:
            counting = bounded(own, self.keys, randomness)
            for key in counting:
                counts[key] += max(1, self.parts // len(counting))
        within = self.noise.reach
        noisy = (
            Agreed(key, count + self.noise.draw(randomness), within)
            for key, count in sorted(counts.items())
        )
        found = [agreed for agreed in noisy if agreed.count >= self.threshold]
        return sorted(found, key=lambda agreed: (agreed.count, agreed.key), reverse=True)


def bounded(own: Sequence[str], most: int, randomness: Randomness) -> list[str]:
    """Keys of one unit, each once and no more than count: every choice of them is as likely."""
    left = list(dict.fromkeys(own))
    if len(left) <= most:
        return left
    return [left.pop(randomness.below(len(left))) for _ in range(most)]


@dataclass(frozen=True, slots=True)
class TopCount:
    """The largest of all counts of keys, with noise: not which key that is.

    A unit that is added, taken away or changed moves the largest count by 1 at most, whatever keys
    it holds, and whether they occur elsewhere or not. So no threshold is needed, and no delta.

    Attributes:
        noise: On the count.
        sensitivity: By how much one unit moves the count at most.
    """

    noise: DiscreteGaussian
    sensitivity: int

    @staticmethod
    def within(
        rho: float, stability: Stability, adjacency: Adjacency, *, gaussian: bool = False
    ) -> TopCount:
        """The least noise that a price pays for.

        Args:
            rho: zCDP rho, above 0.
            stability: From the corpus to those who hold keys.
            adjacency: Of corpora.
            gaussian: A budget for Gaussian noise pays.

        Raises:
            ConfigurationError: The price is not above 0 and finite.
        """
        sensitivity = sum(stability.moved(adjacency))
        return TopCount(DiscreteGaussian.within(rho, sensitivity, fine=gaussian), sensitivity)

    @property
    def rho(self) -> float:
        """Rho of zCDP that it costs any unit at most."""
        return self.sensitivity**2 * self.noise.rho

    def draw(self, held: Sequence[Sequence[str]], randomness: Randomness) -> int:
        """Draw it.

        Args:
            held: The keys of each unit that holds some; each counts once. Private.
            randomness: Where the noise comes from.
        """
        counts = Counter(key for own in held for key in set(own))
        return max(counts.values(), default=0) + self.noise.draw(randomness)


@dataclass(frozen=True, slots=True)
class Histogram:
    """Noisy counts of public labels, of which each expert says some.

    Noise is on every bin, also on those that nobody names, so no threshold is needed and no delta
    (Canonne, Kamath, Steinke 2020, Theorem 4).

    Attributes:
        noise: On every count.
        rho: zCDP rho for any unit.
    """

    noise: DiscreteGaussian
    rho: float

    @staticmethod
    def within(
        rho: float,
        labels: int,
        most: int,
        stability: Stability,
        adjacency: Adjacency,
        *,
        gaussian: bool = False,
    ) -> Histogram:
        """The least noise that a price pays for.

        An expert that comes moves ``most`` counts by 1. One that changes takes back as many and
        gives as many to others: twice as many move, but no more than there are labels.

        Args:
            rho: zCDP rho, above 0.
            labels: How many labels there are.
            most: How many of them one expert says at most.
            stability: From the corpus to the experts.
            adjacency: Of corpora.
            gaussian: A budget for Gaussian noise pays.

        Raises:
            ConfigurationError: The price is not above 0 and finite.
        """
        added, changed = stability.moved(adjacency)
        most = min(most, labels)
        moved = added * math.sqrt(most) + changed * math.sqrt(min(2 * most, labels))
        return Histogram(DiscreteGaussian.within(rho, moved, fine=gaussian), rho)

    def draw(self, counts: Sequence[int], randomness: Randomness) -> list[int]:
        """Noise on every count. It was paid for before.

        Args:
            counts: How many experts say each label. Private.
            randomness: Where the noise comes from.
        """
        return [count + self.noise.draw(randomness) for count in counts]
