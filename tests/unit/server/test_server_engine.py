"""Answers that draw at the same time share passes: they, and what they cost, are as one by one."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from dpicl_rag import Document
from dpicl_rag.language_models import joint_passes
from dpicl_rag.rehearsal import rehearsal_of
from dpicl_rag.server.admission import ServerLimits
from dpicl_rag.server.answering_thread import AnsweringThread
from tests.unit.server.test_server_ends import QUESTION, spent, until

# Of the seed, by which answers are compared.
pytestmark = pytest.mark.filterwarnings("ignore::dpicl_rag.mechanisms.randomness.NotPrivateWarning")

QUESTIONS = ["Where is the office?", "Who has the key?", "Where?", "What does the sign at it say?"]
SETTINGS = {"seed": 5, "max_tokens": 12, "unsupported": "ignore", "accounting": "individual"}
DOCUMENTS = [Document(f"The office is in Elm Lane {n % 7}.", f"unit-{n}") for n in range(12)]


@pytest.fixture
def sizes(monkeypatch, tiny_model):
    """How many answers each shared pass was for."""
    rehearsal_of(tiny_model)  # which shares passes, too
    found, honest = [], joint_passes.forward_each

    def counted(batches, *arguments, **more):
        found.append(len(batches))
        return honest(batches, *arguments, **more)

    monkeypatch.setattr(joint_passes, "forward_each", counted)
    return found


@pytest.fixture
def patient(monkeypatch):
    """Passes wait long for others, so that they are shared on a busy machine too."""
    monkeypatch.setattr("dpicl_rag.server.answering_thread.GATHERING", 0.5)


def start(serve, **settings):
    given = {**SETTINGS, **settings}
    running = serve(limits=ServerLimits(together=4), documents=DOCUMENTS, **given)
    # Each answer pays by itself: none is answered from another's.
    running.service._memory = None
    return running


def texts(running, stream):
    def ask(question):
        answer = running.ask(question, stream=stream)
        assert answer.status_code == 200
        return [line for line in answer.text.splitlines() if "delta" in line or "choices" in line]

    return ask


def said(lines):
    """What was said, without what names one answer."""
    return [line.split('"choices"')[1] for line in lines]


def answers(running, together):
    """Every question's answer, and what all of them cost."""
    before = spent(running)[0]
    with ThreadPoolExecutor(len(QUESTIONS) if together else 1) as pool:
        found = [said(lines) for lines in pool.map(texts(running, stream=True), QUESTIONS)]
    until(lambda: running.admission.inside == 0)
    assert spent(running)[1] == 0
    return found, spent(running)[0] - before


def test_answers_and_charges_are_the_same_together_as_one_by_one(serve, sizes, patient):
    running = start(serve)
    apart, cost = answers(running, together=False)
    assert sizes == []
    assert len({str(lines) for lines in apart}) > 1
    found, cost_together = answers(running, together=True)
    assert max(sizes) > 1
    assert found == apart
    assert cost_together == cost


@pytest.mark.heavy
def test_a_planted_fault_is_seen(serve, sizes, patient, monkeypatch):
    """Every answer reads on with the token of the first."""
    running = start(serve)
    apart, _ = answers(running, together=False)
    counted = joint_passes.forward_each

    def mixed(batches, token_ids, keep):
        return counted(batches, [token_ids[0]] * len(batches), keep)

    monkeypatch.setattr(joint_passes, "forward_each", mixed)
    assert answers(running, together=True)[0] != apart
    assert max(sizes) > 1


@pytest.mark.heavy
def test_who_hangs_up_gets_the_rest_back_and_leaves_the_others_as_they_are(
    serve, sizes, patient, monkeypatch
):
    running = start(serve, agreement="off")  # an answer ends at its token, not at its sentences
    apart = answers(running, together=False)[0][0]
    passed, go_on, sent = joint_passes.forward_each, threading.Event(), []

    def hung_up(*arguments, **more):
        if sent and sizes[-2:] == [3, 3]:
            while sent:
                sent.pop().close()
            time.sleep(0.3)  # for the news to come, while the pass is run
        return passed(*arguments, **more)

    monkeypatch.setattr(joint_passes, "forward_each", hung_up)
    running.admission._thread.submit(lambda: go_on.wait(30))  # so that all three begin together
    sent += [running.send({**QUESTION, "stream": True}) for _ in range(2)]
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(texts(running, stream=True), QUESTIONS[0])
        until(lambda: running.admission.inside == 3)
        go_on.set()
        assert said(other.result()) == apart
    until(lambda: running.admission.inside == 0)
    assert spent(running)[1] == 0
    assert sizes.count(3) < 5
    assert not sent


# ---- the line ----


@pytest.fixture
def engine():
    found = AnsweringThread()
    yield found
    found.shutdown()


def test_things_are_done_one_after_the_other_in_the_order_of_asking(engine):
    held, said = threading.Event(), []
    first = engine.submit(lambda: (held.wait(30), said.append("first")))
    others = [engine.submit(lambda n=n: said.append(n), of=str(n)) for n in range(3)]
    cancelled = engine.submit(lambda: said.append("never"), of="4")
    assert cancelled.cancel()
    held.set()
    for one in (first, *others):
        one.result(30)
    engine.submit(lambda: None).result(30)
    assert said == ["first", 0, 1, 2]


def test_what_fails_is_told_and_the_engine_goes_on(engine):
    def fail():
        raise RuntimeError("no")

    failed = engine.submit(fail, of="a", more=True)
    with pytest.raises(RuntimeError, match="no"):
        failed.result(30)
    assert engine.submit(lambda: 3, of="a").result(30) == 3


def test_what_ends_an_answer_waits_for_its_pass_and_that_of_others_does_not(engine, tiny_model):
    said, entered, go_on = [], threading.Event(), threading.Event()

    def step(name):
        rows = tiny_model.read((), [(1, 2), (3,)], room=4)
        rows.extend((4, 5))
        rows.extend((6,))
        said.append(name)

    engine.submit(lambda: (entered.set(), go_on.wait(30)))
    entered.wait(30)
    line = [engine.submit(lambda: step("step a"), of="a")]
    line.append(engine.submit(lambda: said.append("end a"), of="a"))
    line.append(engine.submit(lambda: said.append("end b"), of="b"))
    go_on.set()
    for one in line:
        one.result(60)
    assert said == ["end b", "step a", "end a"]
