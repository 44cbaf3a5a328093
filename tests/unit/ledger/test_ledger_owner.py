from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from dpicl_rag.ledger import entries
from dpicl_rag.ledger.entries import Owner, current_owner

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


def _child_owner(pid: int) -> Owner:
    return replace(current_owner(), pid=pid, started=entries._start_time(pid))


def test_this_process_is_alive() -> None:
    assert current_owner().alive() is True


@linux
def test_a_child_is_alive_until_it_is_killed_even_before_it_is_reaped() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        owner = _child_owner(child.pid)
        assert owner.alive() is True
        child.kill()
        # Wait for the zombie without reaping it.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert owner.alive() is False
    finally:
        child.kill()
        child.wait()
    assert owner.alive() is False


@linux
def test_a_reused_process_number_is_not_the_owner() -> None:
    owner = current_owner()
    assert replace(owner, started=owner.started - 1).alive() is False


def test_processes_of_other_machines_cannot_be_looked_up() -> None:
    assert replace(current_owner(), machine="elsewhere").alive() is None


def test_without_start_times_only_a_free_number_is_conclusive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dpicl_rag.ledger.entries._start_time", lambda pid: 0)
    here = current_owner()
    assert here.alive() is True
    assert replace(here, pid=os.getppid()).alive() is None
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert replace(here, pid=child.pid).alive() is False
