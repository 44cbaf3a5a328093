"""A ledger that is removed or replaced under a living process, and one that cannot be written."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from dpicl_rag.errors import KeyFileError, KnowledgeError, LedgerError
from dpicl_rag.knowledge.answer_file import AnswerFile
from dpicl_rag.ledger import Ledger
from dpicl_rag.server.api_keys import KeyFile
from tests.support.fresh_python import run_python
from tests.unit.ledger.test_ledger_database import _in_child, posix
from tests.unit.ledger.test_ledger_individual import charge, limits

pytestmark = posix


def gone(path: Path) -> None:
    path.unlink()


def moved(path: Path) -> None:
    path.rename(path.with_name("elsewhere.sqlite"))


def restored(path: Path) -> None:
    """A backup is put in its place, as it should be while nobody has it open."""
    backup = path.with_name("backup.sqlite")
    shutil.copy(path, backup)
    backup.replace(path)


def made_anew(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    Ledger(path).close()


def without_its_log(path: Path) -> None:
    path.with_name(path.name + "-wal").unlink()


def without_its_locks(path: Path) -> None:
    path.with_name(path.name + "-shm").unlink()


WAYS = [gone, moved, restored, made_anew, without_its_log, without_its_locks]


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_charged_to_a_file_that_nobody_reads(
    ledger: Ledger, path: Path, way: Callable[[Path], None]
) -> None:
    """A unit paid twice its budget: once to the orphan, once to the file in its place."""
    ledger.set_budget(corpus="mail", rho=1.0)
    running = ledger.reserve(corpus="mail", rho=0.5, units=["a"])
    running.commit(0.1, [0.1])
    way(path)
    for call in (
        lambda: running.commit(0.1, [0.1]),
        lambda: ledger.reserve(corpus="mail", rho=0.1, units=["a"]),
        ledger.status,
        ledger.settle_stale,
        ledger.check,
    ):
        with pytest.raises(LedgerError, match=r"removed or replaced.*put it back.*restart"):
            call()
    running.close()  # never raises


def test_a_ledger_that_is_put_back_goes_on(ledger: Ledger, path: Path) -> None:
    ledger.set_budget(corpus="mail", rho=1.0)
    charge(ledger, 0.5, a=0.25)
    moved(path)
    with pytest.raises(LedgerError):
        limits(ledger, "a")
    path.with_name("elsewhere.sqlite").rename(path)
    assert limits(ledger, "a") == [0.75]


def test_closing_leaves_the_file_in_its_place_alone(path: Path) -> None:
    orphaned = Ledger(path)
    charge(orphaned, 0.5, a=0.25)
    made_anew(path)
    with Ledger(path) as there:
        charge(there, 0.5, a=0.1)
        orphaned.close()
        charge(there, 0.5, a=0.1)
        there.set_budget(corpus="mail", rho=1.0)
        assert limits(there, "a") == pytest.approx([0.8])


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_child_opens_no_other_file_than_its_parent_had(ledger: Ledger, path: Path) -> None:
    """A fork closes the connection; the one that follows must not make an empty ledger."""
    charge(ledger, 0.5, a=0.25)
    ledger._database._disconnect()
    gone(path)

    def child() -> None:
        with pytest.raises(LedgerError, match="removed or replaced"):
            ledger.reserve(corpus="mail", rho=0.1)

    assert _in_child(child) == 0
    with pytest.raises(LedgerError, match="removed or replaced"):
        ledger.check()
    assert not path.exists()


def test_a_check_is_written_and_waits_its_turn(path: Path) -> None:
    with Ledger(path, busy_timeout=0.05) as ledger:
        ledger.check()
        ledger.check()
        other = sqlite3.connect(path, isolation_level=None)
        assert other.execute("SELECT checks FROM ledger").fetchone() == (2,)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="another process holds it"):
            ledger.check()
        other.close()
        ledger.check()
        before = ledger.status()
    with pytest.raises(LedgerError, match="closed"):
        ledger.check()
    assert before == []


def test_a_check_fails_where_the_disk_is_full(path: Path) -> None:
    script = """
        import resource, sys
        from pathlib import Path
        from dpicl_rag.errors import LedgerError
        from dpicl_rag.ledger import Ledger
        path = Path(sys.argv[1])
        ledger = Ledger(path)
        ledger.check()
        size = path.with_name(path.name + "-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        try:
            ledger.check()
        except LedgerError as error:
            print(error)
        ledger.status()  # reading is not enough to tell
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        ledger.check()
    """
    assert "the disk" in run_python(script, path).stdout


def test_a_check_fails_where_the_file_may_not_grow(ledger: Ledger) -> None:
    """SQLite's own word for a full disk."""
    ledger.check()

    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE filler (x)")
        connection.execute("PRAGMA max_page_count = 1")
        connection.execute("INSERT INTO filler VALUES (zeroblob(100000))")

    with pytest.raises(LedgerError, match="the disk is full; free some space"):
        ledger._database.write(fill)


def test_logs_of_memories_and_keys_are_missed_as_well(tmp_path: Path) -> None:
    memory = AnswerFile(tmp_path / "answers.sqlite")
    gone(memory.path)
    assert memory.entries() == []  # opened anew
    without_its_log(memory.path)
    with pytest.raises(KnowledgeError, match=r"memory .* was removed or replaced"):
        memory.entries()
    memory.close()
    keys = KeyFile(tmp_path / "keys.sqlite")
    keys.add("ann")
    shutil.copy(keys.path, tmp_path / "copy")
    os.replace(tmp_path / "copy", keys.path)
    assert [caller.name for caller in keys.callers()] == ["ann"]  # opened anew
    without_its_log(keys.path)
    with pytest.raises(KeyFileError, match=r"key file .* was removed or replaced"):
        keys.callers()
    keys.close()
