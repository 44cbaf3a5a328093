"""Gaussian noise on counts: the discrete Gaussian, drawn exactly.

Canonne, Kamath, Steinke 2020, "The Discrete Gaussian for Differential Privacy". The noise is an
integer with probability proportional to exp(-x^2 / (2 sigma^2)). Only whole numbers and fractions
are computed with, so the drawn distribution is the stated one: there is no floating-point error
for an attacker to look for (Mironov 2012), and none to account for.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpicl_rag import _validate
from dpicl_rag.mechanisms.laplace import bernoulli_exp, discrete_laplace
from dpicl_rag.mechanisms.randomness import Randomness

# Above the rounding of exponentials (their arguments are below 1,000) and of their sums.
_ROUNDED_UP = 1 + 1e-11


class DiscreteGaussian:
    """Noise for a whole-number query.

    A query that one unit moves by at most ``s`` is ``s^2 / (2 sigma^2)``-zCDP with this noise on
    it (Canonne, Kamath, Steinke 2020, Theorem 4), as with the continuous Gaussian.

    Args:
        sigma: Scale, above 0; the variance is at most ``sigma^2``.

    Raises:
        ConfigurationError: ``sigma`` is not above 0 and finite.
    """

    def __init__(self, sigma: float) -> None:
        self.sigma = _validate.positive("sigma", sigma)
        self._variance = Fraction(sigma) ** 2
        # Theorem 23: with this scale a proposal is accepted with probability above one third.
        self._scale = math.floor(sigma) + 1

    @staticmethod
    def within(rho: float, sensitivity: float) -> DiscreteGaussian:
        """The least noise that a price pays for.

        Args:
            rho: zCDP rho, above 0.
            sensitivity: By how much one unit moves the query at most.

        Raises:
            ConfigurationError: The price is not above 0 and finite.
        """
        # Rounded up, so that the price is not above rho.
        sigma = sensitivity / math.sqrt(2 * _validate.positive("rho", rho)) * (1 + 1e-12)
        return DiscreteGaussian(sigma)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DiscreteGaussian) and other.sigma == self.sigma

    def __hash__(self) -> int:
        return hash(self.sigma)

    def __repr__(self) -> str:
        return f"DiscreteGaussian(sigma={self.sigma:g})"

    @property
    def rho(self) -> float:
        """Rho of zCDP of one count that a unit moves by at most 1; rounded up."""
        exact = 1 / (2 * self._variance)
        rho = float(exact)
        return rho if rho >= exact else math.nextafter(rho, math.inf)

    def tail(self, least: int) -> float:
        """Probability that the noise is ``least`` or more; rounded up.

        Args:
            least: A whole number.
        """
        if least <= 0:
            return min(1.0, (1.0 - self.tail(1 - least)) * _ROUNDED_UP)
        twice = 2 * self.sigma**2
        # Behind the last term there are none that float64 can hold.
        end = math.ceil(math.sqrt(twice * 800)) + 2
        terms = [math.exp(-(x * x) / twice) for x in range(end)]
        whole = 2 * math.fsum(terms) - 1
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
        """Draw the noise: Algorithm 3, rejection from a discrete Laplace distribution."""
        while True:
            proposal = discrete_laplace(self._scale, randomness)
            excess = abs(proposal) - self._variance / self._scale
            if bernoulli_exp(excess * excess / (2 * self._variance), randomness):
                return proposal
