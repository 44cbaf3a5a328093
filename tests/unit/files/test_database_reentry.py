"""A thread that comes into its own transaction again: it never waits for itself."""

from __future__ import annotations

import gc
import os
import sqlite3
import threading
from pathlib import Path

import pytest

from dpicl_rag.errors import LedgerError
from dpicl_rag.ledger import Ledger, entries
from tests.support.fresh_python import run_python


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        opened.set_budget(corpus="mail", rho=1.0)
        yield opened


def ends(work):
    """What work returns, or the error; it must end, in its thread."""
    found = []

    def run():
        try:
            found.append(work())
        except LedgerError as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20.0)
    assert found, "it waits for itself"
    return found[0]


def inside(ledger, work):
    """Do work inside a transaction that writes."""

    def action(connection: sqlite3.Connection):
        connection.execute("UPDATE ledger SET checks = checks + 1")
        return work()

    return ends(lambda: ledger._database.write(action))


def amounts(ledger):
    (status,) = ledger.status()
    return status.spent, status.reserved


def left(stream):
    """A generator that has begun, and that only the garbage collector can end."""
    cycle = [stream]
    next(stream)
    cycle.append(cycle)


@pytest.mark.parametrize(
    "work",
    [
        lambda ledger: ledger.check(),
        lambda ledger: ledger.status(),
        lambda ledger: ledger._database.flush(),
        lambda ledger: ledger.reserve(corpus="mail", rho=0.1),
    ],
    ids=["write", "read", "flush", "reserve"],
)
def test_what_comes_in_again_is_told_so_at_once(ledger, work):
    found = inside(ledger, lambda: work(ledger))
    assert "of this very thread" in str(found)
    assert ends(lambda: amounts(ledger)) == (0.0, 0.0)


def test_what_is_caught_inside_spoils_no_transaction(ledger):
    def work():
        with pytest.raises(LedgerError, match="of this very thread"):
            ledger.check()
        return "done"

    checks = "SELECT checks FROM ledger"
    before = ledger._database.read(lambda c: c.execute(checks).fetchone())
    assert inside(ledger, work) == "done"
    assert ledger._database.read(lambda c: c.execute(checks).fetchone()) == (before[0] + 1,)


def test_a_close_inside_a_transaction_is_done_at_its_end(ledger):
    assert inside(ledger, ledger.close) is None
    assert not ledger._database._open
    assert "closed" in str(ends(ledger.status))


def test_a_generator_that_is_collected_inside_a_transaction_gives_back_at_the_next(ledger):
    def stream():
        with ledger.reserve(corpus="mail", rho=0.5) as reservation:
            reservation.commit(0.25)
            yield

    gc.disable()
    left(stream())
    inside(ledger, gc.collect)
    gc.enable()
    assert amounts(ledger) == (0.25, 0.25)
    ledger.settle_stale()
    assert amounts(ledger) == (0.25, 0.0)


def test_a_reservation_that_is_closed_inside_its_own_commit_is_charged_and_ends(
    ledger, monkeypatch
):
    reservation = ledger.reserve(corpus="mail", rho=0.5)

    def stream():
        with reservation:
            yield

    def collecting(*args, **options):
        gc.collect()
        return commit(*args, **options)

    commit = entries.commit
    monkeypatch.setattr(entries, "commit", collecting)
    gc.disable()
    left(stream())
    assert ends(lambda: reservation.commit(0.25)) is None
    gc.enable()
    assert "is closed" in str(ends(lambda: reservation.commit(0.25)))
    ledger.settle_stale()
    assert amounts(ledger) == (0.25, 0.0)


def test_a_charge_inside_a_charge_is_refused_and_neither_is_lost(ledger):
    """Both start from the same sum: the second would take the first one's place."""
    reservation = ledger.reserve(corpus="mail", rho=0.5)

    class Charge(float):
        def __float__(self):
            if not inner:
                inner.append(ends_here(lambda: reservation.commit(0.125)))
            return 0.25

    def ends_here(work):
        try:
            return work()
        except LedgerError as error:
            return error

    inner = []
    ends(lambda: reservation.commit(Charge(0.25)))
    assert "in this very thread" in str(inner[0])
    reservation.close()
    assert amounts(ledger) == (0.25, 0.0)


@pytest.mark.skipif(os.name != "posix", reason="needs a signal")
def test_a_signal_handler_that_asks_is_told_and_the_transaction_goes_on(tmp_path):
    told = run_python(
        """
        import faulthandler, os, signal, sys
        from dpicl_rag.errors import LedgerError
        from dpicl_rag.ledger import Ledger

        def handle(*_):
            try:
                ledger.status()
            except LedgerError as error:
                print(error)

        def work(connection):
            os.kill(os.getpid(), signal.SIGUSR1)
            return "done"

        faulthandler.dump_traceback_later(20, exit=True)
        signal.signal(signal.SIGUSR1, handle)
        with Ledger(sys.argv[1]) as ledger:
            print(ledger._database.write(work))
        """,
        tmp_path / "ledger.sqlite",
    ).stdout
    assert "of this very thread" in told
    assert told.endswith("done\n")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_inside_a_transaction_undoes_it_on_both_sides(tmp_path: Path):
    told = run_python(
        """
        import faulthandler, os, sys
        from dpicl_rag.errors import LedgerError
        from dpicl_rag.ledger import Ledger

        def work(connection):
            connection.execute("UPDATE ledger SET checks = checks + 1")
            children.append(os.fork())

        faulthandler.dump_traceback_later(20, exit=True)
        children = []
        with Ledger(sys.argv[1]) as ledger:
            database = ledger._database
            checks = "SELECT checks FROM ledger"
            read = lambda: database.read(lambda c: c.execute(checks).fetchone())
            before = read()
            try:
                database.write(work)
            except LedgerError as error:
                told = str(error)
            if not children[0]:
                os._exit(0 if "fork" in told and read() == before else 1)
            print(os.waitpid(children[0], 0)[1], "fork" in told, read() == before)
        """,
        tmp_path / "ledger.sqlite",
    ).stdout
    assert told == "0 True True\n"
