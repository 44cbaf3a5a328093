"""Files that cannot be used, forks, and interrupts."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpicl_rag.errors import BudgetExceededError, LedgerError
from dpicl_rag.ledger import Ledger
from tests.support.fresh_python import run_python

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


@pytest.mark.parametrize("content", [b"text", b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_file_that_is_no_database_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"restore it from a backup"):
        Ledger(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("offset", [0, 20, 80])
def test_a_schema_that_is_no_text_is_damage(path: Path, offset: int) -> None:
    """Found by fuzzing: the message of SQLite then quotes bytes that are not UTF-8."""
    Ledger(path).close()
    data = bytearray(path.read_bytes())
    at = data.index(b"CREATE TABLE spend") + offset
    data[at] = 0xB0
    path.write_bytes(data)
    with pytest.raises(LedgerError, match="restore it from a backup"):
        Ledger(path)


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot be opened"):
        Ledger(tmp_path)


def test_a_file_cannot_be_a_folder(path: Path) -> None:
    path.write_bytes(b"")
    with pytest.raises(LedgerError, match="check the path"):
        Ledger(path / "budget.sqlite")


def test_missing_folders_are_made_and_links_lead_to_one_key(tmp_path: Path) -> None:
    real = tmp_path / "a" / "b" / "budget.sqlite"
    with Ledger(real) as ledger, ledger.reserve(corpus="m", rho=1.0, units=["u"]) as reservation:
        reservation.commit(1.0, [1.0])
    link = tmp_path / "link.sqlite"
    link.symlink_to(real)
    with Ledger(link) as ledger:
        ledger.set_budget(corpus="m", rho=3.0, unit_rho=1.5)
        with ledger.reserve(corpus="m", rho=1.0, units=["u"]) as reservation:
            assert reservation.limits == [0.5]
    assert list(tmp_path.glob("link.sqlite*")) == [link]


@posix
def test_a_file_that_cannot_be_written_is_refused() -> None:
    script = """
        import os, sys
        from pathlib import Path
        from dpicl_rag.errors import LedgerError
        from dpicl_rag.ledger import Ledger
        path = Path(sys.argv[1])
        Ledger(path).close()
        os.chmod(path, 0o444)
        os.chmod(path.parent, 0o555)
        if os.geteuid() == 0:  # root may write anything
            os.chown(path, 65534, 65534)
            os.chown(str(path) + ".key", 65534, 65534)
            os.setuid(65534)
        try:
            Ledger(path)
        except LedgerError as error:
            print(error)
        else:
            print("opened")
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        try:
            assert "write access" in run_python(script, Path(folder) / "budget.sqlite").stdout
        finally:
            Path(folder).chmod(0o755)


@posix
def test_a_file_that_anybody_may_write_is_refused(path: Path) -> None:
    Ledger(path).close()
    path.chmod(0o606)
    with pytest.raises(LedgerError, match=r"can be written by anybody; .* chmod 600"):
        Ledger(path)
    path.chmod(0o660)
    Ledger(path).close()


@posix
def test_a_full_disk_fails_the_commit_and_forgets_nothing(path: Path) -> None:
    script = """
        import resource, sys
        from pathlib import Path
        from dpicl_rag.errors import LedgerError
        from dpicl_rag.ledger import Ledger
        path = Path(sys.argv[1])
        ledger = Ledger(path)
        reservation = ledger.reserve(corpus="mail", rho=1.0)
        size = path.with_name(path.name + "-wal").stat().st_size + 40_000
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        released = 0
        try:
            while True:
                reservation.commit(0.001)
                released += 1
        except LedgerError as error:
            message = str(error)
        try:
            reservation.commit(0.001)
        except LedgerError as error:
            again = str(error)
        reservation.close()
        ledger.close()
        print(released, message, again, sep="|")
    """
    released, message, again = run_python(script, path).stdout.strip().split("|")
    assert "disk" in message
    assert "ask again" in again
    assert int(released) > 0
    with Ledger(path) as ledger:
        (status,) = ledger.status()
    assert status.spent == pytest.approx(int(released) * 0.001)
    assert status.reserved == 0.0


def test_a_commit_waits_for_the_disk(path: Path) -> None:
    """What a loss of power takes no kill shows, so the setting itself is looked at."""
    with Ledger(path) as ledger:
        (level,) = ledger._database.read(lambda c: c.execute("PRAGMA synchronous").fetchone())
    assert level == 2  # FULL


def test_a_busy_file_fails_after_the_timeout(path: Path) -> None:
    with Ledger(path, busy_timeout=0.05) as ledger:
        reservation = ledger.reserve(corpus="mail", rho=1.0)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="another process holds it"):
            reservation.commit(0.1)
        reservation.close()  # never raises: it is settled at the next chance
        other.execute("ROLLBACK")
        other.close()
        with ledger.reserve(corpus="mail", rho=1.0):
            assert ledger.status()[0].reserved == 1.0
        assert ledger.status()[0].spent == 0.0


