"""Synthesis under SIGKILL: at every write and commit, and 200 times at random, of each kind.

Nothing that was paid for is lost, at most one paid draw of a kill was not seen, nothing is drawn
twice, and every run goes on to its end.
"""

from __future__ import annotations

import random
import time

import pytest

from tests.support.killed_synthesis import Trial

pytestmark = pytest.mark.stress

KILLS = 200
KINDS = ("corpus", "exponential", "few-shot")
MOST_RUNS = 60  # of a kill at each write; a run has fewer


@pytest.mark.parametrize("what", KINDS)
def test_a_kill_at_every_write_and_commit(tmp_path, what):
    for kill_at in range(MOST_RUNS * 4):
        folder = tmp_path / f"at-{kill_at}"
        folder.mkdir()
        trial = Trial(folder, what=what, tokens=2)
        process = trial.start(kill_at)
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == -9
        trial.check(kills=1)
        trial.finish()
        trial.check(kills=1)
    else:
        pytest.fail("no run came to its end")


@pytest.mark.parametrize("what", KINDS)
def test_kills_at_random_instants(tmp_path, what):
    draw = random.Random(5)
    kills = runs = 0
    while kills < KILLS:
        folder = tmp_path / f"run-{runs}"
        folder.mkdir()
        trial, here = Trial(folder, what=what, tokens=6, seconds=0.02), 0
        for _ in range(12):
            process = trial.start()
            time.sleep(draw.uniform(0.05, 1.2))
            process.kill()
            process.join()
            if process.exitcode == 0:
                break
            here += 1
            trial.check(here)
        trial.finish()
        trial.check(here)
        kills, runs = kills + here, runs + 1
