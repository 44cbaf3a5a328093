"""Accountants: events in, (epsilon, delta) out.

=========================  ===============================================  =====================
accountant                 what it composes                                 how tight
=========================  ===============================================  =====================
PureAccountant             pure DP, bounded range; Poisson-subsampled       sums of epsilon
ZeroConcentratedAccountant pure DP, bounded range, zCDP, Gaussian           sums of rho
RenyiAccountant            pure DP, bounded range, zCDP, Gaussian           exact Renyi curves
PrivacyLossAccountant      pure DP, Gaussian; both on samples               exact distributions
=========================  ===============================================  =====================

All hold under adaptive composition of events whose parameters are fixed beforehand.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self

from dpicl_rag import _validate
from dpicl_rag.accounting import composition, conversion, pure_dp
from dpicl_rag.accounting.events import (
    BoundedRange,
    Event,
    Gaussian,
    PoissonSubsampled,
    PureDP,
    ZeroConcentrated,
    leaves,
)
from dpicl_rag.accounting.renyi_curves import gaussian_rho, renyi_curve
from dpicl_rag.accounting.stability import Adjacency
from dpicl_rag.accounting.subsampling import FixedSizeSubsampled, SubsampledSum, profile_of
from dpicl_rag.errors import ConfigurationError


class Accountant(ABC):
    """Adds up the costs of events.

    Args:
        adjacency: The neighbours that the guarantee is about. Every event composed must state its
            cost for the same ones.
    """

    def __init__(self, adjacency: Adjacency) -> None:
        if not isinstance(adjacency, Adjacency):
            raise ConfigurationError("adjacency must be an Adjacency")
        self._adjacency = adjacency
        self._counts: dict[Event, int] = {}

    @property
    def adjacency(self) -> Adjacency:
        """The neighbours that the guarantee is about."""
        return self._adjacency

    def compose(self, event: Event, count: int = 1) -> Self:
        """Add ``event``, ``count`` times. The whole tree is checked before anything is added.

        Returns:
            This accountant.

        Raises:
            ConfigurationError: A part of ``event`` is not supported; nothing was added.
        """
        _validate.count("count", count)
        parts = list(leaves(event, count))
        for leaf, _ in parts:
            if isinstance(leaf, PoissonSubsampled | SubsampledSum):
                self._require_add_or_remove()
            if isinstance(leaf, FixedSizeSubsampled):
                self._require_replace()
            if not self._supports(leaf):
                raise ConfigurationError(
                    f"{type(self).__name__} cannot compose {type(leaf).__name__}; RenyiAccountant "
                    "composes every event but a subsample, PrivacyLossAccountant subsampled "
                    "Gaussian noise and pure DP, PureAccountant subsampled pure DP"
                )
        for leaf, times in parts:
            self._counts[leaf] = self._counts.get(leaf, 0) + times
        return self

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """Smallest epsilon found at ``delta``, strictly between 0 and 1.

        Raises:
            ConfigurationError: ``delta`` is outside its range.
        """

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """Smallest delta found at ``epsilon``, 0 or more.

        Raises:
            ConfigurationError: ``epsilon`` is outside its range.
        """

    @abstractmethod
    def _supports(self, leaf: Event) -> bool:
        """Support for the leaf."""

    def _require_add_or_remove(self) -> None:
        if self._adjacency is not Adjacency.ADD_OR_REMOVE_ONE:
            raise ConfigurationError(
                "Poisson subsampling amplifies under add-or-remove adjacency only"
            )

    def _require_replace(self) -> None:
        if self._adjacency is not Adjacency.REPLACE_ONE:
            raise ConfigurationError(
                "samples of a fixed size amplify under replace-one adjacency only: where a unit "
                "comes, the fraction changes"
            )


class PureAccountant(Accountant):
    """Pure DP: epsilons add up. Supports PureDP, BoundedRange and Poisson subsamples of them."""

    @property
    def total(self) -> float:
        """Pure epsilon: the guarantee at delta 0."""
        return math.fsum(count * _pure_epsilon(leaf) for leaf, count in self._counts.items())

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon at ``delta``, which may be 0 here."""
        if delta != 0:
            _validate.probability("delta", delta)
        return pure_dp.epsilon(self.total, delta)

    def delta(self, epsilon: float) -> float:
        """Smallest delta at ``epsilon``; 0 from ``total`` on."""
        return pure_dp.delta(self.total, _validate.non_negative("epsilon", epsilon))

    def _supports(self, leaf: Event) -> bool:
        if isinstance(leaf, PoissonSubsampled):
            return all(self._supports(part) for part, _ in leaves(leaf.event))
        return isinstance(leaf, PureDP | BoundedRange)


