"""Composition of loss distributions: the cost of many releases, to the last digit that counts.

A pair of neighbours has a *profile*: its delta at every epsilon, in both directions. On multiples
of an interval the profile gives a distribution of privacy losses with the same deltas there and
larger ones between ("connect the dots", Doroshenko et al. 2022, pessimistic). Composition convolves
distributions, by a Fourier transform. Its rounding errors are small beside 1, not beside a delta of
1e-15. So each distribution is tilted first, p(x) exp(theta x) / M(theta), with the theta of the
best Renyi order: the losses near epsilon are then the usual ones, and errors are small beside
delta.

How much a coarse interval costs depends on how large the losses are. `settled` refines it until the
result no longer moves.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dpicl_rag.accounting import _search

if TYPE_CHECKING:
    import numpy as np

Profile = Callable[["np.ndarray"], tuple["np.ndarray", "np.ndarray"]]
"""Deltas of both directions at epsilons of 0 or more, float64."""

TAIL = 1e-24
"""Delta from which on a loss counts as infinite, where nothing is said of the delta asked for."""

_SHARE = 1e-6
"""Part of the delta asked for that infinite losses may have, all of them together."""

_LARGEST = 300.0
"""Losses above twice this count as infinite: their exponentials are."""

_ENDS = tuple(1e-9 * 2**power for power in range(42) if 1e-9 * 2**power <= 4 * _LARGEST)
"""Above one of these and up to the next a search for epsilon is."""

_SLACK = 1e-10
"""Tilted probability that is left out or may be wrong, and counts in full."""

_ROUGH_POINTS = 2048

_FAINT = 1e-3
_ROUNDS = 6

_COARSEST = 0.25
_FINEST_STEPS = 12
_MOST_POINTS = 2**21
_SETTLED = 1e-3


@dataclass(frozen=True)
class Losses:
    """Privacy losses of one release in one direction, on multiples of ``interval``.

    Attributes:
        interval: In nats.
        first: Multiple of the first loss.
        chances: Their probabilities, float64.
        infinite: Probability of an infinite loss.
    """

    interval: float
    first: int
    chances: np.ndarray
    infinite: float

    @cached_property
    def values(self) -> np.ndarray:
        """The losses, in nats."""
        import numpy as np

        multiples: np.ndarray = self.first + np.arange(len(self.chances))
        return multiples * self.interval

    @cached_property
    def _log_chances(self) -> np.ndarray:
        import numpy as np

        with np.errstate(divide="ignore"):
            logs: np.ndarray = np.log(self.chances)
        return logs

    @cached_property
    def rough(self) -> Losses:
        """The same on fewer multiples: near enough to choose a tilt by."""
        import numpy as np

        width = -(-len(self.chances) // _ROUGH_POINTS)
        if width == 1:
            return self
        sums = np.add.reduceat(self.chances, np.arange(0, len(self.chances), width))
        return Losses(self.interval * width, self.first // width, sums, self.infinite)

    @property
    def largest(self) -> float:
        """The largest finite loss."""
        import numpy as np

        return float(self.values[np.flatnonzero(self.chances)[-1]])

    def log_moment(self, theta: float) -> float:
        """Log of the mean of ``exp(theta * loss)`` over finite losses."""
        import numpy as np

        exponents = self._log_chances + theta * self.values
        top = float(exponents.max())
        return top + math.log(float(np.exp(exponents - top).sum()))

    def tilted(self, theta: float) -> np.ndarray:
        """``chances * exp(theta * loss)``, divided by their sum."""
        import numpy as np

        tilted: np.ndarray = np.exp(
            self._log_chances + theta * self.values - self.log_moment(theta)
        )
        return tilted


Tilted = Callable[[float], tuple[float, float]]
"""Epsilon to delta, and to what of it stands for errors."""

ComposedLosses = Sequence[tuple[Losses, int]]
"""Losses of several releases in one direction, each with how often it is made."""


def directions(profile: Profile, interval: float, tail: float = TAIL) -> tuple[Losses, Losses]:
    """The losses of a pair, in both directions; their deltas are nowhere below the profile's.

    Args:
        profile: Of the pair.
        interval: Losses are multiples of it.
        tail: Delta from which on a loss counts as infinite.
    """
    import numpy as np

    def over(reach: float) -> bool:
        return max(float(side[0]) for side in _at(profile, np.array([reach]))) > tail

    reach = interval
    while over(reach) and reach < _LARGEST:
        reach *= 2
    for step in (0.75, 0.75, 0.75):
        if not over(reach * step):
            reach *= step
    epsilons = np.arange(math.ceil(reach / interval) + 1) * interval
    one, other = _at(profile, epsilons)
    return _losses(one, other, interval), _losses(other, one, interval)


def tail_for(delta: float, releases: int) -> float:
    """The tail that each of some releases may have, where epsilon at ``delta`` is asked for."""
    return _SHARE * delta / releases


def composed_epsilon(parts: ComposedLosses, delta: float) -> float:
    """Smallest epsilon at ``delta`` of releases with these losses, each so many times."""
    if _infinite(parts) >= delta:
        return math.inf
    log_inverse = -math.log(delta)
    rough = _rough(parts)
    theta = _best(lambda theta: (_moments(rough, theta) + log_inverse) / theta, rough)
    least = math.inf
    for _ in range(_ROUNDS):
        at = _tilted_sum(parts, theta)
        epsilon = _solved(at, delta)
        least = min(least, epsilon)  # each is an upper bound
        if epsilon == 0 or math.isinf(epsilon) or at(epsilon)[1] < _FAINT * delta:
            break
        theta = _best_at(parts, least)
    return least


def composed_delta(parts: ComposedLosses, epsilon: float) -> float:
    """Smallest delta at ``epsilon``."""
    if _infinite(parts) == 1:
        return 1.0

    return min(1.0, _tilted_sum(parts, _best_at(parts, epsilon))(epsilon)[0])


def settled(compute: Callable[[float], tuple[float, int]]) -> float:
    """A result that a finer interval would not move by a hundredth.

    Args:
        compute: From an interval to the result, which falls with it, and the number of points.
    """
    interval = _COARSEST
    found, points = compute(interval)
    for _ in range(_FINEST_STEPS):
        if found == 0 or points > _MOST_POINTS:
            break
        interval /= 4
        before = found
        found, points = compute(interval)
        found = min(before, found)  # each is an upper bound
        if before <= found * (1 + _SETTLED):
            break
    return found


def _at(profile: Profile, epsilons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    import numpy as np

    one, other = profile(epsilons)
    return np.minimum.accumulate(one), np.minimum.accumulate(other)


def _losses(deltas: np.ndarray, reverse: np.ndarray, interval: float) -> Losses:
    """Losses whose deltas are ``deltas`` at multiples of the interval, ``reverse`` the other way.

    As a function of y = exp(epsilon) delta is convex, and linear between the multiples: the slopes
    are probabilities under the second of the pair, and their differences those of one loss. Below
    epsilon 0 delta is 1 - y + y * reverse(-epsilon), of which only the last term is bent.
    """
    import numpy as np

    steps = np.arange(len(deltas)) * interval
    gaps = np.exp(steps[:-1]) * math.expm1(interval)
    above = (deltas[:-1] - deltas[1:]) / gaps  # slopes from 0 up
    bent = np.exp(-steps) * reverse
    bent[0] = deltas[0]
    gaps = np.exp(-steps[1:]) * math.expm1(interval)
    below = (bent[1:] - bent[:-1]) / gaps  # slopes from 0 down, less 1
    second = np.concatenate(
        [
            # of the lowest loss, of those below 0, of 0, of those above, of the highest
            [-reverse[-1] - below[-1]],
            below[::-1][:-1] - below[::-1][1:],
            [1 + below[0] - above[0]],
            above[:-1] - above[1:],
            [above[-1]],
        ]
    )
    values = np.arange(1 - len(deltas), len(deltas)) * interval
    chances = np.maximum(0.0, second) * np.exp(values)
    return Losses(interval, 1 - len(deltas), chances, float(deltas[-1]))


def _solved(at: Tilted, delta: float) -> float:
    """Epsilon at ``delta``."""
    if at(0.0)[0] <= delta:
        return 0.0
    if at(_ENDS[-1])[0] > delta:
        return math.inf
    # Delta falls, so halving finds the power of two that doubling would come to.
    place = bisect_left(_ENDS, True, key=lambda end: at(end)[0] <= delta)
    high = _ENDS[place]
    found = _search.zero(
        lambda epsilon: math.log(delta / max(at(epsilon)[0], 1e-300)), high / 2, high
    )
    return found * (1 + 1e-13)


def _moments(parts: ComposedLosses, theta: float) -> float:
    return math.fsum(count * losses.log_moment(theta) for losses, count in parts)


def _best_at(parts: ComposedLosses, epsilon: float) -> float:
    """The theta that tilts a sum towards ``epsilon``."""
    rough = _rough(parts)
    return _best(lambda theta: _moments(rough, theta) - theta * epsilon, rough)


def _rough(parts: ComposedLosses) -> ComposedLosses:
    return [(losses.rough, count) for losses, count in parts]


def _infinite(parts: ComposedLosses) -> float:
    """Probability of an infinite loss."""
    if any(losses.infinite >= 1 for losses, _ in parts):
        return 1.0
    return -math.expm1(math.fsum(count * math.log1p(-losses.infinite) for losses, count in parts))


def _best(bound: Callable[[float], float], parts: ComposedLosses) -> float:
    """The theta with the least bound."""
    from scipy.optimize import minimize_scalar

    widest = max(losses.largest for losses, _ in parts)
    logs = [math.log(1e-4) + step for step in range(-4, 60, 2)]
    logs = [log for log in logs if math.exp(log) * widest < 600] or logs[:1]
    _, best = min((bound(math.exp(log)), log) for log in logs)
    found = minimize_scalar(
        lambda log: bound(math.exp(log)), bounds=(best - 2, best + 2), method="bounded"
    )
    return math.exp(float(found.x))


def _tilted_sum(parts: ComposedLosses, theta: float) -> Tilted:
    """Delta as a function of epsilon, by the tilt ``theta``."""
    import numpy as np
    from scipy.fft import irfft, next_fast_len, rfft

    interval = parts[0][0].interval
    moment = _moments(parts, theta)

    def end(side: int) -> float:
        """By Chernoff's bound half the slack is beyond it; any shift gives one."""
        rough = _rough(parts)

        def bound(parts: ComposedLosses, shift: float) -> float:
            grown = _moments(parts, theta + side * shift) - _moments(parts, theta)
            return (grown - math.log(_SLACK / 2)) / shift

        shifts = [2.0**power / scale for power in range(-3, 7)]
        return side * bound(parts, min(shifts, key=lambda shift: bound(rough, shift)))

    spread = 0.0
    for losses, count in parts:
        tilted = losses.tilted(theta)
        own = float(tilted @ losses.values)
        spread += count * float(tilted @ (losses.values - own) ** 2)
    scale = math.sqrt(spread) + interval
    first = math.floor(end(-1) / interval)
    points = next_fast_len(math.ceil(end(1) / interval) - first + 2, real=True)
    spectrum = np.ones(points // 2 + 1, dtype=np.complex128)
    for losses, count in parts:
        folded = np.zeros(points)
        places = (losses.first + np.arange(len(losses.chances))) % points
        np.add.at(folded, places, losses.tilted(theta))
        spectrum *= rfft(folded) ** count
    together = np.maximum(0.0, np.roll(irfft(spectrum, points), -(first % points)))
    losses_of = (first + np.arange(points)) * interval
    infinite = _infinite(parts)
    largest = math.fsum(count * losses.largest for losses, count in parts)

    def delta(epsilon: float) -> tuple[float, float]:
        if epsilon >= largest:
            return infinite, 0.0
        start = max(0, math.floor(epsilon / interval) - first)
        over = np.maximum(losses_of[start:] - epsilon, 0.0)
        share = float((together[start:] * np.exp(-theta * over)) @ -np.expm1(-over))
        scale = math.exp(min(700.0, moment - theta * epsilon))
        return infinite + scale * (share + _SLACK), scale * _SLACK

    return delta
