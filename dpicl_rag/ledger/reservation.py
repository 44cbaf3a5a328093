"""One answer's hold on its budgets."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from fractions import Fraction

from dpicl_rag import _validate
from dpicl_rag.errors import ConfigurationError, LedgerError
from dpicl_rag.files.database import Database, is_held_here
from dpicl_rag.ledger import entries
from dpicl_rag.ledger.budgets import refused
from dpicl_rag.ledger.entries import Grant
from dpicl_rag.ledger.fixed_point import charge, exact, exact_delta, to_delta, to_rho

Settle = Callable[[int, bool], None]
"""Settles a reservation by number; the flag says whether waiting for a lock is allowed."""


class Reservation:
    """The budget held for one answer. Made by `Ledger.reserve`; use it as a context manager.

    Call `commit` before each token (or block of tokens) is released, never after. Whatever was not
    committed is given back on `close`, on leaving the ``with`` block, when the object is collected,
    and, should the process die, by the next process that uses the ledger.

    Threads may share it. A forked child may not: there `commit` raises and `close` does nothing.
    """

    def __init__(
        self,
        database: Database,
        settle: Settle,
        clock: Callable[[], float],
        number: int,
        *,
        individual: bool,
    ) -> None:
        self._database = database
        self._settle = settle
        self._clock = clock
        self._number = number
        self._individual = individual
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._open = True
        self._usable = True
        self._grant = Grant(0, 0, (), ())
        # Totals, rho in 2^-120; only totals are rounded. See fixed_point.py.
        self._delta = Fraction()
        self._total = 0
        self._unit_totals: list[int] = []

    def _start(self, grant: Grant) -> None:
        self._grant = grant
        self._unit_totals = [0] * len(grant.units)

    @property
    def rho(self) -> float:
        """The bound on this answer, zCDP rho. Public. Less than asked for if it is partial."""
        return to_rho(self._grant.held)

    @property
    def delta(self) -> float:
        """Delta for thresholds of this answer: all that was asked for, or 0. Public."""
        return to_delta(self._grant.delta)

    def holds_delta(self, delta: float) -> bool:
        """Cover for thresholds of this answer that cost so much. Public.

        Both are whole numbers of 10^-18: a float may be above or below what was held for it.
        """
        return exact_delta(delta) <= self._grant.delta

    @property
    def committed(self) -> float:
        """The bound on what released tokens have cost any one unit so far, zCDP rho. Public."""
        return to_rho(min(charge(self._total), self._grant.held))

    @property
    def remaining(self) -> float:
        """``rho - committed``. Public."""
        return to_rho(self._grant.held - min(charge(self._total), self._grant.held))

    @property
    def limits(self) -> list[float] | None:
        """The most each unit may spend in this answer, zCDP rho, in the order of ``units``.

        **Private**: 0 for a unit whose lifetime budget is used up. Feed it to the filter of the
        mechanism and show it to nobody. None under fixed accounting.
        """
        if not self._individual:
            return None
        return [to_rho(amount) for amount in self._grant.unit_holds]

    def commit(
        self, rho: float, unit_rho: Sequence[float] | None = None, *, delta: float = 0.0
    ) -> None:
        """Pay for a token that is about to be released. It is on the disk when this returns.

        Release the token only if this returns. If it raises, end the answer: the token may have
        been paid for, but nobody has seen it.

        Args:
            rho: zCDP rho of the token, public. Under individual accounting a bound that holds for
                every unit; the sum over the answer is charged up to the answer's own bound.
            unit_rho: Under individual accounting what the token costs each unit, zCDP rho, in the
                order of ``units``; shape (units,). Private. Else None.
            delta: What a threshold costs, public.

        Raises:
            BudgetExceededError: The sum under fixed accounting is above what is reserved.
            ConfigurationError: A number is not a charge; thresholds cost more than is reserved;
                ``unit_rho`` does not fit the accounting; a unit would pass its limit, or pay more
                than the public ``rho`` so far.
            LedgerError: The reservation is closed or was settled as stale, or the file failed.
        """
        if self._pid != os.getpid():  # the lock may be that of a thread which is not here
            raise LedgerError("a reservation cannot be used after a fork; reserve in the child")
        if is_held_here(self._lock):
            raise LedgerError("this reservation is being charged in this very thread; ask again")
        with self._lock:
            if not self._usable:
                raise LedgerError("this reservation is closed or failed to commit; ask again")
            total = self._total + exact("rho", rho)
            if self._individual:
                committed = min(charge(total), self._grant.held)
                unit_totals, changed = self._add_units(unit_rho, committed)
            else:
                if unit_rho is not None:
                    raise ConfigurationError("unit_rho needs a reservation made with units")
                committed = charge(total)
                unit_totals, changed = [], []
                if committed > self._grant.held:
                    step = committed - charge(self._total)
                    left = self._grant.held - charge(self._total)
                    raise refused(step, left, "this answer")
            total_delta = self._delta + Fraction(_validate.finite("delta", delta))
            committed_delta = exact_delta(total_delta)
            if committed_delta > self._grant.delta:
                raise ConfigurationError("thresholds cost more delta than was reserved for them")
            # From here on an exception, Ctrl-C included, may fall before or after the disk has it.
            self._usable = False
            known = self._database.write(
                lambda connection: entries.commit(
                    connection,
                    self._number,
                    committed=committed,
                    unit_totals=changed,
                    delta=None if total_delta == self._delta else committed_delta,
                    now=int(self._clock()),
                )
            )
            if not known:
                raise LedgerError(
                    "this reservation was settled as stale; ask again, with a larger stale_after"
                )
            self._total, self._unit_totals = total, unit_totals
            self._delta = total_delta
            self._usable = self._open

    def close(self) -> None:
        """Give back what was not committed. May be called again; never raises `LedgerError`.

        If the file cannot be written now, the ledger settles the reservation at its next chance.
        """
        # No lock is waited for: it may be called inside `commit`, where garbage is collected, and
        # a `commit` elsewhere is before this in the file or finds nothing to charge.
        if self._open and self._pid == os.getpid():
            self._usable = False
            self._settle(self._number, True)
            self._open = False

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        # Runs wherever the collector happens to run, perhaps inside a transaction: never wait.
        if getattr(self, "_open", False) and self._pid == os.getpid():
            self._settle(self._number, False)

    def __repr__(self) -> str:
        kind = "individual" if self._individual else "fixed"
        return f"Reservation({kind}, rho={self.rho:g}, committed={self.committed:g})"

    def _add_units(
        self, unit_rho: Sequence[float] | None, committed: int
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """New totals of all units, and number and rounded total of those that changed."""
        try:
            charges = [] if unit_rho is None else list(unit_rho)
        except TypeError:
            charges = []
        if unit_rho is None or len(charges) != len(self._grant.units):
            raise ConfigurationError("unit_rho must give one charge for each unit reserved")
        totals = [
            total + exact("unit_rho", amount)
            for total, amount in zip(self._unit_totals, charges, strict=True)
        ]
        changed: list[tuple[int, int]] = []
        for number, before, after, held in zip(
            self._grant.units, self._unit_totals, totals, self._grant.unit_holds, strict=True
        ):
            if after == before:
                continue
            amount = charge(after)
            if amount > held:
                raise ConfigurationError("a unit was charged beyond its limit; filter by limits")
            if amount > committed:
                raise ConfigurationError("a unit was charged more than the public rho")
            changed.append((number, amount))
        return totals, changed
