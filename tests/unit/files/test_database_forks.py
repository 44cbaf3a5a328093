"""Forks while other threads open databases, wait for one, or charge."""

from __future__ import annotations

import os
import threading
from contextlib import closing

import pytest

from dpicl_rag.files import database as module
from dpicl_rag.files.database import Database, NamedFile, is_held_here
from dpicl_rag.knowledge.answer_file import MEMORY
from dpicl_rag.ledger.ledger_schema import LEDGER
from tests.support.fresh_python import run_python

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def opened(path):
    database = Database(path, LEDGER, busy_timeout=5.0)
    database.make_ready()
    return database


def test_what_is_opened_during_a_fork_waits_for_its_end(tmp_path):
    """A child would have the connection, and believe that it holds its parent's locks."""
    found = []
    opening = threading.Thread(target=lambda: found.append(opened(tmp_path / "ledger.sqlite")))
    module._before_fork()
    try:
        opening.start()
        opening.join(0.5)
        assert not found
    finally:
        module._after_fork()
    opening.join(20.0)
    found[0].close()


def test_databases_come_and_go_while_others_fork(tmp_path):
    told = run_python(
        """
        import faulthandler, os, sys, threading
        from pathlib import Path
        from dpicl_rag.files import database
        from dpicl_rag.ledger import Ledger

        def work(number):
            while not stop.is_set():
                with Ledger(Path(sys.argv[1], f"{number}.sqlite")) as ledger:
                    ledger.check()

        faulthandler.dump_traceback_later(100, exit=True)
        stop = threading.Event()
        threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        inherited = 0
        for _ in range(20):
            if not (child := os.fork()):
                os._exit(any(getattr(one, "_open", ()) for one in database._live))
            inherited += os.waitpid(child, 0)[1] != 0
        stop.set()
        for thread in threads:
            thread.join()
        print(inherited)
        """,
        tmp_path,
    )
    assert told.stdout == "0\n"
    assert not told.stderr


def test_a_fork_holds_nothing_that_a_transaction_waits_for(tmp_path):
    """A corpus that joins units writes to the ledger meanwhile."""
    with closing(opened(tmp_path / "a.sqlite")) as one, closing(opened(tmp_path / "b.sqlite")) as b:
        first, second = sorted((one, b), key=id)
        for outer, inner in ((first, second), (second, first)):
            both_end(outer, inner)


def both_end(outer, inner):
    begun = threading.Event()

    def action(_):
        begun.set()
        threading.Event().wait(0.3)  # until the fork has come as far as it can
        inner.write(lambda _: None)

    def fork():
        begun.wait()
        module._before_fork()
        module._after_fork()

    threads = [
        threading.Thread(target=outer.write, args=(action,), daemon=True),
        threading.Thread(target=fork, daemon=True),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20.0)
        assert not thread.is_alive()


def test_a_fork_waits_for_who_opens_a_file_anew(tmp_path):
    """Its lock would be taken in the child for ever."""
    path = tmp_path / "memory.sqlite"
    asked, slow = threading.Event(), threading.Event()

    def found(path):
        path.touch()
        if slow.is_set():
            asked.set()
            threading.Event().wait(0.5)
        return path.stat()

    with closing(NamedFile(path, MEMORY, found, busy_timeout=1.0)) as named:
        path.unlink()
        slow.set()
        opening = threading.Thread(target=named.now)
        opening.start()
        asked.wait()
        module._before_fork()
        try:
            assert is_held_here(named._lock)
        finally:
            module._after_fork()
        opening.join()


def test_a_child_is_told_that_a_reservation_is_its_parents(tmp_path):
    """Also where another thread was charging it, which has its lock and is not in the child."""
    told = run_python(
        """
        import faulthandler, os, signal, sys, threading
        from dpicl_rag.errors import LedgerError
        from dpicl_rag.ledger import Ledger

        def charge():
            with reservation._lock:
                charging.set()
                forked.wait()

        faulthandler.dump_traceback_later(20, exit=True)
        charging, forked = threading.Event(), threading.Event()
        with Ledger(sys.argv[1]) as ledger, ledger.reserve(corpus="mail", rho=1.0) as reservation:
            thread = threading.Thread(target=charge)
            thread.start()
            charging.wait()
            if not (child := os.fork()):
                signal.alarm(10)
                try:
                    reservation.commit(0.5)
                except LedgerError as error:
                    print(error, flush=True)
                os._exit(0)
            os.waitpid(child, 0)
            forked.set()
            thread.join()
        """,
        tmp_path / "ledger.sqlite",
    ).stdout
    assert told == "a reservation cannot be used after a fork; reserve in the child\n"
