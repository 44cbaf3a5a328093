"""However an answer ends, what was released is paid for and the rest given back."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from contextlib import closing

import pytest

from dpicl_rag.errors import LedgerError
from dpicl_rag.server.admission import ServerLimits
from tests.support.paced_model import PacedModel
from tests.unit.server.conftest import NOTES

QUESTION = {"messages": [{"role": "user", "content": "Where is the office?"}], "model": "notes"}
PER_TOKEN = {"accounting": "fixed", "unsupported": "ignore"}  # so that tokens can be counted


def until(true):
    """Wait for what another thread does."""
    for _ in range(3000):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def spent(running):
    """rho spent and rho held of the corpus."""
    (status,) = [one for one in running.service.ledger.status() if one.kind == "corpus"]
    return status.spent, status.reserved


@pytest.fixture
def paced(serve):
    """A server whose draws wait, and what one token costs there."""

    def start(limits=None, max_tokens=8, **settings):
        model = PacedModel()
        running = serve(model=model, limits=limits, max_tokens=max_tokens, **PER_TOKEN, **settings)
        return running, model

    return start


@pytest.fixture
def token_price(serve, tmp_path):
    """rho of one of eight tokens, from a whole answer."""
    running = serve(model=PacedModel(open=True), **PER_TOKEN)
    assert running.ask().json()["usage"]["completion_tokens"] == 8
    whole, held = spent(running)
    assert held == 0
    return whole / 8


def events(answer):
    """Data of server-sent events."""
    for line in answer.iter_lines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line[6:])


@pytest.mark.parametrize("stream", [True, False])
def test_who_hangs_up_pays_for_what_was_released_and_gets_the_rest_back(paced, token_price, stream):
    running, model = paced()
    before = spent(running)[0]
    sent = running.send({**QUESTION, "stream": stream})
    model.let(3)
    until(lambda: model.begun == 4)
    sent.close()
    time.sleep(0.3)  # for the news to come, while the fourth draw is waiting
    model.let(100)
    until(lambda: spent(running)[1] == 0)
    until(lambda: running.admission.inside == 0)
    tokens = (spent(running)[0] - before) / token_price
    assert tokens == pytest.approx(4, abs=1e-6)
    assert len(model.drawn) == 4


@pytest.mark.parametrize("stream", [True, False])
def test_who_hangs_up_before_the_first_token_pays_at_most_for_that(paced, token_price, stream):
    running, model = paced()
    before = spent(running)[0]
    sent = running.send({**QUESTION, "stream": stream})
    until(lambda: model.begun)
    sent.close()
    time.sleep(0.3)
    model.let(100)
    until(lambda: running.admission.inside == 0)
    assert spent(running)[1] == 0
    assert (spent(running)[0] - before) / token_price <= 1 + 1e-6


@pytest.mark.parametrize("stream", [True, False])
def test_who_hangs_up_in_the_queue_spends_nothing(paced, stream):
    running, model = paced(ServerLimits(together=1))
    first = running.send({**QUESTION, "stream": True})
    until(lambda: model.begun)
    waiting = running.send({**QUESTION, "stream": stream})
    until(lambda: running.admission.inside == 2)
    waiting.close()
    until(lambda: running.admission.inside == 1)
    model.let(100)
    until(lambda: running.admission.inside == 0)
    first.close()
    (status,) = running.service.ledger.status()
    assert status.questions == 1
    assert set(model.drawn) == {1}


@pytest.mark.parametrize("stream", [True, False])
def test_who_hangs_up_during_the_search_spends_nothing(paced, monkeypatch, stream):
    running, model = paced()
    begin, searching, go_on = running.service.stream, threading.Event(), threading.Event()

    def slow(*arguments):
        searching.set()
        go_on.wait(30)
        return begin(*arguments)

    monkeypatch.setattr(running.service, "stream", slow)
    sent = running.send({**QUESTION, "stream": stream})
    assert searching.wait(30)
    sent.close()
    time.sleep(0.3)
    go_on.set()
    until(lambda: running.admission.inside == 0)
    assert spent(running) == (0, 0)
    assert model.drawn == []


def test_an_answer_that_is_held_ends_at_a_token_too(paced):
    running, model = paced(max_tokens=8)
    running.service.corpora["notes"].settings["unsupported"] = "refuse"
    sent = running.send({**QUESTION, "stream": True})
    model.let(2)
    until(lambda: model.begun == 3)
    sent.close()
    time.sleep(0.3)
    model.let(100)
    until(lambda: running.admission.inside == 0)
    assert len(model.drawn) == 3
    assert spent(running)[1] == 0


def test_two_streams_alternate_token_by_token(paced):
    running, model = paced()
    first = running.send({**QUESTION, "stream": True})
    until(lambda: model.begun)
    second = running.send({**QUESTION, "stream": True})
    until(lambda: running.admission.inside == 2)
    time.sleep(0.2)  # the second one's search stands in the line
    model.let(100)
    until(lambda: running.admission.inside == 0)
    first.close()
    second.close()
    alone = model.drawn.index(2)  # tokens of the first before the second's search was done
    assert alone < 8
    assert model.drawn == [1] * alone + [2, 1] * (8 - alone) + [2] * alone


def test_an_answer_ends_at_a_token_when_its_time_is_over(paced, monkeypatch):
    running, model = paced(ServerLimits(seconds=5))
    now = [0.0]
    monkeypatch.setattr(running.admission, "clock", lambda: now[0])
    answers = []
    thread = threading.Thread(target=lambda: answers.append(running.ask()))
    thread.start()
    model.let(2)
    until(lambda: model.begun == 3)
    now[0] = 6.0
    model.let(100)
    thread.join(30)
    [answer] = answers
    assert answer.json()["choices"][0]["finish_reason"] == "length"
    assert answer.json()["usage"]["completion_tokens"] == 3
    assert spent(running)[1] == 0


def test_when_the_server_goes_down_answers_end_at_their_next_token(paced):
    running, model = paced(ServerLimits(together=1))
    with closing(running.send({**QUESTION, "stream": True})) as sent:
        model.let(2)
        until(lambda: model.begun == 3)
        waiting = running.send(QUESTION)
        until(lambda: running.admission.inside == 2)
        running.server.handle_exit(15, None)
        refused = running.ask()
        assert refused.status_code == 503
        assert refused.headers["retry-after"]
        assert running.client.get("/ready").status_code == 503
        assert running.client.get("/health").status_code == 200
        model.let(1)
        text = sent.read()
        with closing(waiting):
            assert b" 503 " in waiting.read()
    *_, last, done = [line[6:] for line in text.decode().splitlines() if line[:6] == "data: "]
    assert done == "[DONE]"
    assert json.loads(last)["choices"][0]["finish_reason"] == "length"
    assert len(model.drawn) == 3
    running.thread.join(30)
    assert not running.thread.is_alive()
    with pytest.raises(LedgerError):  # it is closed
        running.service.ledger.status()


def test_a_draw_that_fails_ends_the_stream_with_an_error_and_pays_nothing_more(paced, monkeypatch):
    running, model = paced()

    def draw(number):
        if len(model.drawn) == 2:
            raise RuntimeError("a document says swordfish")
        model.drawn.append(number)

    monkeypatch.setattr(model, "draw", draw)
    for stream in (True, False):
        model.drawn.clear()
        answer = running.ask(stream=stream)
        assert "swordfish" not in answer.text
        assert '"code": "unavailable"' in answer.text
    assert answer.status_code == 500
    until(lambda: running.admission.inside == 0)
    assert spent(running)[1] == 0


def test_a_server_whose_ledger_cannot_be_written_is_not_ready_and_answers_nothing(paced):
    running, model = paced()
    model.open = True
    ledger = running.service.ledger
    ledger._database.read(lambda connection: connection.execute("PRAGMA busy_timeout = 50"))
    assert running.client.get("/ready").status_code == 200
    with closing(sqlite3.connect(ledger._database.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        refused = running.ask()
        assert (refused.status_code, running.client.get("/ready").status_code) == (503, 503)
        assert str(ledger._database.path) not in refused.text
        assert running.client.get("/health").status_code == 200
        other.execute("ROLLBACK")
    assert running.client.get("/ready").status_code == 200
    assert running.ask().status_code == 200
    assert len(model.drawn) == 8
    assert spent(running)[1] == 0


# ---- counts, which go in steps ----

COUNT = {"model": "notes", "kind": "count", "question": "Is it about an office?"}


@pytest.fixture
def counted(paced, monkeypatch):
    """A count whose first step of forty is waiting, and the time that its server sees."""
    monkeypatch.setattr(
        "dpicl_rag.surveys.tallies.units_of_a_step", lambda tokens: 1, raising=False
    )
    # A made-up model has labels of one letter.
    monkeypatch.setattr("dpicl_rag.surveys.tallies.LABELS", ("a", "b"))

    running, model = paced(ServerLimits(seconds=5))
    now = [0.0]
    monkeypatch.setattr(running.admission, "clock", lambda: now[0])
    with closing(running.send(COUNT, "/v1/surveys")) as sent:
        until(lambda: model.begun)
        yield running, model, sent, now


def test_others_are_answered_between_two_steps_of_a_count(counted):
    running, model, sent, _ = counted
    with closing(running.send(QUESTION)) as other:
        until(lambda: running.admission._thread._line)
        model.open, model.seconds = True, 0.02
        model.let(1)
        assert b"200 OK" in other.read()
        assert b"say yes" in sent.read()
    until(lambda: running.admission.inside == 0)
    # The count reads anew for each step, the answer once.
    answer = max(set(model.drawn), key=model.drawn.count)
    steps = [number for number in model.drawn if number != answer]
    assert len(steps) == len(NOTES)
    assert model.drawn.index(answer) < model.drawn.index(steps[-1])


def hang_up(running, sent, now):
    sent.close()
    time.sleep(0.3)  # for the news to come, while the first step is waiting


def time_is_over(running, sent, now):
    now[0] = 6.0


def go_down(running, sent, now):
    running.server.handle_exit(15, None)


@pytest.mark.parametrize("end", [hang_up, time_is_over, go_down])
def test_a_count_ends_at_its_next_step_and_costs_nothing(counted, end):
    running, model, sent, now = counted
    end(running, sent, now)
    model.let(100)
    if end is not hang_up:
        said = sent.read().decode()
        assert " 503 " in said
        assert "x-should-retry: false" in said
        assert "nothing was released, and it cost nothing" in said
    until(lambda: running.admission.inside == 0)
    assert len(model.drawn) == 1
    if end is not go_down:
        assert spent(running) == (0, 0)
