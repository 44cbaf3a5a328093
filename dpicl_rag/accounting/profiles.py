"""Profiles: the delta of one release at every epsilon, in both directions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from dpicl_rag.accounting import pure_dp
from dpicl_rag.accounting.composition import Profile
from dpicl_rag.accounting.curves import gaussian_rho
from dpicl_rag.accounting.events import Event, PoissonSubsampled, PureDP
from dpicl_rag.accounting.fixed_size import FixedSizeSubsampled
from dpicl_rag.accounting.gaussian_cost import gaussian_deltas
from dpicl_rag.accounting.mixture_of_gaussians import SubsampledSum, mixture_deltas

if TYPE_CHECKING:
    import numpy as np


def profile_of(event: Event) -> Profile | None:
    """The profile of an event; None where none is known, and for an event that costs nothing."""
    match event:
        case PureDP(epsilon):
            return _pure(epsilon)
        case FixedSizeSubsampled():
            return lambda epsilons: (event.deltas(epsilons), event.deltas(epsilons))
        case SubsampledSum():
            return partial(mixture_deltas, *event.mixture, event.sigma)
        case PoissonSubsampled(rate, PureDP(epsilon)):
            return sampled(rate, partial(_pure_deltas, epsilon)) if rate else None
    rate, inner = (
        (event.rate, event.event) if isinstance(event, PoissonSubsampled) else (1.0, event)
    )
    rho = gaussian_rho(inner)
    return sampled_gaussian(rate, math.sqrt(2 * rho)) if rho and rate else None


def sampled_gaussian(rate: float, mu: float) -> Profile:
    """Gaussian noise of sensitivity over noise ``mu``, where a unit joins with chance ``rate``."""
    return sampled(rate, partial(gaussian_deltas, mu))


def sampled(rate: float, deltas: Callable[[np.ndarray], np.ndarray]) -> Profile:
    """A mechanism with these deltas in both directions, where a unit joins with chance ``rate``.

    With the unit P = (1 - q) Q + q N, without it Q. Let H_a be the hockey-stick divergence. P
    against Q has q H_a(N, Q) for a = 1 + (e^epsilon - 1) / q. The other way, Q - e^epsilon P is
    c Q - e^epsilon q N with c = q - (1 - q) (e^epsilon - 1): its delta is c H_a(Q, N) for
    a = e^epsilon q / c, and 0 from c = 0 on.

    Both grow with the deltas, so a pair that dominates N and Q gives one that dominates P and Q
    (Zhu, Dong, Wang 2022, "Optimal Accounting of Differential Privacy via Characteristic
    Function", Theorem 11).
    """

    def profile(epsilons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        import numpy as np

        grown = np.expm1(epsilons)
        coming = rate * deltas(np.log1p(grown / rate))
        rest = rate - (1 - rate) * grown
        some = rest > 0
        size = np.log(np.exp(epsilons[some]) * rate / rest[some])
        going = np.zeros(len(epsilons))
        going[some] = rest[some] * deltas(np.maximum(0.0, size))
        return coming, going

    return profile


def _pure(total: float) -> Profile:
    def profile(epsilons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = _pure_deltas(total, epsilons)
        return found, found

    return profile


def _pure_deltas(total: float, epsilons: np.ndarray) -> np.ndarray:
    import numpy as np

    return np.array([pure_dp.delta(total, float(epsilon)) for epsilon in epsilons])
