"""The Renyi curve of an event."""

from __future__ import annotations

import math
from collections.abc import Callable

from dpicl_rag.accounting import bounded_range, pure_dp
from dpicl_rag.accounting.events import (
    BoundedRange,
    Event,
    Gaussian,
    PureDP,
    ZeroConcentrated,
    leaves,
)
from dpicl_rag.errors import ConfigurationError

Curve = Callable[[float], float]
"""Order (above 1) to an upper bound, in nats, on the Renyi divergence in both directions."""


def renyi_curve(event: Event) -> Curve:
    """Renyi curve of ``event``.

    Exact for one pure DP, bounded-range or Gaussian mechanism; otherwise a sum of such curves.

    Raises:
        ConfigurationError: The event has no Renyi curve here, such as a subsampled one.
    """
    parts = [(_leaf_curve(leaf), count) for leaf, count in leaves(event)]
    return lambda alpha: math.fsum(count * curve(alpha) for curve, count in parts)


def gaussian_rho(event: Event) -> float | None:
    """Rho (zCDP) of an event made of Gaussian noise only, or None for any other.

    Adaptively composed Gaussian mechanisms are as private as one with this rho.
    """
    parts = list(leaves(event))
    if not all(isinstance(leaf, Gaussian) for leaf, _ in parts):
        return None
    return math.fsum(
        count / (2 * leaf.noise_multiplier**2)
        for leaf, count in parts
        if isinstance(leaf, Gaussian)
    )


def _leaf_curve(leaf: Event) -> Curve:
    match leaf:
        case PureDP(epsilon):
            return lambda alpha: pure_dp.renyi(epsilon, alpha)
        case BoundedRange(epsilon):
            return lambda alpha: bounded_range.renyi(epsilon, alpha)
        case ZeroConcentrated(rho):
            return lambda alpha: alpha * rho
        case Gaussian(noise_multiplier):
            return lambda alpha: alpha / (2 * noise_multiplier**2)
        case _:
            raise ConfigurationError(f"{type(leaf).__name__} has no Renyi curve")
