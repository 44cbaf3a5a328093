"""Our own commands as children: followed, bounded, and gone whatever becomes of who waits."""

from __future__ import annotations

import asyncio
import os
import sys
import time

import pytest

from dpicl_rag.server import child_command
from dpicl_rag.server.child_command import own_command, run_command

SECRET = "quillon-vexatrix"
STUBBORN = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
HANGS = "import time; print('begun', file=sys.stderr, flush=True); time.sleep(600)"


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    """Hardly any patience."""
    monkeypatch.setattr(child_command, "PATIENCE_S", 0.1)


def ended(program, **options):
    command = [sys.executable, "-S", "-c", f"import sys\n{program}"]
    return asyncio.run(run_command(command, **options))


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_progress_is_told_and_all_else_is_kept():
    seen = []
    program = f"""
import json
for percent in (0, 50):
    print(json.dumps({{"progress": "Canary", "percent": percent}}), file=sys.stderr)
print("{SECRET}", "error: one", "", "internal error (ValueError)", "7", sep="\\n", file=sys.stderr)
print("results are nobody's", file=sys.stdout)
sys.exit(3)
"""
    found = ended(program, on_progress=lambda *one: seen.append(one))
    assert seen == [("Canary", 0), ("Canary", 50)]
    assert found.status == 3
    assert found.lines == (SECRET, "error: one", "internal error (ValueError)", "7")
    assert found.errors == ["error: one", "internal error (ValueError)"]
    assert SECRET not in repr(found)


def test_what_it_says_has_an_end(monkeypatch):
    monkeypatch.setattr(child_command, "_MOST_LINES", 3)
    program = """
for number in range(9):
    print(number, file=sys.stderr)
sys.stderr.write("long " * 10**6 + "\\nerror: last")
"""
    found = ended(program)
    assert found.lines[0] == "8"
    assert len(found.lines[1]) <= child_command._MOST_BYTES
    assert found.errors == ["error: last"]


@pytest.mark.parametrize("way", ["", STUBBORN])
def test_it_has_a_limit_of_time(way):
    begun = time.monotonic()
    assert ended(way + HANGS, most_seconds=0.3).status is None
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("way", ["", STUBBORN])
@pytest.mark.parametrize("cancels", [1, 5])
def test_it_is_gone_when_who_waits_for_it_is(monkeypatch, way, cancels):
    pids = []
    start = asyncio.create_subprocess_exec

    async def started(*words, **options):
        process = await start(*words, **options)
        pids.append(process.pid)
        return process

    async def work():
        command = [sys.executable, "-S", "-c", f"import sys\n{way}{HANGS}"]
        waiting = asyncio.create_task(run_command(command))
        while not pids:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        for _ in range(cancels):  # a shutdown may meet one that is ending
            waiting.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        assert gone(pids[0])

    monkeypatch.setattr(asyncio, "create_subprocess_exec", started)
    asyncio.run(work())


def test_what_progress_raises_ends_it():
    def stop(stage, percent):
        raise KeyError(stage)

    program = """
print('{"progress": "Canary", "percent": 1}', file=sys.stderr, flush=True)
import time; time.sleep(600)
"""
    with pytest.raises(KeyError, match="Canary"):
        ended(program, on_progress=stop)


@pytest.mark.heavy
def test_our_own_command_says_why_it_ends():
    found = asyncio.run(run_command(own_command("corpora", "scores", "nowhere", "Why?")))
    assert found.status == 1
    assert found.lines[-1] == found.errors[-1]
