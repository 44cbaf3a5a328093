"""The charge of Gaussian noise on a sample of public size, drawn anew for every release."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpicl_rag import _validate
from dpicl_rag.accounting.curves import gaussian_rho
from dpicl_rag.accounting.events import Event
from dpicl_rag.accounting.gaussian_cost import gaussian_deltas
from dpicl_rag.errors import ConfigurationError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class FixedSizeSubsampled(Event):
    """``event`` on a sample of public size, drawn without replacement; it is not released.

    For replaced units only: where a unit comes, the sample's fraction of the pool changes.

    Let P, Q be the outputs on samples with a unit and with its replacement, and q the fraction.
    The outputs on neighbouring pools are ``(1 - q) S + q P`` and ``(1 - q) S + q Q``, and S is
    itself a replacement away from P and from Q. By advanced joint convexity (Balle, Barthe,
    Gaboardi 2018, "Privacy Amplification by Subsampling", Theorems 2 and 9) both directions have

        delta(epsilon) <= q * H_a(P, Q),  a = 1 + (e^epsilon - 1) / q,  for epsilon >= 0,

    H the hockey-stick divergence of the unsampled pair, and it is met where S = Q. The pair of the
    worst case taken both ways has ``1 - e^epsilon + e^epsilon delta(-epsilon)`` below 0.

    Attributes:
        fraction: Size of the sample over that of the pool, above 0 and at most 1. Public; at least
            the true one.
        event: Gaussian noise, whose multiplier is for a replaced unit.
    """

    fraction: float
    event: Event

    def __post_init__(self) -> None:
        _validate.rate("fraction", self.fraction)
        if not isinstance(self.event, Event) or not gaussian_rho(self.event):
            raise ConfigurationError("samples of a fixed size are priced for Gaussian noise only")

    def deltas(self, epsilons: np.ndarray) -> np.ndarray:
        """The privacy profile, float64, at any epsilons."""
        import numpy as np

        sizes = np.abs(epsilons)
        # log(1 + (e^x - 1) / q), where e^x may overflow.
        log_a = np.where(
            sizes < 500, np.log1p(np.expm1(np.minimum(sizes, 500)) / self.fraction), 0.0
        )
        log_a = np.where(sizes < 500, log_a, sizes - math.log(self.fraction))
        above = self.fraction * gaussian_deltas(self._mu, log_a)
        below = -np.expm1(-sizes) + np.exp(-sizes) * above
        return np.where(epsilons >= 0, above, below)

    @property
    def _mu(self) -> float:
        """Sensitivity over noise of the unsampled pair."""
        return math.sqrt(2 * (gaussian_rho(self.event) or 0.0))
