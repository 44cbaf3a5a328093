"""A hundred answers whose Ray workers are killed at random: none hangs, none loses a charge.

Every answer is compared with the one that nobody disturbed: its text, and what the ledger holds
for the corpus and for each unit.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest
import torch

from dpicl_rag.language_models.ray import RayModel, worker_pool
from tests.support.answering import DOCUMENTS, QUESTION, answered
from tests.support.tiny_model import build_tiny_model

pytestmark = pytest.mark.stress
ray = pytest.importorskip("ray", reason="Ray is not installed")

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("DPICL_RAG_KILLS", "100"))
PATIENCE = 300.0
SETTINGS = ({"max_tokens": 12}, {"max_tokens": 12, "block_tokens": 3}, {"accounting": "fixed"})


def process_of(actor: object) -> int:
    return ray.get(actor.__ray_call__.remote(lambda worker: os.getpid()))


@pytest.fixture(scope="module")
def spread():
    before = dict(os.environ)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), before.get("PYTHONPATH", "")])
    os.environ.pop("RAY_ADDRESS", None)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    worker_pool.connect(None, 2)
    with RayModel(build_tiny_model, 2, patience=PATIENCE) as model:
        yield model
    torch.set_num_threads(threads)
    ray.shutdown()
    os.environ.clear()
    os.environ.update(before)


def test_random_kills_lose_no_charge_and_hang_no_answer(spread, tiny_model, tmp_path, capfd):
    coins = random.Random(11)
    expected = [answered(tiny_model, tmp_path, **settings) for settings in SETTINGS]
    start = time.monotonic()
    answered(spread, tmp_path, **SETTINGS[0])
    usual = time.monotonic() - start
    kills = different = unavailable = 0
    longest, errors = 0.0, set[str]()
    try:
        while kills < KILLS:
            which = coins.randrange(len(SETTINGS))
            start = time.monotonic()
            with killing(spread, coins.uniform(0, usual), coins.randrange(2)) as done:
                try:
                    found = answered(spread, tmp_path, **SETTINGS[which])
                except Exception as error:
                    errors.add(f"{type(error).__name__}: {error}")
                    continue
            longest = max(longest, time.monotonic() - start)
            kills += len(done)
            if found[0].stopped_by == "unavailable":
                unavailable += 1
            else:
                different += found != expected[which]
    finally:
        printed = "".join(capfd.readouterr())
        with capfd.disabled():
            print(  # noqa: T201 - the suite prints its figures
                f"\n{kills} kills: {different} answers or charges differ, {unavailable} "
                f"unavailable, {len(errors)} errors; the longest answer took {longest:.0f} s, an "
                f"undisturbed one {usual:.1f} s"
            )
    assert not errors
    assert different == unavailable == 0
    assert longest < PATIENCE
    assert not any(document in printed for document in (*DOCUMENTS, QUESTION))


@contextlib.contextmanager
def killing(model, delay, worker):
    """Kill a worker after a while; yields a list that holds its process once it is dead."""
    done: list[int] = []
    pid = 0
    with contextlib.suppress(ray.exceptions.RayError):  # killed after the last answer
        pid = process_of(model._pool.actors[worker])

    def kill():
        time.sleep(delay)
        if not pid:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            done.append(pid)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield done
    finally:
        thread.join()
