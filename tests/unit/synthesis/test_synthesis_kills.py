"""A run that is killed where it writes: a few places; all of them in tests/stress."""

from __future__ import annotations

import pytest

from tests.support.killed_synthesis import Trial


@pytest.mark.one_in(6)
@pytest.mark.parametrize("kill_at", [1, 6, 33, 35, 36, 57])
def test_a_kill_loses_no_charge_and_the_run_goes_on(tmp_path, kill_at):
    trial = Trial(tmp_path)
    process = trial.start(kill_at)
    process.join()
    assert process.exitcode == -9
    trial.check(kills=1)
    trial.finish()
    trial.check(kills=1)
