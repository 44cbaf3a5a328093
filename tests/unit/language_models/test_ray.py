"""The Ray engine with Ray: real workers, really killed."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import traceback
from pathlib import Path

import pytest
import torch

from dpicl_rag.errors import ModelError
from dpicl_rag.language_models.ray import RayModel, worker_pool
from dpicl_rag.language_models.ray.worker_messages import WorkerRequest
from dpicl_rag.rehearsal import rehearsal_of
from tests.support.answering import DOCUMENTS, answered
from tests.support.quoting_model import SECRET, build_dying_model, build_quoting_model

pytestmark = pytest.mark.heavy
ray = pytest.importorskip("ray", reason="Ray is not installed")

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def cluster():
    """Ray in this machine, as the engine starts it."""
    before, threads = dict(os.environ), torch.get_num_threads()
    torch.set_num_threads(1)  # of the workers too
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), before.get("PYTHONPATH", "")])
    os.environ.pop("RAY_ADDRESS", None)
    worker_pool.connect(None, 6)  # four workers beside two
    yield ray
    ray.shutdown()
    torch.set_num_threads(threads)
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def spread(cluster):
    with RayModel(build_quoting_model, 2) as model:
        yield model


def process_of(actor):
    return ray.get(actor.__ray_call__.remote(lambda worker: os.getpid()))


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_answers_labels_and_charges_are_those_of_one_process(spread, tiny_model, tmp_path, workers):
    with contextlib.ExitStack() as stack:
        model = spread
        if workers != 2:
            model = stack.enter_context(RayModel(build_quoting_model, workers))
        for settings in (
            {"max_tokens": 8},
            {"max_tokens": 8, "block_tokens": 4},
            {"labels": (" red", " blue"), "method": "poe-prior"},
        ):
            found = answered(model, tmp_path, **settings)
            assert found == answered(tiny_model, tmp_path, **settings)


def test_a_killed_worker_is_replaced_and_the_answer_goes_on(
    spread, tiny_model, tmp_path, monkeypatch
):
    settings = {"max_tokens": 10}
    expected = answered(tiny_model, tmp_path, **settings)
    send, sent = worker_pool.WorkerPool.send, []

    def killing(own, *request, **whole):
        sent.append(1)
        if len(sent) in (4, 9):
            os.kill(process_of(own.actors[0]), signal.SIGKILL)
        return send(own, *request, **whole)

    monkeypatch.setattr(worker_pool.WorkerPool, "send", killing)
    first, second = map(process_of, spread._pool.actors)
    assert answered(spread, tmp_path, **settings) == expected
    assert process_of(spread._pool.actors[0]) != first
    assert process_of(spread._pool.actors[1]) == second


def test_a_worker_that_stands_still_ends_the_answer_and_is_replaced(
    spread, tiny_model, tmp_path, monkeypatch
):
    """As a machine that hangs would: nothing is drawn without it."""
    rehearsal_of(spread)  # while all of its workers answer
    pid = process_of(spread._pool.actors[1])
    with monkeypatch.context() as patience:
        patience.setattr(spread._pool, "patience", 2.0)
        os.kill(pid, signal.SIGSTOP)
        ended, charged = answered(spread, tmp_path, max_tokens=3)
    assert (ended.stopped_by, ended.tokens, ended.rho) == ("unavailable", 0, 0.0)
    assert all(own == (0,) for own in charged[1:])
    expected = answered(tiny_model, tmp_path, max_tokens=3)
    assert answered(spread, tmp_path, max_tokens=3) == expected


def test_a_request_that_ends_its_worker_ends_one_answer(
    cluster, tiny_model, tmp_path, monkeypatch, capfd
):
    documents = [*DOCUMENTS, f"The word is {SECRET}."]
    with RayModel(build_dying_model, 2) as model:
        with monkeypatch.context() as patience:
            patience.setattr(model._pool, "patience", 8.0)
            ended, _ = answered(model, tmp_path, documents=documents, max_tokens=3)
        assert (ended.stopped_by, ended.tokens) == ("unavailable", 0)
        monkeypatch.setattr(model._pool, "patience", 60.0)
        expected = answered(tiny_model, tmp_path, max_tokens=3)
        assert answered(model, tmp_path, max_tokens=3) == expected
    assert SECRET not in "".join(capfd.readouterr())


def test_no_word_of_a_document_reaches_logs(spread, tmp_path, capfd):
    documents = [*DOCUMENTS, f"The word is {SECRET}."]
    with pytest.raises(ModelError, match="cannot compute what was asked") as caught:
        answered(spread, tmp_path, documents=documents)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    time.sleep(1.0)  # Ray copies what workers print in the background
    assert SECRET not in "".join(capfd.readouterr())
    session = Path(ray._private.worker.global_worker.node.get_session_dir_path())
    logs = [file for file in session.rglob("*") if file.is_file()]
    assert any(file.name.startswith("worker-") for file in logs)
    assert not [file.name for file in logs if SECRET.encode() in file.read_bytes()]


def test_nothing_is_put_into_the_object_store(spread, tmp_path):
    from ray._private.internal_api import memory_summary

    def stored():
        address = ray.get_runtime_context().gcs_address
        return "Plasma memory usage 0 MiB, 0 objects" not in memory_summary(
            address, stats_only=True
        )

    documents = [f"{text} {'The soup. ' * 20}" for text in DOCUMENTS for _ in range(40)]
    answered(spread, tmp_path, documents=documents, max_tokens=2, utility="log_prob")
    assert not stored()
    # More than Ray would send with one call, there and back.
    asks = WorkerRequest((None,) * 11_000_000)
    with spread._pool.send(-1, lambda worker, whole: asks, whole=True) as calls:
        assert [len(call.answers()) for call in calls] == [11_000_000] * 2
    assert not stored()
    kept = ray.put(b"x" * 2_000_000)
    assert stored()
    del kept


def test_ray_is_started_with_a_token_and_without_what_is_not_needed(spread):
    assert os.environ["RAY_AUTH_MODE"] == "token"
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert not ray._private.worker.global_worker.node.address_info["webui_url"]
    nice = [
        ray.get(actor.__ray_call__.remote(lambda worker: os.nice(0)))
        for actor in spread._pool.actors
    ]
    assert nice == [0, 0]


def test_the_questions_of_the_demo_are_answered_as_by_one_process(cluster, default_model, tmp_path):
    from demos.email_assistant import TEMPLATE
    from demos.inbox.generator import generate
    from dpicl_rag import load

    box = generate()
    box.write(tmp_path / "mail.mbox")
    mail = load(tmp_path / "mail.mbox").documents
    settings = {"template": TEMPLATE, "stop": ("\n",), "max_tokens": 6}
    with RayModel(workers=2) as model:
        for fact in box.facts:
            settings["question"] = fact.question
            settings["documents"] = [
                *[own for own in mail if fact.is_stated_in(own.text)][:4],
                *[own for own in mail if not fact.is_stated_in(own.text)][:1],
            ]
            found = answered(model, tmp_path, **settings)
            assert found == answered(default_model, tmp_path, **settings), fact.topic
            assert found[0].tokens > 0
