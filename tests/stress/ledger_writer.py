"""A process that answers and reports each token it has released; run by test_ledger.py.

Usage: ledger_writer.py PATH CORPUS MODE [FAULT]

Each byte on standard output is one released token of `TOKEN` rho. It is written after the commit
that pays for it has returned; with the fault ``release_first`` before.
"""

from __future__ import annotations

import os
import random
import sys
import time

from dpicl_rag.errors import BudgetExceededError
from dpicl_rag.ledger import Ledger

TOKEN = 1e-6
UNITS = [f"unit {number}" for number in range(20)]


def release() -> None:
    os.write(1, b".")


def answer(ledger: Ledger, corpus: str, individual: bool, fault: str) -> None:
    """One answer of up to 12 tokens, some of them cut short."""
    units = UNITS if individual else None
    with ledger.reserve(
        corpus=corpus, caller=corpus, rho=12 * TOKEN, at_least=TOKEN, units=units
    ) as reservation:
        rooms = [round(limit / TOKEN) for limit in reservation.limits or []]
        for token in range(random.randint(1, 12)):
            if reservation.remaining < TOKEN / 2:
                return
            # What a filter does: a unit without room for the token is silent.
            unit_rho = [TOKEN if token < room else 0.0 for room in rooms]
            if fault == "release_first":
                release()
            reservation.commit(TOKEN, unit_rho if individual else None)
            if fault != "release_first":
                release()


def write_until_killed(ledger: Ledger, corpus: str, fault: str) -> None:
    while True:
        answer(ledger, corpus, random.random() < 0.5, fault)
        time.sleep(random.uniform(0.0, 0.005))  # SQLite is unfair: let others have the lock


def write_until_refused(ledger: Ledger, corpus: str, fault: str) -> None:
    """Stops when the budget is used up and no other process holds a part that it may give back."""
    if fault == "forget_hold":
        from dpicl_rag.ledger.scope import Scope

        honest = Scope.usage
        Scope.usage = (  # type: ignore[method-assign]
            lambda self, connection, day, *, held: honest(self, connection, day, held=False)
        )
    while True:
        try:
            answer(ledger, corpus, False, fault)
        except BudgetExceededError:
            status = next(status for status in ledger.status() if status.name == corpus)
            if status.reserved == 0.0:
                return


def spend_units(ledger: Ledger, corpus: str, _: str) -> None:
    """Individual answers until no unit has anything left, as only a test may look.

    Reports one byte for each token that each unit paid.
    """
    while True:
        with ledger.reserve(corpus=corpus, rho=12 * TOKEN, units=UNITS) as reservation:
            rooms = [round(limit / TOKEN) for limit in reservation.limits or []]
            if not any(rooms):
                return
            for token in range(12):
                unit_rho = [TOKEN if token < room else 0.0 for room in rooms]
                reservation.commit(TOKEN, unit_rho)
                os.write(1, b"." * sum(amount > 0.0 for amount in unit_rho))


def main() -> None:
    path, corpus, mode = sys.argv[1:4]
    fault = sys.argv[4] if len(sys.argv) > 4 else ""
    modes = {"kill": write_until_killed, "race": write_until_refused, "units": spend_units}
    try:
        # SQLite's queue is not a fair one, and a busy machine makes it worse; waiting is no fault.
        with Ledger(path, busy_timeout=300.0) as ledger:
            modes[mode](ledger, corpus, fault)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
