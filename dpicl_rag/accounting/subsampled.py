"""Privacy amplification by Poisson subsampling, under add-or-remove adjacency only.

Each unit joins the subset with probability q by its own coin. For a corpus with and without unit
u, condition on the coins of all other units, which give a subset S. With P the output distribution
on S and P' on S and u, the two corpora give P and ``(1 - q) P + q P'``. exp((a - 1) D_a) is jointly
convex, so the worst S bounds the mixture over S. With ratio r = P'/P, of mean 1 under P, both
directions are means of convex functions of r (Mironov, Talwar, Zhang 2019, section 3; Zhu, Wang
2019, section 3):

    removing:  E_P[(1 + q (r - 1))^a]          adding:  E_P[(1 + q (r - 1))^(1 - a)]

None of this holds under replacement, where both corpora give mixtures: the accountants refuse it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from dpicl_rag.accounting import _check
from dpicl_rag.errors import ConfigurationError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LARGEST_ORDER = 512
"""Orders above it use a looser bound instead of a sum with more terms."""


def amplified_epsilon(epsilon: float, rate: float) -> float:
    """Epsilon of an epsilon-DP mechanism on a Poisson subsample: log(1 + q (e^epsilon - 1)).

    Source: Balle, Barthe, Gaboardi 2018, Theorem 8. Bounded-range mechanisms are epsilon-DP too.

    Raises:
        ConfigurationError: An argument is outside its range.
    """
    epsilon = _check.non_negative("epsilon", epsilon)
    rate = _rate(rate)
    if epsilon < 700:
        return math.log1p(rate * math.expm1(epsilon))
    if rate == 0:
        return 0.0
    log_share = epsilon + math.log(rate)
    return max(0.0, log_share) + math.log1p(math.exp(-abs(log_share)))


def bounded_range_renyi(epsilon: float, rate: float, alpha: float) -> float:
    """Exact worst-case Renyi divergence of a Poisson-subsampled epsilon-BR mechanism, in nats.

    r lies in an interval [e^(t - epsilon), e^t]. A convex function of a variable with a given
    mean in an interval has its largest mean where all mass is at the two ends, so for each t the
    worst case has two outcomes, in both directions. The largest value over t is found on a grid
    that is logarithmic towards both ends, refined to about 1e-10 relative.
    The removing direction was the larger in every case tried; both are taken, for want of a proof.

    Args:
        epsilon: Length of the interval of log ratios without subsampling.
        rate: q.
        alpha: Order above 1.

    Raises:
        ConfigurationError: An argument is outside its range.
    """
    import numpy as np

    epsilon, rate, alpha = _arguments(epsilon, rate, alpha)
    if rate == 0 or epsilon == 0:
        return 0.0
    if epsilon > 300:
        return amplified_epsilon(epsilon, rate)

    def at(logit: NDArray[np.float64], power: float) -> NDArray[np.float64]:
        top = epsilon / (1 + np.exp(-logit))
        return _two_points(top, epsilon / (1 + np.exp(logit)), rate, power)

    best = -math.inf
    for power in (alpha, 1 - alpha):
        low, high = -40.0, 40.0
        for points in (321, 33, 33, 33):
            grid = np.linspace(low, high, points)
            values = at(grid, power)
            peak = int(np.argmax(values))
            low, high = grid[max(peak - 1, 0)], grid[min(peak + 1, points - 1)]
            best = max(best, float(values[peak]))
    return best / (alpha - 1)


def pure_renyi(epsilon: float, rate: float, alpha: float) -> float:
    """Exact worst-case Renyi divergence of a Poisson-subsampled epsilon-DP mechanism, in nats.

    As for bounded range, with r in [e^-epsilon, e^epsilon].

    Raises:
        ConfigurationError: An argument is outside its range.
    """
    import numpy as np

    epsilon, rate, alpha = _arguments(epsilon, rate, alpha)
    if rate == 0 or epsilon == 0:
        return 0.0
    if epsilon > 300:
        return amplified_epsilon(epsilon, rate)
    end = np.array([epsilon])
    logs = [float(_two_points(end, end, rate, power)[0]) for power in (alpha, 1 - alpha)]
    return max(logs) / (alpha - 1)


def renyi_curve(
    curve: Callable[[float], float], rate: float, *, removal_dominates: bool = False
) -> Callable[[float], float]:
    """Bound on the Renyi curve of any mechanism on a Poisson subsample, from its own curve.

    Removing, for whole orders n, expands the power (Zhu, Wang 2019, and Mironov,
    Talwar, Zhang 2019, section 3.3); all terms are positive, so bounds on the terms are enough:

        E <= sum_k C(n, k) (1 - q)^(n - k) q^k exp((k - 1) R(k)).

    Orders between whole ones follow from the convexity of log E in the order (Wang, Balle,
    Kasiviswanathan 2019, Corollary 10).

    By convexity, also ``E <= 1 - q + q exp((a - 1) R(a))``. The result is the larger of this
    direction and `adding_divergence`.

    Args:
        curve: R, an upper bound on both directions' divergence without subsampling.
        rate: q.
        removal_dominates: The adding direction is known to be no larger, as for Gaussian noise
            (Mironov, Talwar, Zhang 2019, Theorem 5).

    Returns:
        A function of the order (above 1), in nats.
    """
    import numpy as np

    rate = _rate(rate)
    if rate == 0:
        return lambda alpha: 0.0
    if rate == 1:
        return curve
    log_in, log_out = math.log(rate), math.log1p(-rate)
    log_factorial = np.array([math.lgamma(k + 1) for k in range(_LARGEST_ORDER + 1)])

    @cache
    def log_gain(order: int) -> float:
        """log(exp((k - 1) R(k)) - 1)."""
        return _log_expm1((order - 1) * curve(float(order)))

    @cache
    def removing(order: int) -> float:
        """Log E of the removing direction for a whole order."""
        if order == 1:
            return 0.0
        k = np.arange(2, order + 1)
        terms = (
            log_factorial[order]
            - log_factorial[k]
            - log_factorial[order - k]
            + k * log_in
            + (order - k) * log_out
            + np.array([log_gain(int(each)) for each in k])
        )
        return float(np.logaddexp(0.0, np.logaddexp.reduce(terms)))

    def divergence(alpha: float) -> float:
        above = _order(alpha) - 1
        removal = _log_convexity(curve, rate, alpha)
        if alpha <= _LARGEST_ORDER - 1:
            whole = math.floor(alpha)
            part = alpha - whole
            log_mean = (1 - part) * removing(whole) + (part * removing(whole + 1) if part else 0.0)
            removal = min(removal, log_mean)
        if removal_dominates:
            return removal / above
        return max(removal / above, adding_divergence(curve, rate, alpha))

    return divergence


def adding_divergence(curve: Callable[[float], float], rate: float, alpha: float) -> float:
    """Bound on the divergence in the adding direction, for 0 < q < 1 and any order above 1.

    There is no sum of positive terms here: the one of Zhu and Wang 2019 needs an assumption on
    the mechanism or a constant factor of 3. Instead, ((1 + y)^-s - 1 + s y) / y^2 falls as y
    rises, being a second divided difference of a function whose second derivative falls. With
    y = q (r - 1), which is at least -q and has mean 0, and s = a - 1,

        E <= 1 + ((1 - q)^-s - 1 - s q) * E_P[(r - 1)^2],   E_P[(r - 1)^2] <= exp(R(2)) - 1.

    For small q it agrees with the removing direction to order q^2. The smallest of it, of
    ``E <= 1 - q + q exp((a - 1) R(a))`` and of ``D <= -log(1 - q)`` is returned, in nats.
    """
    import numpy as np

    above = _order(alpha) - 1
    log_factor = float(_log_excess(-above, np.array([-rate]))[0])
    spread = float(np.logaddexp(0.0, log_factor + _log_expm1(curve(2.0))))
    return min(min(spread, _log_convexity(curve, rate, alpha)) / above, -math.log1p(-rate))


def _log_convexity(curve: Callable[[float], float], rate: float, alpha: float) -> float:
    """Logarithm of 1 - q + q exp((a - 1) R(a)), which bounds E in both directions."""
    import numpy as np

    return float(np.logaddexp(0.0, math.log(rate) + _log_expm1((alpha - 1) * curve(alpha))))


def _two_points(
    top: NDArray[np.float64], below: NDArray[np.float64], rate: float, power: float
) -> NDArray[np.float64]:
    """Log E_P[(1 + q (r - 1))^power] where log r is ``top`` or ``-below`` and r has mean 1."""
    import numpy as np

    whole = -np.expm1(-(top + below))
    log_high = np.log(-np.expm1(-below) / whole) - top
    log_low = np.log(-np.expm1(-top) / whole)
    return np.logaddexp(
        0.0,
        np.logaddexp(
            log_high + _log_excess(power, rate * np.expm1(top)),
            log_low + _log_excess(power, rate * np.expm1(-below)),
        ),
    )


def _log_excess(power: float, shift: NDArray[np.float64]) -> NDArray[np.float64]:
    """log((1 + y)^p - 1 - p y) for y > -1 and p outside (0, 1), without cancellation.

    The linear part of a convex function has mean 0 here, so leaving it out keeps the digits.
    """
    import numpy as np

    log_power = power * np.log1p(shift)
    linear = power * shift
    series = np.zeros_like(shift)
    term = linear.copy()
    for k in range(2, 10):
        term = term * shift * (power - k + 1) / k
        series = series + term
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        direct = np.log(np.expm1(log_power) - linear)
        large = log_power + np.log1p(-(1 + linear) * np.exp(-log_power))
        small = (np.abs(linear) < 1e-2) & (np.abs(shift) < 1e-2)
        chosen = np.where(log_power > 50, large, direct)
        return np.where(small, np.log(series), chosen)


def _log_expm1(value: float) -> float:
    """log(exp(value) - 1) without overflow."""
    if value == 0:
        return -math.inf
    return value + math.log(-math.expm1(-value)) if value < math.inf else math.inf


def _arguments(epsilon: float, rate: float, alpha: float) -> tuple[float, float, float]:
    return _check.non_negative("epsilon", epsilon), _rate(rate), _order(alpha)


def _order(alpha: float) -> float:
    if not 1 < alpha < math.inf:
        raise ConfigurationError("alpha must be a finite order above 1")
    return alpha


def _rate(rate: float) -> float:
    if not 0 <= rate <= 1:
        raise ConfigurationError("rate must lie between 0 and 1")
    return float(rate)