class ZeroConcentratedAccountant(Accountant):
    """zCDP: rhos add up. Supports PureDP, BoundedRange, ZeroConcentrated and Gaussian."""

    @property
    def rho(self) -> float:
        """Total zCDP rho."""
        return math.fsum(count * _rho(leaf) for leaf, count in self._counts.items())

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon at ``delta``, see `conversion.rho_to_epsilon`."""
        return conversion.rho_to_epsilon(self.rho, delta)

    def delta(self, epsilon: float) -> float:
        """Smallest delta at ``epsilon``, see `conversion.rho_to_delta`."""
        return conversion.rho_to_delta(self.rho, epsilon)

    def _supports(self, leaf: Event) -> bool:
        return isinstance(leaf, PureDP | BoundedRange | ZeroConcentrated | Gaussian)


class RenyiAccountant(Accountant):
    """Exact Renyi curves, over all orders and not a list of them.

    Supports PureDP, BoundedRange, ZeroConcentrated and Gaussian.
    """

    def divergence(self, alpha: float) -> float:
        """Bound on the Renyi divergence of order ``alpha`` (above 1), in nats."""
        return math.fsum(count * renyi_curve(leaf)(alpha) for leaf, count in self._counts.items())

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon at ``delta``, see `conversion.renyi_to_epsilon`."""
        return conversion.renyi_to_epsilon(self.divergence, delta)

    def delta(self, epsilon: float) -> float:
        """Smallest delta at ``epsilon``, see `conversion.renyi_to_delta`."""
        return conversion.renyi_to_delta(self.divergence, epsilon)

    def _supports(self, leaf: Event) -> bool:
        return isinstance(leaf, PureDP | BoundedRange | ZeroConcentrated | Gaussian)


class PrivacyLossAccountant(Accountant):
    """Privacy loss distributions, rounded to the safe side; see ``composition.py``.

    The tightest here for Gaussian noise with and without sampling, and for many pure DP mechanisms
    (optimal composition). Bounded-range mechanisms have no single worst distribution, and zCDP has
    none at all.

    Args:
        adjacency: See `Accountant`.
        interval: Privacy losses are rounded to multiples of it, in nats. Smaller is tighter and
            slower. By default as small as the result needs.
    """

    def __init__(self, adjacency: Adjacency, interval: float | None = None) -> None:
        super().__init__(adjacency)
        self._interval = None if interval is None else _validate.positive("interval", interval)

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon at ``delta``."""
        _validate.probability("delta", delta)
        tail = composition.tail_for(delta, max(1, sum(self._counts.values())))
        return self._worst(lambda parts: composition.composed_epsilon(parts, delta), tail)

    def delta(self, epsilon: float) -> float:
        """Smallest delta at ``epsilon``."""
        _validate.non_negative("epsilon", epsilon)
        if math.isinf(epsilon):
            return 0.0
        return self._worst(lambda parts: composition.composed_delta(parts, epsilon))

    def _supports(self, leaf: Event) -> bool:
        if isinstance(leaf, SubsampledSum | FixedSizeSubsampled):
            return True
        inner = leaf.event if isinstance(leaf, PoissonSubsampled) else leaf
        return isinstance(inner, PureDP) or gaussian_rho(inner) is not None

    def _worst(
        self, cost: Callable[[composition.ComposedLosses], float], tail: float = composition.TAIL
    ) -> float:
        """The larger cost of the two directions."""
        profiles = [
            (profile, count)
            for leaf, count in self._counts.items()
            if (profile := profile_of(leaf)) is not None
        ]
        if not profiles:
            return 0.0

        def compute(interval: float) -> tuple[float, int]:
            both = [(composition.directions(one, interval, tail), n) for one, n in profiles]
            worst = max(cost([(pair[side], count) for pair, count in both]) for side in (0, 1))
            return worst, max(len(pair[0].chances) for pair, _ in both)

        if self._interval is not None:
            return compute(self._interval)[0]
        return composition.settled(compute)


def _pure_epsilon(leaf: Event) -> float:
    match leaf:
        case PureDP(epsilon) | BoundedRange(epsilon):
            return epsilon
        case PoissonSubsampled(rate, inner):
            total = math.fsum(count * _pure_epsilon(part) for part, count in leaves(inner))
            return pure_dp.amplified_epsilon(total, rate)
        case _:
            raise AssertionError("checked by compose")


def _rho(leaf: Event) -> float:
    match leaf:
        case PureDP(epsilon):
            return pure_dp.zcdp(epsilon)
        case BoundedRange(epsilon):
            return conversion.bounded_range_to_rho(epsilon)
        case ZeroConcentrated(rho):
            return rho
        case Gaussian():
            return gaussian_rho(leaf) or 0.0
        case _:
            raise AssertionError("checked by compose")
