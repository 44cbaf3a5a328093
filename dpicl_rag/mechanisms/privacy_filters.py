"""Privacy filters: an answer pays the same for every token, or each unit for what it revealed.

zCDP is additive under adaptive choice as long as the sum stays within a bound fixed beforehand,
also for each unit by itself (Feldman, Zrnic 2021, "Individual Privacy Accounting via a Renyi
Filter", section 4). Where all that is paid for is Gaussian noise on counts, rho is mu^2 / 2, and
the same filters are GDP filters (docs/privacy.md, "Budgets for Gaussian noise"). Both settle with
the ledger, where there is one, before a token is released. Spend of a unit is private: nothing here
prints it, and no error carries it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Protocol

import torch

from dpicl_rag import _validate
from dpicl_rag.errors import ConfigurationError, DPICLError
from dpicl_rag.ledger import Account
from dpicl_rag.mechanisms.discrete_noise import rounded_up

_RANGE_MARGIN = 1e-12
"""Relative margin on a range that is scaled down, for the rounding of a few float64 operations."""

_PASSED = "internal error: a charge passed its budget; nothing was released"

_SUM_MARGIN = 1e-9
"""Share of a limit that is never spent: float64 sums of millions of charges stay true to it."""


class PrivacyFilter(Protocol):
    """Pays for the draws of one answer."""

    @property
    def rho(self) -> float:
        """Rho of zCDP charged so far: a bound that holds for every unit. Public."""
        ...

    def can_pay(self) -> bool:
        """Cover for one more draw. Depends on public numbers only."""
        ...

    def weigh(self, ranges: Callable[[], torch.Tensor]) -> torch.Tensor | None:
        """Weights of the experts in the next draw. Nothing is charged yet.

        Args:
            ranges: Computes lambda times each expert's realised range, float64 [n]; called only
                where the charge depends on them.

        Returns:
            Factor on each expert, float64 [n], or None for one each.
        """
        ...

    def pay(self) -> None:
        """Charge the draw that was weighed and make the charge durable. Call it before the draw."""
        ...

    def pay_aside(self, rho: float, counted: torch.Tensor) -> torch.Tensor:
        """Charge one count from what was set aside for counts, durably.

        Args:
            rho: What it costs a unit that is counted.
            counted: Which experts are to be counted, bool [n].

        Returns:
            Which of them can pay, and are counted.
        """
        ...


class AnswerFilter(PrivacyFilter, Protocol):
    """Pays for counts of votes, too."""

    def can_count(self, rho: float) -> bool:
        """Cover for a count of votes at this price. Depends on public numbers only."""
        ...

    def pay_votes(self, rho: float, voting: torch.Tensor, delta: float) -> torch.Tensor:
        """Charge one count of votes, durably. Call it before the count is drawn.

        Args:
            rho: What it costs a unit that votes.
            voting: Which experts would vote, bool [n]. Private.
            delta: What its threshold costs.

        Returns:
            Which of them can pay, and are counted.
        """
        ...


class FixedFilter:
    """One public budget; every draw costs the same, whatever the experts say.

    Sums are exact (rational), so ``n`` costs of ``budget / n`` never fail on a rounding error
    that exact arithmetic would not have.

    Args:
        budget: zCDP rho of the answer, 0 or more and finite.
        cost: zCDP rho of one draw, for its worst case.
        account: Is charged for every draw and count, if there is one.
        search_rho: zCDP rho that the search has cost already.
        aside: zCDP rho that draws leave for counts, see `pay_aside`.

    Raises:
        ConfigurationError: A number is negative or not finite.
    """

    def __init__(
        self,
        budget: float,
        cost: float,
        account: Account | None = None,
        *,
        search_rho: float = 0.0,
        aside: float = 0.0,
    ) -> None:
        self._budget = Fraction(_validate.finite("budget", budget))
        self._cost = Fraction(_validate.finite("cost", cost))
        self._account = account
        self._spent = Fraction(_validate.finite("search_rho", search_rho))
        self._aside = Fraction(_validate.finite("aside", aside))

    def __repr__(self) -> str:
        return "FixedFilter()"

    @property
    def rho(self) -> float:
        """Rho charged so far, rounded up and at most the budget."""
        return rounded_up(self._spent)

    def can_pay(self) -> bool:
        """Cover of the budget for one more draw."""
        return self._spent + self._cost + self._aside <= self._budget

    def weigh(self, ranges: Callable[[], torch.Tensor]) -> torch.Tensor | None:
        """None: every expert counts in full."""
        return None

    def pay(self) -> None:
        """Charge one draw.

        Raises:
            DPICLError: The budget does not cover it; nothing may be released.
        """
        if not self.can_pay():
            raise DPICLError(_PASSED)
        self._charge(self._cost, drawn=True)

    def pay_aside(self, rho: float, counted: torch.Tensor) -> torch.Tensor:
        """Charge a count to every unit, whether it is counted or not."""
        cost = Fraction(rho)
        if cost > self._aside or self._spent + self._aside > self._budget:
            raise DPICLError(_PASSED)
        self._aside -= cost
        self._charge(cost)
        return counted

    def can_count(self, rho: float) -> bool:
        """Cover of the budget beside what is set aside."""
        return self._spent + Fraction(rho) + self._aside <= self._budget

    def pay_votes(self, rho: float, voting: torch.Tensor, delta: float) -> torch.Tensor:
        """Charge every unit, whether it votes or not.

        Raises:
            DPICLError: The budget does not cover it; nothing may be released.
        """
        if not self.can_count(rho):
            raise DPICLError(_PASSED)
        self._charge(Fraction(rho), delta)
        return voting

    def _charge(self, cost: Fraction, delta: float = 0.0, *, drawn: bool = False) -> None:
        self._spent += cost
        if self._account is not None:
            self._account.pay(float(cost), delta=delta, drawn=drawn)


class IndividualFilter:
    """Each unit pays ``(w * lambda * range)^2 / 8`` of zCDP for its own realised range.

    Sound where a unit's presence changes no expert but its own, under add-or-remove adjacency
    (``stability.require_individual``). A unit's weight depends on its own utilities and on
    released tokens only, so it tells nothing about other units. An expert whose unit has spent
    its share falls silent without notice. No charge raises: an error that one unit can cause
    would reveal it, so an expert whose charge could not be covered is silent too.

    Args:
        limits: zCDP rho that the unit of each expert may spend from here on, 0 or more [n].
        bound: zCDP rho that no unit may pass in this answer. Public.
        worst: zCDP rho of one draw for an expert that uses its whole range. Public.
        search_rho: zCDP rho that the search cost any unit at most. Public.
        aside: zCDP rho that draws leave for counts. Public. A unit that has less left takes
            part in neither.
        account: Is charged for every draw and count, if there is one.
        places: Of each expert's unit among the units of the account.

    Raises:
        ConfigurationError: ``limits`` is not one-dimensional, or not finite and 0 or more.
    """

    def __init__(
        self,
        limits: torch.Tensor,
        *,
        bound: float,
        worst: float,
        search_rho: float = 0.0,
        aside: float = 0.0,
        account: Account | None = None,
        places: Sequence[int] = (),
    ) -> None:
        limits = limits.detach().to(torch.float64)
        if limits.ndim != 1:
            raise ConfigurationError("limits must have one dimension")
        if not bool((torch.isfinite(limits) & (limits >= 0)).all()):
            raise ConfigurationError("limits must be finite and 0 or more")
        self._able = limits >= aside
        self._limits = (limits - aside).clamp_min_(0.0)
        self._spent = torch.zeros_like(self._limits)
        self._weighed: torch.Tensor | None = None
        self._draws = 0
        self._bound = bound
        self._worst = worst
        self._search_rho = search_rho
        self._aside, self._aside_paid, self._votes_paid = aside, 0.0, 0.0
        self._account = account
        self._places = places

    def __repr__(self) -> str:
        return "IndividualFilter()"

    @property
    def rho(self) -> float:
        """The charge so far at its worst, up to the bound; for every unit."""
        beside = self._search_rho + self._aside_paid + self._votes_paid
        return min(beside + self._draws * self._worst, self._bound)

    @property
    def spent(self) -> torch.Tensor:
        """``[n]`` float64 zCDP rho that draws were charged so far. Private."""
        return self._spent.clone()

    def can_pay(self) -> bool:
        """Always: an expert whose unit has nothing left is silent, which costs nothing."""
        return True

    def weigh(self, ranges: Callable[[], torch.Tensor]) -> torch.Tensor | None:
        """Scale each expert to what its unit has left."""
        realised = self._accept(ranges())
        weights = self.weights(realised)
        # Where the weight is 0 the range may be no number.
        self._weighed = torch.where(weights > 0, weights * realised, 0.0)
        return weights

    def pay(self) -> None:
        """Charge every unit for its weighted range."""
        assert self._weighed is not None
        self._draws += 1
        charges, self._weighed = self.charge(self._weighed), None
        self._commit(self._worst, charges, drawn=True)

    def pay_aside(self, rho: float, counted: torch.Tensor) -> torch.Tensor:
        """Charge the units that are counted: one that is not moves the count by nothing.

        Raises:
            DPICLError: It was not set aside; nothing may be released.
        """
        if Fraction(self._aside_paid) + Fraction(rho) > Fraction(self._aside):
            raise DPICLError(_PASSED)
        self._aside_paid += rho
        able = counted & self._able.to(counted.device)
        # As float64: a bool times a float is a float32, which may pass a limit.
        self._commit(rho, able.double() * rho)
        return able

    def can_count(self, rho: float) -> bool:
        """Cover by any unit ever. One that cannot pay does not vote, which costs nothing."""
        return rho <= self._bound

    def pay_votes(self, rho: float, voting: torch.Tensor, delta: float) -> torch.Tensor:
        """Charge the units that vote and can pay: one that does not moves no count."""
        self._votes_paid += rho
        spent = self._spent.cpu()
        able = voting & (spent + rho <= self._limits.cpu() * (1 - _SUM_MARGIN))
        charges = able.double() * rho
        self._spent = (spent + charges).to(self._spent.device)
        self._commit(rho, charges, delta)
        return able

    def _commit(
        self, most: float, charges: torch.Tensor, delta: float = 0.0, *, drawn: bool = False
    ) -> None:
        if self._account is not None:
            self._account.pay(most, charges.tolist(), self._places, delta=delta, drawn=drawn)

    @torch.no_grad()
    def weights(self, ranges: torch.Tensor) -> torch.Tensor:
        """Scale for each expert: as near to 1 as its unit can pay for.

        Args:
            ranges: ``[n]``, lambda times the range of each expert's utility over the candidates,
                0 or more.

        Returns:
            ``[n]`` float64 in [0, 1] with ``(weight * range)^2 / 8`` at most what is left, and at
            most the public price of a draw; 0 where the range is no such number.
        """
        ranges = self._accept(ranges)
        left = (self._limits * (1 - _SUM_MARGIN) - self._spent).clamp(0.0, self._worst)
        scaled = (8 * left).sqrt() * (1 - _RANGE_MARGIN) / ranges
        weights = torch.where(_price(ranges) <= left, 1.0, scaled)
        # NaN fails both comparisons.
        covered = (_price(weights * ranges) <= left) & (ranges >= 0)
        return torch.where(covered, weights, 0.0)

    @torch.no_grad()
    def charge(self, ranges: torch.Tensor) -> torch.Tensor:
        """Charge every unit ``range^2 / 8`` of zCDP, before the token is drawn.

        Args:
            ranges: ``[n]``, lambda times each utility's range after weighting.

        Returns:
            ``[n]`` float64 charges.
        """
        charges = _price(self._accept(ranges))
        self._spent = self._spent + charges
        return charges

    def _accept(self, ranges: torch.Tensor) -> torch.Tensor:
        if ranges.shape != self._limits.shape:
            # The sizes stay out of the message: the number of experts is private.
            raise ConfigurationError("ranges must have one entry for each limit")
        if ranges.device != self._limits.device:
            # The engine's device is known with its first step.
            self._limits = self._limits.to(ranges.device)
            self._spent = self._spent.to(ranges.device)
        return ranges.detach().to(self._limits)


def privacy_filter(
    account: Account,
    places: Sequence[int],
    worst: float,
    *,
    most: float | None = None,
    search_rho: float = 0.0,
    aside: float = 0.0,
) -> AnswerFilter:
    """The filter by which experts pay from an account.

    Args:
        account: Opened for units that pay each for itself, or for all alike.
        places: Of each expert's unit among the units of the account; nothing where all pay alike.
        worst: zCDP rho of one draw at its worst. Public.
        most: What no unit may pass in these draws; None is all that the account has. Public.
        search_rho: zCDP rho that a search has cost any unit at most already. Public.
        aside: zCDP rho that draws leave for counts. Public.
    """
    bound = account.rho if most is None else most
    if account.individual:
        return IndividualFilter(
            torch.tensor(account.left(places, bound), dtype=torch.float64),
            bound=bound,
            worst=worst,
            search_rho=search_rho,
            aside=aside,
            account=account,
            places=places,
        )
    return FixedFilter(bound, worst, account, search_rho=search_rho, aside=aside)


def _price(ranges: torch.Tensor) -> torch.Tensor:
    """Costs of bounded ranges, zCDP rho."""
    return ranges.square() / 8
