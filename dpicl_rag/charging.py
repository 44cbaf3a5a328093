"""How an answer pays: the same for every token, or each unit for what it revealed.

Both settle with the ledger, where there is one, before a token is released.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from dpicl_rag.accounting.filters import FixedFilter, IndividualFilter
from dpicl_rag.ledger import Reservation


class Charge(Protocol):
    """Pays for the draws of one answer."""

    @property
    def rho(self) -> float:
        """Rho of zCDP charged so far: a bound that holds for every unit. Public."""
        ...

    def can_pay(self) -> bool:
        """Whether one more draw is covered. Depends on public numbers only."""
        ...

    def weights(self, ranges: torch.Tensor) -> torch.Tensor | None:
        """Factor on each expert for the next draw, or None for one each.

        Args:
            ranges: lambda times each expert's realised range, float64 [n].
        """
        ...

    def pay(self, ranges: torch.Tensor) -> None:
        """Charge the next draw and make the charge durable. Call it before the release.

        Args:
            ranges: lambda times each expert's realised range before weighting, float64 [n].
        """
        ...

    def verify(self) -> None:
        """Raise if a charge passed its limit. Call it before the drawn token is released."""
        ...


class FixedCharge:
    """Every draw costs the same, whatever the experts say.

    Args:
        budget: zCDP rho reserved for the answer.
        cost: zCDP rho of one draw, for its worst case.
        reservation: The ledger's hold, if there is a ledger.
    """

    def __init__(self, budget: float, cost: float, reservation: Reservation | None) -> None:
        self._filter = FixedFilter(budget)
        self._cost = cost
        self._reservation = reservation

    @property
    def rho(self) -> float:
        """Rho of zCDP of the draws so far."""
        return self._filter.spent

    def pay_search(self, rho: float) -> None:
        """Charge a search that was not free, before its result is used."""
        self._filter.charge(rho)
        if self._reservation is not None:
            self._reservation.commit(rho)

    def can_pay(self) -> bool:
        """Whether the budget covers one more draw."""
        return self._filter.can_pay(self._cost)

    def weights(self, ranges: torch.Tensor) -> torch.Tensor | None:
        """None: every expert counts in full."""
        return None

    def pay(self, ranges: torch.Tensor) -> None:
        """Charge one draw."""
        self._filter.charge(self._cost)
        if self._reservation is not None:
            self._reservation.commit(self._cost)

    def verify(self) -> None:
        """Nothing: ``pay`` raises by itself."""


class IndividualCharge:
    """Each unit pays ``(w * lambda * range)^2 / 8`` for its own realised range.

    Feldman, Zrnic 2021; privacy.md, section 4. A unit that has spent its share falls silent, and
    nobody is told.

    Args:
        limits: zCDP rho that the unit of each expert may spend on draws, float64 [n].
        bound: zCDP rho that no unit may pass in this answer. Public.
        worst: zCDP rho of one draw for an expert that uses its whole range. Public.
        spent: zCDP rho that the search cost any unit at most. Public.
        reservation: The ledger's hold, if there is a ledger.
        places: Of each expert's unit among the units of the reservation.
        units: Number of units of the reservation.
    """

    def __init__(
        self,
        limits: torch.Tensor,
        *,
        bound: float,
        worst: float,
        spent: float = 0.0,
        reservation: Reservation | None = None,
        places: Sequence[int] = (),
        units: int = 0,
    ) -> None:
        self._limits = limits
        self._filter: IndividualFilter | None = None
        self._draws = 0
        self._bound = bound
        self._worst = worst
        self._spent = spent
        self._reservation = reservation
        self._places = places
        self._units = units

    @property
    def rho(self) -> float:
        """The search and the draws so far at their worst, up to the bound; for every unit."""
        return min(self._spent + self._draws * self._worst, self._bound)

    def can_pay(self) -> bool:
        """Always: an expert whose unit has nothing left is silent, which costs nothing."""
        return True

    def weights(self, ranges: torch.Tensor) -> torch.Tensor | None:
        """Scale each expert to what its unit has left."""
        return self._at(ranges).weights(ranges)

    def pay(self, ranges: torch.Tensor) -> None:
        """Charge every unit for its weighted range."""
        self._draws += 1
        units = self._at(ranges)
        charges = units.charge(units.weights(ranges) * ranges)
        if self._reservation is not None:
            unit_rho = [0.0] * self._units
            for place, charge in zip(self._places, charges.tolist(), strict=True):
                unit_rho[place] = charge
            self._reservation.commit(self._worst, unit_rho)

    def verify(self) -> None:
        """Raise if a unit passed its limit; on an accelerator ``pay`` cannot tell by itself."""
        if self._filter is not None:
            self._filter.verify()

    def _at(self, ranges: torch.Tensor) -> IndividualFilter:
        """The filter, on the device of the utilities."""
        if self._filter is None:
            self._filter = IndividualFilter(self._limits.to(ranges.device))
        return self._filter
