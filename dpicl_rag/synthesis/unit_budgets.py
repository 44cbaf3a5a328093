"""Remaining budgets of the units in a run. Private: they are in no error and no repr.

A unit's limit follows from what it has spent itself and from public numbers, as a privacy filter
needs (`dpicl_rag.answering.privacy_filters`). A unit that cannot pay is silent, without notice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from dpicl_rag.answering.privacy_filters import IndividualFilter
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.ledger import Reservation
from dpicl_rag.mechanisms.gaussian import DiscreteGaussian


class UnitBudgets:
    """The units of a run, in the order of the ledger's reservation.

    Args:
        units: Their names.
        rho: What the run may cost any unit. Public.
        reservation: The ledger's hold on that for all of them, if there is a ledger.
    """

    def __init__(self, units: Sequence[str], rho: float, reservation: Reservation | None) -> None:
        limits = None if reservation is None else reservation.limits
        self._left = [rho] * len(units) if limits is None else list(limits)
        self._reservation = reservation
        self._places: Mapping[str, int] = {unit: place for place, unit in enumerate(units)}

    def __repr__(self) -> str:
        return "UnitBudgets(<private>)"

    def able(self, rho: float) -> list[bool]:
        """Units that can pay so much."""
        return [left >= rho for left in self._left]

    def pay_counts(self, counts: Sequence[int], noise: DiscreteGaussian, most: int) -> None:
        """Charge a round of counts, durably.

        Args:
            counts: How many counts each unit is in.
            noise: On each count.
            most: Counts that any unit may be in. Public.
        """
        charges = [counted * noise.rho for counted in counts]
        if self._reservation is not None:
            self._reservation.commit(most * noise.rho, charges)
        self._left = [left - cost for left, cost in zip(self._left, charges, strict=True)]

    def filter(self, units: Sequence[str], record_rho: float, worst: float) -> IndividualFilter:
        """The filter of the experts: each pays up to the record's price, or what its unit has left.

        Args:
            units: The unit of each expert.
            record_rho: What a record may cost any unit. Public.
            worst: What one token costs at most. Public.
        """
        places = [self._places[unit] for unit in units]
        left = [min(record_rho, max(0.0, self._left[place])) for place in places]
        return IndividualFilter(
            torch.tensor(left, dtype=torch.float64),
            bound=record_rho,
            worst=worst,
            reservation=self._reservation,
            places=places,
            units=len(self._left),
        )

    def settle(self, units: Sequence[str], spend: IndividualFilter) -> None:
        """Note what a record has cost its units.

        Args:
            units: The unit of each expert.
            spend: How they paid.
        """
        for unit, cost in zip(units, spend.spent.tolist(), strict=True):
            self._left[self._places[unit]] -= cost


def require_affordable(rho: float, reservation: Reservation | None) -> None:
    """Raise where no unit could pay for the keys.

    Raises:
        ConfigurationError: The ledger's budget of a unit is below their price.
    """
    if reservation is not None and reservation.rho < rho:
        raise ConfigurationError(
            f"the keys of this plan cost a unit rho {rho:.4g}, and the ledger's budget lets a unit "
            f"spend {reservation.rho:.4g}; raise the corpus's unit budget with `dpicl-rag budget "
            "set`, or lower epsilon"
        )