def test_looking_at_the_budgets_waits_for_nobody(path: Path) -> None:
    Ledger(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with Ledger(path, busy_timeout=0.05) as ledger:
        assert ledger.status() == []
    other.execute("ROLLBACK")
    other.close()


def test_a_refusal_frees_the_file_at_once(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.set_budget(corpus="mail", rho=0.0)
        with pytest.raises(BudgetExceededError) as caught:
            ledger.reserve(corpus="mail", rho=1.0)
        other = sqlite3.connect(path, isolation_level=None, timeout=0.0)
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
        other.close()
        assert caught.tb is not None  # kept until here: nothing was collected and cleaned up


def test_a_closed_ledger_says_so(path: Path) -> None:
    ledger = Ledger(path)
    reservation = ledger.reserve(corpus="mail", rho=1.0)
    reservation.commit(0.5)
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        reservation.commit(0.1)
    with pytest.raises(LedgerError, match="closed"):
        ledger.status()
    reservation.close()
    with Ledger(path) as again:
        (status,) = again.status()
        assert (status.spent, status.reserved) == (0.5, 0.0)


@pytest.mark.parametrize("when", ["BEGIN IMMEDIATE", "UPDATE reservation", "COMMIT"])
def test_an_interrupted_commit_ends_the_answer_and_frees_the_file(
    ledger: Ledger, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Ctrl-C before or after any statement: the token is not released, so it may be unpaid."""
    for after in (False, True):
        reservation = ledger.reserve(corpus=f"{when} {after}", rho=1.0)
        reservation.commit(0.25)
        database = ledger._database
        (real,) = database._open
        monkeypatch.setattr(database, "_open", [_Interrupting(real, when, after)])
        with pytest.raises(KeyboardInterrupt):
            reservation.commit(0.25)
        monkeypatch.setattr(database, "_open", [real])
        with pytest.raises(LedgerError, match="ask again"):
            reservation.commit(0.25)
        reservation.close()
        status = next(s for s in ledger.status() if s.name == f"{when} {after}")
        assert status.spent == (0.5 if when == "COMMIT" and after else 0.25)
        assert status.reserved == 0.0


def test_an_interrupted_reserve_holds_nothing(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.reserve(corpus="mail", rho=1.0).close()
    database = ledger._database
    (real,) = database._open
    monkeypatch.setattr(database, "_open", [_Interrupting(real, "COMMIT", True, once=True)])
    try:
        ledger.reserve(corpus="mail", rho=1.0)
    except KeyboardInterrupt as error:
        interrupt = error
    interrupt.__traceback__ = None  # what the prompt or the server does when it has shown it
    monkeypatch.setattr(database, "_open", [real])
    assert ledger.status()[0].reserved == 0.0


class _Interrupting:
    """A connection on which Ctrl-C falls before or after a statement."""

    def __init__(self, real: Any, when: str, after: bool, *, once: bool = False) -> None:
        self._real, self._when, self._after, self._armed = real, when, after, True
        self._once = once

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def execute(self, statement: str, *parameters: Any) -> Any:
        hit = self._armed and statement.startswith(self._when)
        if hit and self._once:
            self._armed = False
        if hit and not self._after:
            raise KeyboardInterrupt
        result = self._real.execute(statement, *parameters)
        if hit:
            raise KeyboardInterrupt
        return result


def _in_child(work: Callable[[], None]) -> int:
    """Fork, work, and return the child's exit status."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_forked_child_shares_the_ledger_but_not_the_reservation(ledger: Ledger) -> None:
    ledger.set_budget(corpus="mail", rho=1.0)
    reservation = ledger.reserve(corpus="mail", rho=0.4)
    reservation.commit(0.1)

    def child() -> None:
        # An inherited connection would believe that it holds the parent's locks.
        assert not ledger._database._open
        with pytest.raises(LedgerError, match="after a fork"):
            reservation.commit(0.1)
        reservation.close()
        reservation.__del__()
        with ledger.reserve(corpus="mail", rho=0.6) as own:
            own.commit(0.3)
        ledger.reserve(corpus="mail", rho=0.2)
        kept = ledger.reserve(corpus="mail", rho=0.2)
        kept.commit(0.1)
        ledger.close()  # settles what the child holds, not what the parent does

    assert _in_child(child) == 0
    (status,) = ledger.status()
    assert (status.spent, status.reserved) == (0.5, 0.3)
    reservation.commit(0.3)
    reservation.close()
    (status,) = ledger.status()
    assert (status.spent, status.reserved) == (0.8, 0.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_forks_while_threads_commit_lose_nothing(ledger: Ledger) -> None:
    def work(name: str) -> None:
        with ledger.reserve(corpus="mail", caller=name, rho=1.0) as reservation:
            for _ in range(20):
                reservation.commit(0.001)

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    codes = [_in_child(lambda n=n: work(f"c{n}")) for n in range(6)]  # type: ignore[misc]
    for thread in threads:
        thread.join()
    assert codes == [0] * 6
    corpus, *callers = ledger.status()
    assert [caller.spent for caller in callers] == [0.02] * 10
    assert (corpus.spent, corpus.reserved) == (0.2, 0.0)
