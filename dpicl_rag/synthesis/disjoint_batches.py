"""Experts that keep one text: disjoint batches of units, and each pays for what it reveals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpicl_rag.ledger import Account
from dpicl_rag.mechanisms.privacy_filters import PrivacyFilter, privacy_filter
from dpicl_rag.synthesis.pools import Pool
from dpicl_rag.synthesis.topics import batch_of, coin_of


class Batches:
    """Units that write each text, and how they pay. Private.

    A unit's batch follows from a key of the run and from the unit alone, so another unit's arrival
    moves none, and a run that goes on has the same ones. A unit is in one text of each of its
    labels, and may spend an equal share of the budget in each.

    Args:
        pools: Units by label.
        texts: Texts of a label.
        rate: Probability with which a unit takes part at all; None lets all of them.
        rho: zCDP rho of the whole run, for every unit. Public.
        labels_per_unit: Labels that a unit has at most. Public.
        worst: zCDP rho of a token at its worst. Public.
        key: Secret of the run.
        account: Opened for `units_of` the pools.
    """

    def __init__(
        self,
        pools: Mapping[str, Pool],
        *,
        texts: int,
        rate: float | None,
        rho: float,
        labels_per_unit: int,
        worst: float,
        key: bytes,
        account: Account,
    ) -> None:
        self._pools = pools
        self._texts = texts
        self._rate = rate
        self._share = rho / labels_per_unit
        self._worst = worst
        self._key = key
        self._account = account
        self._places = {unit: place for place, unit in enumerate(units_of(pools))}

    def __repr__(self) -> str:
        return "Batches(<private>)"

    def members(self, label: str, text: int) -> Pool:
        """The units that write a text, with what each of them has."""
        return {
            unit: own for unit, own in self._pools[label].items() if self._joins(unit, label, text)
        }

    def filter(self, units: Sequence[str]) -> PrivacyFilter:
        """The filter by which the experts of a text pay.

        Args:
            units: The unit of each expert.
        """
        places = [self._places[unit] for unit in units]
        return privacy_filter(self._account, places, self._worst, most=self._share)

    def _joins(self, unit: str, label: str, text: int) -> bool:
        if batch_of(self._key, unit, label, self._texts) != text:
            return False
        return coin_of(self._key, unit, b"takes part ") * 2.0**-256 < (self._rate or 1.0)


def units_of(pools: Mapping[str, Pool]) -> list[str]:
    """All units, each once. Private."""
    return list(dict.fromkeys(unit for pool in pools.values() for unit in pool))
