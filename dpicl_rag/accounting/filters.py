"""Privacy filters: what may still be spent while an answer is drawn token by token.

zCDP is additive under adaptive choice as long as the sum stays within a bound fixed beforehand,
also for each unit by itself (Feldman, Zrnic 2021, "Individual Privacy Accounting via a Renyi
Filter", section 4).
"""

from __future__ import annotations

import math
from fractions import Fraction

import torch

from dpicl_rag.accounting import _check
from dpicl_rag.errors import ConfigurationError, DPICLError

_RANGE_MARGIN = 1e-6
"""Relative margin on a scaled range, for rounding when float64 utilities are scaled and measured
again. Float32 has too few digits for that: a charge may then pass the limit, and raises."""

_SUM_MARGIN = 1e-9
"""Share of a limit that is never spent: float64 sums of millions of charges stay true to it."""


class IndividualFilter:
    """A zCDP filter for every unit: scales an expert down to what its unit has left.

    Sound where a unit's presence changes no expert but its own, under add-or-remove adjacency
    (``stability.require_individual``). A unit's weight depends on its own utilities and on
    released tokens only, so it tells nothing about other units.

    For each token: ``w = weights(ranges)``, multiply the float64 utilities by ``w``, measure their
    ranges again on the very numbers that enter the sum, ``charge`` those, and only then draw.

    Spend is private. Nothing here prints it, and no error carries it.

    Args:
        limits: ``[n]`` zCDP rho that each unit may still spend in this answer, 0 or more. Its
            device is where the filter computes, in float64.

    Raises:
        ConfigurationError: ``limits`` is not one-dimensional, or not finite and 0 or more.
    """

    def __init__(self, limits: torch.Tensor) -> None:
        limits = limits.detach().to(torch.float64)
        if limits.ndim != 1:
            raise ConfigurationError("limits must have one dimension")
        if not bool((torch.isfinite(limits) & (limits >= 0)).all()):
            raise ConfigurationError("limits must be finite and 0 or more")
        self._limits = limits.clone()
        self._spent = torch.zeros_like(self._limits)
        self._broken = torch.zeros((), dtype=torch.bool, device=self._limits.device)

    @torch.no_grad()
    def weights(self, ranges: torch.Tensor) -> torch.Tensor:
        """Scale for each expert: as near to 1 as its unit can pay for.

        Args:
            ranges: ``[n]``, lambda times the range of each expert's utility over the candidates,
                0 or more.

        Returns:
            ``[n]`` float64 in [0, 1] with ``(weight * range)^2 / 8`` at most what is left.
        """
        ranges = self._accept(ranges)
        left = (self._limits * (1 - _SUM_MARGIN) - self._spent).clamp_min(0)
        payable = (8 * left).sqrt() * (1 - _RANGE_MARGIN)
        # A range of 0 keeps the weight 1. NaN fails the comparison, and charge() then reports it.
        return torch.where(ranges <= payable, torch.ones_like(payable), payable / ranges)

    @torch.no_grad()
    def charge(self, ranges: torch.Tensor) -> torch.Tensor:
        """Charge every unit ``range^2 / 8`` of zCDP, before the token is drawn.

        On the CPU a charge over the limit raises here. On an accelerator, where looking would
        wait for the device, it is remembered and ``verify`` raises.

        Args:
            ranges: ``[n]``, lambda times each utility's range after weighting.

        Returns:
            ``[n]`` float64 charges.

        Raises:
            DPICLError: A charge is over the limit or not a number; the token must not be drawn.
        """
        ranges = self._accept(ranges)
        charges = ranges.square() / 8
        self._spent = self._spent + charges
        # Written so that NaN counts as broken.
        self._broken = self._broken | ~((self._spent <= self._limits) & (ranges >= 0)).all()
        if self._broken.device.type == "cpu":
            self.verify()
        return charges

    def verify(self) -> None:
        """Raise if any charge so far was over its limit. Waits for the device.

        Call it where the drawn token is read anyway, before the token is released.

        Raises:
            DPICLError: A unit's limit was passed; nothing may be released.
        """
        if bool(self._broken):
            raise DPICLError(
                "internal error: a charge passed its limit; the token was not released"
            )

    @property
    def spent(self) -> torch.Tensor:
        """``[n]`` float64 zCDP rho charged so far. Private: for the ledger only."""
        return self._spent.clone()

    def __repr__(self) -> str:
        return "IndividualFilter()"

    def _accept(self, ranges: torch.Tensor) -> torch.Tensor:
        if ranges.shape != self._limits.shape:
            # The sizes stay out of the message: the number of experts is private.
            raise ConfigurationError("ranges must have one entry for each limit")
        return ranges.detach().to(self._limits)


class FixedFilter:
    """One public budget that pays a fixed cost for each token.

    Sums are exact (rational), so ``n`` costs of ``budget / n`` never fail on a rounding error
    that exact arithmetic would not have.

    Args:
        budget: zCDP rho of the answer, 0 or more and finite.

    Raises:
        ConfigurationError: ``budget`` is negative or not finite.
    """

    def __init__(self, budget: float) -> None:
        self._budget = _exact("budget", budget)
        self._spent = Fraction(0)

    def can_pay(self, cost: float) -> bool:
        """Whether the budget covers ``cost`` more."""
        return self._spent + _exact("cost", cost) <= self._budget

    def charge(self, cost: float) -> None:
        """Spend ``cost``, before the token is drawn.

        Raises:
            DPICLError: The budget does not cover it. Ask ``can_pay`` first.
        """
        if not self.can_pay(cost):
            raise DPICLError("internal error: a charge passed its budget; nothing was released")
        self._spent += _exact("cost", cost)

    @property
    def spent(self) -> float:
        """Rho charged so far, rounded up and at most the budget."""
        value = float(self._spent)
        return value if value >= self._spent else math.nextafter(value, math.inf)

    @property
    def remaining(self) -> float:
        """Rho left, rounded down."""
        left = self._budget - self._spent
        value = float(left)
        return value if value <= left else math.nextafter(value, 0.0)

    def __repr__(self) -> str:
        return "FixedFilter()"


def _exact(name: str, value: float) -> Fraction:
    if math.isinf(_check.non_negative(name, value)):
        raise ConfigurationError(f"{name} must be finite")
    return Fraction(value)
