"""Laplace noise on counts: the discrete Laplace, drawn exactly.

Canonne, Kamath, Steinke 2020, "The Discrete Gaussian for Differential Privacy", Algorithms 1 and 2.
The noise is an integer with probability proportional to exp(-epsilon |x|), also known as geometric
noise (Ghosh, Roughgarden, Sundararajan 2009). Only whole numbers and fractions are computed with,
so the drawn distribution is the stated one (Mironov 2012 is about those that are not).
"""

from __future__ import annotations

from fractions import Fraction

from dpicl_rag import _validate
from dpicl_rag.mechanisms.randomness import Randomness


class DiscreteLaplace:
    """Noise for a whole-number query.

    A query that one unit moves by at most ``s`` is ``s * epsilon``-DP with this noise on it.

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
