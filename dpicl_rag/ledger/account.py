"""The account of a release: what it may cost any unit, who pays, and what each unit has left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from typing import TYPE_CHECKING

from dpicl_rag.errors import ConfigurationError, DPICLError, StoppedError

if TYPE_CHECKING:
    from dpicl_rag.ledger.ledger import Ledger
    from dpicl_rag.ledger.reservation import Reservation

AroundPayment = Callable[[], AbstractContextManager[None]]
"""Entered around each payment; where that raises, nothing is paid."""


class Account:
    """A bound on the cost of one release or run, and the ledger's hold on it, if there is one.

    Made by `open_account`; use it as a context manager, or call `close`. What was not paid by then
    goes back. Under individual accounting it knows what every unit has left. That is private: it
    follows from the unit's own spend and from public numbers, as a privacy filter needs, and is in
    no error and no repr.

    Args:
        rho: zCDP rho that no unit may pass, where no ledger says less.
        units: How many units pay, each for itself; None where all pay the same.
        reservation: The ledger's hold.
        gaussian: Whether it pays for Gaussian noise alone.
        paying: Entered around each payment.

    Attributes:
        rho: The bound. Public.
    """

    def __init__(
        self,
        rho: float,
        units: int | None = None,
        reservation: Reservation | None = None,
        *,
        gaussian: bool = False,
        paying: AroundPayment = nullcontext,
    ) -> None:
        self._gaussian = gaussian
        self._paying = paying
        self.rho = rho if reservation is None else reservation.rho
        self._reservation = reservation
        self._paid = Fraction(0)
        limits = None if reservation is None else reservation.limits
        self._left: list[float] | None = None
        if units is not None:
            self._left = [rho] * units if limits is None else list(limits)
        self._members: list[bool] = []

    def __repr__(self) -> str:
        return f"Account(rho={self.rho:g})"

    @property
    def individual(self) -> bool:
        """Individual accounting: each unit pays for itself."""
        return self._left is not None

    @property
    def remaining(self) -> float | None:
        """Rest that the ledger still holds, zCDP rho; None without its hold. Public."""
        return None if self._reservation is None else self._reservation.remaining

    def pays_thresholds(self, delta: float) -> bool:
        """Cover for thresholds that cost so much, as far as a ledger counts it. Public."""
        return self._reservation is None or self._reservation.holds_delta(delta)

    def left(self, places: Sequence[int], most: float) -> list[float]:
        """Remaining budgets of units from here on, zCDP rho. Private.

        Args:
            places: Of the units, in the order in which the account was opened for them.
            most: No unit may spend more. Public.
        """
        assert self._left is not None
        return [min(most, max(0.0, self._left[place])) for place in places]

    def able(self, rho: float) -> list[bool]:
        """Flags of the units that can pay so much. Private."""
        assert self._left is not None
        return [left >= rho for left in self._left]

    def pay_alike(self, members: Sequence[bool]) -> None:
        """Have some units pay alike from here on, where no payment names its units. Private."""
        self._members = list(members)

    def pay(
        self,
        rho: float,
        unit_rho: Sequence[float] | None = None,
        places: Sequence[int] | None = None,
        *,
        delta: float = 0.0,
        drawn: bool = False,
    ) -> None:
        """Charge what is about to be released. Where there is a ledger, it is on the disk then.

        Args:
            rho: What it costs any unit at most. Public.
            unit_rho: What it costs each unit, under individual accounting; None where some pay
                alike, see `pay_alike`. Private.
            places: Of the units that ``unit_rho`` names; None where it names all.
            delta: What a threshold costs. Public.
            drawn: It is a draw, whose noise is not Gaussian.

        Raises:
            BudgetExceededError: See `Reservation.commit`, also for the other errors.
            DPICLError: A draw from an account for Gaussian noise alone; nothing may be released.
        """
        if drawn and self._gaussian:
            raise DPICLError("internal error: a draw is no Gaussian noise; nothing was released")
        charges = None if self._left is None else [0.0] * len(self._left)
        if charges is not None:
            if unit_rho is None:
                unit_rho = [rho if member else 0.0 for member in self._members]
            paying = range(len(charges)) if places is None else places
            for place, cost in zip(paying, unit_rho, strict=True):
                charges[place] = cost
        with self._paying():
            if self._reservation is not None:
                self._reservation.commit(rho, charges, delta=delta)
        self._paid += Fraction(rho)
        if self._left is not None:
            self._left = [left - cost for left, cost in zip(self._left, charges or (), strict=True)]

    def require(self, rho: float, what: str, remedy: str) -> None:
        """Raise where no unit could ever pay a public price: no error would say why later.

        Raises:
            ConfigurationError: The ledger's budget of a unit is below the price.
        """
        if self._reservation is not None and self._left is not None and self.rho < rho:
            raise ConfigurationError(
                f"{what} a unit rho {rho:.4g}, and the ledger's budget lets a unit spend "
                f"{self.rho:.4g}; raise the corpus's unit budget with `dpicl-rag budget set`, or "
                f"{remedy}"
            )

    def close(self) -> None:
        """Give back what was not paid. May be called again."""
        if self._reservation is not None:
            self._reservation.close()

    def __enter__(self) -> Account:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, StoppedError):
            error.rho = float(self._paid)
        self.close()


def open_account(
    ledger: Ledger | None,
    *,
    corpus: str,
    rho: float,
    at_least: float | None = None,
    delta: float = 0.0,
    units: Sequence[str] | None = None,
    caller: str | None = None,
    source: str | None = None,
    unit_field: str | None = None,
    gaussian: bool = False,
    paying: AroundPayment = nullcontext,
) -> Account:
    """Open an account; arguments and errors are those of `Ledger.reserve`.

    Args:
        ledger: Who holds the budget; without one the account is bounded by ``rho`` alone.
        corpus: Whose budget.
        rho: The most that the release may cost any unit. Public.
        at_least: Take what is left if it is less than ``rho``, but at least this.
        delta: What thresholds may cost, see `Ledger.reserve`. Public.
        units: Units that pay, each for itself; None where all pay the same. Private.
        caller: Who asks, for budgets per caller.
        source: Name of the corpus that the documents are from.
        unit_field: Field of their unit, of a store that is read by one. Public.
        gaussian: All that it will pay for is Gaussian noise on whole numbers.
        paying: See `Account`.
    """
    reservation = None
    if ledger is not None:
        reservation = ledger.reserve(
            corpus=corpus,
            caller=caller,
            rho=rho,
            at_least=at_least,
            delta=delta,
            units=units,
            source=source,
            unit_field=unit_field,
            gaussian=gaussian,
        )
    many = None if units is None else len(units)
    return Account(rho, many, reservation, gaussian=gaussian, paying=paying)
