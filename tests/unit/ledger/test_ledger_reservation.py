"""The life of a reservation: threads, collection, dead owners."""

from __future__ import annotations

import gc
import pickle
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dpicl_rag.errors import BudgetExceededError, LedgerError
from dpicl_rag.ledger import Ledger
from tests.support.fresh_python import run_python

LEAVE_ONE_OPEN = """
import os, sys
from dpicl_rag.ledger import Ledger
ledger = Ledger(sys.argv[1])
reservation = ledger.reserve(corpus="mail", rho=0.6, units=["a", "b"])
reservation.commit(0.2, [0.1, 0.2])
os._exit(0)  # nothing is closed
"""


def amounts(ledger: Ledger) -> tuple[float, float]:
    status = ledger.status()[0]
    return status.spent, status.reserved


def test_an_exception_gives_the_rest_back(ledger: Ledger) -> None:
    def answer() -> None:
        with ledger.reserve(corpus="mail", rho=0.6) as reservation:
            reservation.commit(0.2)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        answer()
    assert amounts(ledger) == (0.2, 0.0)


def test_a_generator_closed_midway_gives_the_rest_back(ledger: Ledger) -> None:
    def stream() -> Any:
        with ledger.reserve(corpus="mail", rho=0.6) as reservation:
            while True:
                reservation.commit(0.1)
                yield "token"

    tokens = stream()
    next(tokens), next(tokens)
    tokens.close()
    assert amounts(ledger) == (0.2, 0.0)


def test_a_forgotten_reservation_gives_back_when_it_is_collected(ledger: Ledger) -> None:
    reservation = ledger.reserve(corpus="mail", rho=0.6)
    reservation.commit(0.2)
    del reservation
    gc.collect()
    assert amounts(ledger) == (0.2, 0.0)


def test_collection_inside_a_transaction_waits_for_the_next_one(ledger: Ledger) -> None:
    reservation = ledger.reserve(corpus="mail", rho=0.6)

    def inside(connection: sqlite3.Connection) -> None:
        nonlocal reservation
        del reservation

    ledger._database.write(inside)
    assert amounts(ledger) == (0.0, 0.6)
    assert ledger.settle_stale() == 0
    assert amounts(ledger) == (0.0, 0.0)


def test_a_closed_reservation_stays_closed(ledger: Ledger) -> None:
    reservation = ledger.reserve(corpus="mail", rho=0.6)
    reservation.commit(0.2)
    reservation.close()
    reservation.close()
    with pytest.raises(LedgerError, match="closed"):
        reservation.commit(0.1)
    assert amounts(ledger) == (0.2, 0.0)
    assert reservation.committed == 0.2


def test_a_reservation_cannot_be_pickled(ledger: Ledger) -> None:
    with pytest.raises(TypeError):
        pickle.dumps(ledger.reserve(corpus="mail", rho=0.6, units=["a"]))


def test_eight_threads_never_overspend_and_use_the_budget_up(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=0.5)

    def work(_: int) -> int:
        released = 0
        try:
            while True:
                with ledger.reserve(corpus="mail", rho=0.01, at_least=0.001) as reservation:
                    for _ in range(min(3, round(reservation.rho / 0.001))):
                        reservation.commit(0.001)
                        released += 1
        except BudgetExceededError:
            return released

    with ThreadPoolExecutor(8) as pool:
        released = sum(pool.map(work, range(8)))
    spent, reserved = amounts(ledger)
    assert (round(spent, 9), reserved) == (round(released * 0.001, 9), 0.0)
    assert 0.49 <= spent <= 0.5


def test_threads_may_share_a_reservation(ledger: Ledger) -> None:
    with ledger.reserve(corpus="mail", rho=1.0, units=["a"]) as reservation:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: reservation.commit(0.01, [0.005]), range(80)))
        assert reservation.committed == 0.8
    ledger.set_budget(corpus="mail", rho=1.0)
    with ledger.reserve(corpus="mail", rho=1.0, units=["a"]) as reservation:
        assert reservation.limits == [0.6]


def test_opening_settles_what_a_dead_process_held(path: Path) -> None:
    run_python(LEAVE_ONE_OPEN, path)
    with Ledger(path) as ledger:
        assert amounts(ledger) == (0.2, 0.0)
        ledger.set_budget(corpus="mail", rho=1.0)
        with ledger.reserve(corpus="mail", rho=1.0, units=["a", "b"]) as reservation:
            assert reservation.limits == [0.9, 0.8]


def test_reserving_settles_what_a_dead_process_held(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.set_budget(corpus="mail", rho=1.0)
        run_python(LEAVE_ONE_OPEN, path)
        assert amounts(ledger) == (0.2, 0.4)
        with ledger.reserve(corpus="mail", rho=0.8) as reservation:
            assert reservation.rho == 0.8
        assert amounts(ledger) == (0.2, 0.0)


def test_settling_counts_the_answers(path: Path) -> None:
    with Ledger(path) as ledger:
        assert ledger.settle_stale() == 0
        run_python(LEAVE_ONE_OPEN, path)
        run_python(LEAVE_ONE_OPEN, path)  # settles the first
        assert ledger.settle_stale() == 1


def test_a_running_answer_is_never_settled_while_its_process_can_be_seen(
    path: Path, clock: Any
) -> None:
    with Ledger(path, clock=clock) as ledger:
        reservation = ledger.reserve(corpus="mail", rho=0.6)
        clock.pass_days(1000)
        with Ledger(path, clock=clock) as other:
            assert other.settle_stale() == 0
        reservation.commit(0.2)


@pytest.mark.parametrize("days", [1, -1])
def test_an_owner_out_of_sight_is_settled_after_a_while_and_cannot_release_more(
    path: Path, clock: Any, days: int
) -> None:
    with Ledger(path, clock=clock, stale_after=600) as ledger:
        reservation = ledger.reserve(corpus="mail", rho=0.6)
        reservation.commit(0.2)
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE reservation SET machine = 'another container'")
        connection.close()
        clock.now += 500
        assert ledger.settle_stale() == 0
        reservation.commit(0.1)  # shows that it is alive
        clock.now += 500
        assert ledger.settle_stale() == 0
        clock.pass_days(days)
        assert ledger.settle_stale() == 1
        with pytest.raises(LedgerError, match="stale"):
            reservation.commit(0.1)
        reservation.close()
        spent, reserved = amounts(ledger)
        assert (spent, reserved) == (pytest.approx(0.3), 0.0)
