"""No unit passes its lifetime with every default on, by a count that is kept beside the ledger.

Processes answer at once over one corpus: private threshold, thinning, strength by need, support,
memory, fixed answers and labels, streams closed early. Each counts what units really lose, see
answering.py. For each unit, with U the budget of a unit and B that of the corpus,

    lost <= charged    charged to the unit alone <= U    charged to the unit in all <= B.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.ledger import Ledger
from dpicl_rag.ledger.fixed_point import to_rho
from dpicl_rag.ledger.ledger_units import UnitKey, key_path
from tests.stress.answering import CORPUS, UNITS

pytestmark = pytest.mark.stress

Lost = dict[str, dict[str, float]]

PROCESSES = 4
ROOT = Path(__file__).parents[2]
KINDS = ("thinned", "silent", "supported", "unsupported", "informed", "labels", "refused")
ROUNDING = 1e-8
UNIT, WHOLE = epsilon_to_rho(8, 1e-5), epsilon_to_rho(16, 1e-5)


def say(figures: str) -> None:
    print(f"\n{figures}")  # noqa: T201 - the suite prints its figures


def answers_at_once(path: Path, answers: int, fault: str = "") -> tuple[Lost, Counter[str]]:
    """What each unit lost to all processes under either accounting, and what they saw."""
    with Ledger(path) as ledger:
        ledger.set_budget(corpus=CORPUS, epsilon=16, unit_epsilon=8)
    command = [sys.executable, "-m", "tests.stress.answering", str(path), str(answers), fault]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = [
        subprocess.Popen(command, **pipes, cwd=ROOT, env=environment, text=True)
        for _ in range(PROCESSES)
    ]
    lost = {kind: dict.fromkeys(UNITS, 0.0) for kind in ("individual", "fixed")}
    seen = Counter[str]()
    for process in running:
        with process:
            try:
                output, errors = process.communicate(timeout=300)
            except BaseException:
                process.kill()
                raise
        assert process.returncode == 0, errors
        found = json.loads(output)
        for kind, of_units in found["lost"].items():
            for unit, rho in of_units.items():
                lost[kind][unit] += rho
        seen.update(found["seen"])
    return lost, seen


def charged(path: Path) -> tuple[dict[str, float], float]:
    """What each unit was charged for individual answers, and what fixed ones cost all of them."""
    digests = UnitKey(key_path(path).read_bytes()).digests(CORPUS, UNITS)
    with closing(sqlite3.connect(path)) as connection:
        (fixed,) = connection.execute("SELECT sum(fixed) FROM spend").fetchone()
        spent = dict(connection.execute("SELECT hash, spent FROM unit").fetchall())
    own = {unit: to_rho(spent.get(key, 0)) for unit, key in zip(UNITS, digests, strict=True)}
    return own, to_rho(fixed)


def most_unpaid(path: Path, lost: Lost) -> float:
    """The most that any unit lost beyond what it was charged, zCDP rho."""
    own, fixed = charged(path)
    return max(
        max(lost["individual"][unit] - own[unit], lost["fixed"][unit] - fixed) for unit in UNITS
    )


def test_no_unit_loses_more_than_it_pays_nor_pays_more_than_its_lifetime(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    lost, seen = answers_at_once(path, 25)
    own, fixed = charged(path)
    say(
        f"{PROCESSES} processes: {dict(seen)}; units alone were charged rho {min(own.values()):.3f}"
        f" to {max(own.values()):.3f} of {UNIT:.3f}, fixed answers {fixed:.3f}, and lost up to"
        f" {max(lost['individual'].values()):.3f} and {max(lost['fixed'].values()):.3f}"
    )
    assert most_unpaid(path, lost) <= ROUNDING
    assert max(own.values()) <= UNIT + ROUNDING
    assert max(own.values()) + fixed <= WHOLE + ROUNDING
    # All of it has happened, and lifetimes have come to their end.
    assert min(seen[kind] for kind in KINDS) > 0
    assert max(own.values()) > 0.9 * UNIT


@pytest.mark.parametrize("fault", ["search", "support"])
def test_the_count_sees_a_charge_that_is_forgotten(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "ledger.sqlite"
    lost, _ = answers_at_once(path, 12, fault)
    assert most_unpaid(path, lost) > 0.001
