"""Discrete noise, drawn exactly: Laplace, Gaussian, truncated; and randomised response.

Canonne, Kamath, Steinke 2020, "The Discrete Gaussian for Differential Privacy". Only whole numbers
and fractions are computed with, so the drawn distribution is the stated one: there is no
floating-point error for an attacker to look for (Mironov 2012), and none to account for.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

from dpicl_rag import _validate
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.randomness import Randomness

_MOSTLY = 0.95  # of noise is within its reach
_INTERVAL = 1.96  # sigmas: the same of normal noise

# Above the rounding of exponentials (their arguments are below 1,000) and of their sums.
_ROUNDED_UP = 1 + 1e-11


def rounded_up(value: Fraction) -> float:
    """The nearest float that is not below a number."""
    nearest = float(value)
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


class DiscreteLaplace:
    """Noise for a whole-number query: x with probability proportional to exp(-epsilon |x|).

    Also known as geometric noise (Ghosh, Roughgarden, Sundararajan 2009). A query that one unit
    moves by at most ``s`` is ``s * epsilon``-DP with this noise on it.

    Args:
        epsilon: Price of a move by 1, above 0. A fraction is taken as it is, and a float as the
            fraction that it is.

    Raises:
        ConfigurationError: ``epsilon`` is not above 0 and finite.
    """

    def __init__(self, epsilon: Fraction | float) -> None:
        if not isinstance(epsilon, Fraction):
            epsilon = Fraction(_validate.positive("epsilon", epsilon))
        _validate.positive("epsilon", float(epsilon))
        self.epsilon = epsilon

    def __repr__(self) -> str:
        return f"DiscreteLaplace(epsilon={float(self.epsilon):g})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DiscreteLaplace) and other.epsilon == self.epsilon

    def __hash__(self) -> int:
        return hash(self.epsilon)

    @property
    def reach(self) -> int:
        """The noise is at most this, 95 times in 100."""
        return self.least((1 - _MOSTLY) / 2) - 1

    def tail(self, least: int) -> float:
        """Probability that the noise is ``least`` or more; rounded up."""
        if least <= 0:
            return min(1.0, (1.0 - self.tail(1 - least)) * _ROUNDED_UP)
        epsilon = float(self.epsilon)
        return math.exp(-epsilon * least) / (1 + math.exp(-epsilon)) * _ROUNDED_UP + math.ulp(0.0)

    def least(self, probability: float) -> int:
        """The least number, 1 or more, that noise reaches with such a probability at most.

        Args:
            probability: Above 0.
        """
        epsilon = float(self.epsilon)
        about = (-math.log(probability) - math.log1p(math.exp(-epsilon))) / epsilon
        # Rounding may have put it one too high.
        least = max(1, math.ceil(about) - 1)
        while self.tail(least) > probability:
            least += 1
        return least

    def draw(self, randomness: Randomness) -> int:
        """Draw the noise."""
        return discrete_laplace(1 / self.epsilon, randomness)


def discrete_laplace(scale: Fraction | int, randomness: Randomness) -> int:
    """Draw x with probability proportional to exp(-|x| / scale): Algorithm 2."""
    steps, width = Fraction(scale).as_integer_ratio()
    while True:
        remainder = randomness.below(steps)
        if not bernoulli_exp(Fraction(remainder, steps), randomness):
            continue
        quotient = 0
        while bernoulli_exp(Fraction(1), randomness):
            quotient += 1
        # So far of scale `steps`; whole parts of `width` have the scale that is wanted.
        size = (remainder + steps * quotient) // width
        negative = randomness.below(2) == 1
        # Zero would come up under both signs.
        if not (negative and size == 0):
            return -size if negative else size


def bernoulli_exp(exponent: Fraction, randomness: Randomness) -> bool:
    """True with probability exp(-exponent), for an exponent of 0 or more: Algorithm 1."""
    while exponent > 1:
        if not bernoulli_exp(Fraction(1), randomness):
            return False
        exponent -= 1
    round_ = 1
    # The chance of getting past round n is exponent^n / n!; the series of exp(-exponent).
    while randomness.below(exponent.denominator * round_) < exponent.numerator:
        round_ += 1
    return round_ % 2 == 1


_GRID = 2**24  # points of a fine grid in a whole number


class DiscreteGaussian:
    """Noise for a whole-number query: x with probability proportional to exp(-x^2 / (2 sigma^2)).

    A query that one unit moves by at most ``s`` is ``s^2 / (2 sigma^2)``-zCDP with this noise on
    it (Canonne, Kamath, Steinke 2020, Theorem 4), as with the continuous Gaussian. It is not as
    private as that one in every way. Noise from a fine grid, which is rounded to whole numbers, is,
    to a part in 10^12: ``s / sigma``-GDP (docs/privacy.md, "Budgets for Gaussian noise"). Its tails
    are a little wider, where ``sigma`` is about 1.

    Args:
        sigma: Scale, above 0.
        fine: The noise is drawn from a grid of 2^-24, and rounded.

    Raises:
        ConfigurationError: ``sigma`` is not above 0 and finite.
    """

    def __init__(self, sigma: float, *, fine: bool = False) -> None:
        self.sigma = _validate.positive("sigma", sigma)
        self.fine = fine
        self._variance = Fraction(sigma) ** 2

    @staticmethod
    def within(rho: float, sensitivity: float, *, fine: bool = False) -> DiscreteGaussian:
        """The least noise that a price pays for.

        Args:
            rho: zCDP rho, above 0.
            sensitivity: By how much one unit moves the query at most.
            fine: See above.

        Raises:
            ConfigurationError: The price is not above 0 and finite.
        """
        # Rounded up, so that the price is not above rho.
        sigma = sensitivity / math.sqrt(2 * _validate.positive("rho", rho)) * (1 + 1e-12)
        return DiscreteGaussian(sigma, fine=fine)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DiscreteGaussian):
            return False
        return (other.sigma, other.fine) == (self.sigma, self.fine)

    def __hash__(self) -> int:
        return hash((self.sigma, self.fine))

    def __repr__(self) -> str:
        return f"DiscreteGaussian(sigma={self.sigma:g})"

    @property
    def rho(self) -> float:
        """Rho of zCDP of one count that a unit moves by at most 1; rounded up."""
        return rounded_up(1 / (2 * self._variance))

    @property
    def reach(self) -> int:
        """The noise is at most this, 95 times in 100."""
        return math.ceil(_INTERVAL * self.sigma)

    def tail(self, least: int) -> float:
        """Probability that the noise is ``least`` or more; rounded up."""
        if self.fine:
            # No more of a grid is above a point than of the continuous Gaussian above the point
            # before: the sum is below that integral, and the sum of all not below it (Poisson).
            beyond = (least - 0.5 - 1 / _GRID) / (self.sigma * math.sqrt(2))
            return min(1.0, math.erfc(beyond) / 2 * _ROUNDED_UP + math.ulp(0.0))
        if least <= 0:
            return min(1.0, (1.0 - self.tail(1 - least)) * _ROUNDED_UP)
        terms, whole = _weights(self.sigma)
        return math.fsum(terms[least:]) / whole * _ROUNDED_UP + math.ulp(0.0)

    def least(self, probability: float) -> int:
        """The least number, 1 or more, that noise reaches with such a probability at most.

        Args:
            probability: Above 0.
        """
        high = 1
        while self.tail(high) > probability:
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.tail(middle) > probability else (low, middle)
        return high

    def draw(self, randomness: Randomness) -> int:
        """Draw the noise."""
        if not self.fine:
            return discrete_gaussian(self._variance, randomness)
        drawn = discrete_gaussian(self._variance * _GRID**2, randomness)
        return (2 * drawn + _GRID) // (2 * _GRID)


@lru_cache(maxsize=8)
def _weights(sigma: float) -> tuple[array[float], float]:
    """Weights of 0, 1, ... in a Gaussian, and the sum of all."""
    twice = 2 * sigma**2
    # Behind the last term there are none that float64 can hold.
    end = math.ceil(math.sqrt(twice * 800)) + 2
    terms = array("d", (math.exp(-(x * x) / twice) for x in range(end)))
    return terms, 2 * math.fsum(terms) - 1


def discrete_gaussian(variance: Fraction, randomness: Randomness) -> int:
    """Draw x with probability proportional to exp(-x^2 / (2 variance)): Algorithm 3.

    Rejection from a discrete Laplace distribution; with this scale a proposal is accepted with
    probability above one third (Theorem 23).
    """
    scale = math.isqrt(math.floor(variance)) + 1
    while True:
        proposal = discrete_laplace(scale, randomness)
        excess = abs(proposal) - variance / scale
        if bernoulli_exp(excess * excess / (2 * variance), randomness):
            return proposal


_END = 2**64  # weight of an end; what rounding takes from the others is less than a part in so many

# Of an exponential: above what its argument and it are rounded by.
_ROUNDED_DOWN = 1 - 1e-12

MOST_EXPONENT = 100.0  # of one step: with more there is hardly any noise


@dataclass(frozen=True, slots=True)
class TruncatedGeometric:
    """Geometric noise that is cut off at both ends, for counts that are told above a threshold.

    From either end the weights of its values grow towards the middle, by a factor of
    ``e^epsilon`` at most. So a count that one unit moves by 1 is (epsilon, delta)-DP with it:
    delta is the share of one end, the only noisy count that is impossible without the unit. Behind
    the threshold that a count of 1 reaches by the highest noise alone it is optimal partition
    selection (Desfontaines, Voss, Gipson, Mandayam 2022, "Differentially Private Partition
    Selection"). Weights are whole numbers, so one whole coin draws it.

    Attributes:
        weights: Of the values, the highest first; the same from both ends.
    """

    weights: tuple[int, ...] = field(repr=False)

    @staticmethod
    def within(epsilon: float, delta: float) -> TruncatedGeometric:
        """The noise of the fewest values that a price pays for: log(1/delta)/epsilon and more.

        Args:
            epsilon: Above 0.
            delta: Above 0 and below 1.

        Raises:
            ConfigurationError: A number is outside its range.
        """
        exponent = min(_validate.positive("epsilon", epsilon), MOST_EXPONENT)
        up, down = max(1.0, math.exp(exponent) * _ROUNDED_DOWN).as_integer_ratio()
        least = _END / Fraction(_validate.probability("delta", delta))
        # Towards the middle; each weight is there twice, the last one once or twice.
        rising, whole, size = [_END], _END, 1
        while whole < least:
            if size % 2 == 0:
                rising.append(rising[-1] * up // down)
            whole, size = whole + rising[-1], size + 1
        return TruncatedGeometric((*rising, *reversed(rising[: size // 2])))

    @property
    def highest(self) -> int:
        """The highest noise; the lowest is as low, or by one less."""
        return len(self.weights) // 2

    @property
    def delta(self) -> float:
        """Share of an end; rounded up."""
        return rounded_up(Fraction(self.weights[0], sum(self.weights)))

    @property
    def reach(self) -> int:
        """The noise is at most this, 95 times in 100."""
        reach = 0
        while self.tail(-reach) - self.tail(reach + 1) < _MOSTLY:
            reach += 1
        return reach

    def tail(self, least: int) -> float:
        """Probability that the noise is ``least`` or more; rounded up."""
        values = max(0, self.highest - least + 1)
        return rounded_up(Fraction(sum(self.weights[:values]), sum(self.weights)))

    def draw(self, randomness: Randomness) -> int:
        """Draw the noise."""
        drawn = randomness.below(sum(self.weights))
        return self.highest - bisect_right(list(accumulate(self.weights)), drawn)


@dataclass(frozen=True, slots=True)
class RandomisedResponse:
    """Generalised randomised response: a value that its owner changes by chance before it is sent.

    Warner 1965 for two values; Kairouz, Bonawitz, Ramage 2016, "Discrete Distribution Estimation
    under Local Privacy", for more. The true value is sent with probability
    ``e^epsilon / (e^epsilon + m - 1)``, and each of the ``m - 1`` others with
    ``1 / (e^epsilon + m - 1)``. So the chances of any report under any two values differ by a
    factor of ``e^epsilon`` at most.

    Attributes:
        size: m, how many values there are; 2 or more.
        epsilon: Of one report, above 0. An exact fraction, so that shares add up to their whole.

    Raises:
        ConfigurationError: An attribute is outside its range.
    """

    size: int
    epsilon: Fraction

    def __post_init__(self) -> None:
        if self.size < 2:
            raise ConfigurationError("randomised response needs at least two values")
        _validate.positive("epsilon", float(self.epsilon))

    @property
    def kept(self) -> float:
        """Probability of the true value."""
        return 1 / (1 + (self.size - 1) * math.exp(-self.epsilon))

    @property
    def other(self) -> float:
        """Probability of each other value."""
        return math.exp(-self.epsilon) / (1 + (self.size - 1) * math.exp(-self.epsilon))

    def draw(self, value: int, randomness: Randomness) -> int:
        """The report.

        A value drawn evenly is taken if it is the true one, and otherwise with probability
        ``e^-epsilon``; else the next one is drawn.

        Args:
            value: From 0 to ``size - 1``. Private.
            randomness: Of the owner.
        """
        while True:
            drawn = randomness.below(self.size)
            if drawn == value or bernoulli_exp(self.epsilon, randomness):
                return drawn

    def estimate(self, counts: Sequence[float]) -> list[float]:
        """Number of owners with each value, from the number of reports of it. Unbiased.

        Args:
            counts: Reports of each value, [size].

        Returns:
            Estimates, [size]; some may be below 0. They add up to the number of reports.
        """
        total = math.fsum(counts)
        # kept - other, without the loss of digits at a small epsilon.
        gap = -math.expm1(-float(self.epsilon)) * self.kept
        return [(count - total * self.other) / gap for count in counts]
