"""Charges of labelled texts: alike for all units of a label, or each unit for what it reveals.

Labels cost a unit in parallel if it has one label, and add up otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import NoReturn

import torch

from dpicl_rag.errors import DPICLError
from dpicl_rag.ledger import Account
from dpicl_rag.mechanisms.discrete_noise import rounded_up
from dpicl_rag.mechanisms.privacy_filters import PrivacyFilter, privacy_filter
from dpicl_rag.synthesis.key_words import batch_of, coin_of
from dpicl_rag.synthesis.pools import Pool
from dpicl_rag.synthesis.synthesis_folder import Drawn


class LabelCharge:
    """Counts the tokens of every label. A unit pays for the ``pools`` labels that have the most.

    Args:
        labels: In the order in which their texts are written.
        texts: Of a label.
        max_tokens: Most tokens of a text.
        begun: Texts that were begun before, by number.
        pools: How many labels' pools one unit, or its replacement, changes.
        token_rho: zCDP rho of a token for a unit of its pool; None where samples have none.
        in_ledger: Whether a ledger pays.

    Attributes:
        left: Rho that texts which were not begun may still cost a unit, at most.
        lost: Rho of what kills may have taken: a token that nobody saw for each text they ended.
        account: Is charged for every token, once it is open.
    """

    def __init__(
        self,
        labels: Sequence[str],
        texts: int,
        max_tokens: int,
        begun: Mapping[int, Drawn],
        *,
        pools: int,
        token_rho: float | None,
        in_ledger: bool,
    ) -> None:
        self._in_ledger = in_ledger
        self._pools = pools
        self._token_rho = token_rho
        self._tokens = dict.fromkeys(labels, 0)
        whole = dict.fromkeys(labels, texts * max_tokens)
        for number, drawn in begun.items():
            label = labels[number % len(labels)]
            self._tokens[label] += len(drawn.tokens)
            whole[label] += len(drawn.tokens) - max_tokens
        self._paid = self._owed()
        interrupted = sum(drawn.stopped_by == "interrupted" for drawn in begun.values())
        self.left = rounded_up(Fraction(token_rho or 0.0) * (self._most(whole) - self._paid))
        self.lost = interrupted * (token_rho or 0.0)
        self.account: Account | None = None

    def can_pay(self, label: str) -> bool:
        """Whether the ledger's hold covers a token of a label: after a kill it may lack one."""
        grown = {**self._tokens, label: self._tokens[label] + 1}
        more = self._most(grown) - self._paid
        if not (more and self._in_ledger):
            return True
        left = None if self.account is None else self.account.remaining
        return (left or 0.0) >= more * (self._token_rho or 0.0)

    def pay(self, label: str) -> None:
        """Charge a token of a label, durably. Call it before the draw."""
        self._tokens[label] += 1
        more, self._paid = self._owed() - self._paid, self._owed()
        if more and self.account is not None:
            self.account.pay(self._token_rho or 0.0)

    @property
    def rho(self) -> float:
        """Rho of zCDP charged so far to any one unit at most. Public."""
        return rounded_up(Fraction(self._token_rho or 0.0) * self._paid)

    def _owed(self) -> int:
        return self._most(self._tokens)

    def _most(self, tokens: Mapping[str, int]) -> int:
        return sum(sorted(tokens.values(), reverse=True)[: self._pools])


class TextFilter:
    """Pays for the tokens of one text: see ``Filter``.

    Args:
        charge: Of all labels.
        label: That of the text.
        tokens: Most of the text.
    """

    def __init__(self, charge: LabelCharge, label: str, tokens: int) -> None:
        self._charge = charge
        self._label = label
        self._left = tokens

    def __repr__(self) -> str:
        return "TextFilter()"

    @property
    def rho(self) -> float:
        """See ``Filter``."""
        return self._charge.rho

    def can_pay(self) -> bool:
        """Whether the plan has another token, and the ledger pays for it."""
        return self._left > 0 and self._charge.can_pay(self._label)

    def weigh(self, ranges: Callable[[], torch.Tensor]) -> torch.Tensor | None:
        """None: every expert counts in full."""
        return None

    def pay(self) -> None:
        """Charge one token.

        Raises:
            DPICLError: The plan has none left; nothing may be released.
        """
        if not self.can_pay():
            raise DPICLError("internal error: a charge passed its budget; nothing was released")
        self._left -= 1
        self._charge.pay(self._label)

    def pay_aside(self, rho: float, counted: torch.Tensor) -> NoReturn:
        """Nothing is set aside.

        Raises:
            DPICLError: Always.
        """
        raise DPICLError("internal error: nothing was set aside; nothing was released")


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
