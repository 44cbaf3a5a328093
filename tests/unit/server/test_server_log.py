"""The log: one line for every question, of public numbers."""

from __future__ import annotations

import io
import json
import logging
import time
import warnings

import pytest

from dpicl_rag.server.request_log import Exchange, RequestLog
from tests.support.paced_model import PacedModel
from tests.unit.server.test_server_ends import QUESTION, until


@pytest.fixture
def lines(serve, keys):
    """What a server wrote, after it was asked."""

    def asked(*questions, questions_too=False, **more):
        stream, key = io.StringIO(), keys.add("ann")
        request_log = RequestLog(stream, questions=questions_too)
        running = serve(keys, model=PacedModel(open=True), request_log=request_log, **more)
        headers = {"Authorization": f"Bearer {key}"}
        for question in questions:
            running.client.post("/v1/chat/completions", json=question, headers=headers)
        until(lambda: stream.getvalue().count("\n") == len(questions))
        return [json.loads(line) for line in stream.getvalue().splitlines()]

    return asked


def test_every_question_has_a_line(lines):
    found = lines(QUESTION, {**QUESTION, "stream": True}, {**QUESTION, "model": "payroll"})
    for line in found:
        assert line.pop("time").endswith("+00:00")
    answered = {"caller": "ann", "corpus": "notes", "status": 200, "tokens": 8}
    # A stream's line may come after that of a question which its client asked next.
    assert sorted(found, key=lambda line: line["status"]) == [
        {**answered, "stopped_by": "length"},
        {**answered, "stopped_by": "length"},
        {"caller": "ann", "corpus": "", "status": 404, "tokens": 0, "stopped_by": None},
    ]


@pytest.mark.parametrize("stream", [True, False])
def test_a_refused_question_has_one_too(lines, stream):
    [line] = lines({**QUESTION, "stream": stream}, budget=1e-6)
    assert (line["status"], line["tokens"], line["corpus"]) == (429, 0, "notes")


def test_questions_are_written_down_where_that_is_asked_for(lines):
    [line] = lines(QUESTION, questions_too=True)
    assert line["question"] == "Where is the office?"


def test_it_does_not_go_through_logging(lines):
    logging.disable(logging.CRITICAL)  # as the command line does
    try:
        assert len(lines(QUESTION)) == 1
    finally:
        logging.disable(logging.NOTSET)


def test_who_hung_up_before_anything_was_sent_has_status_499(serve):
    stream, model = io.StringIO(), PacedModel()
    running = serve(model=model, request_log=RequestLog(stream))
    sent = running.send(QUESTION)
    until(lambda: model.begun)
    sent.close()
    until(lambda: running.admission.inside == 1)
    model.let(100)
    until(stream.getvalue)
    line = json.loads(stream.getvalue())
    assert (line["status"], line["stopped_by"]) in [(499, "length"), (200, "length")]


def test_a_log_that_nobody_reads_any_more_stops_nothing():
    stream = io.StringIO()
    request_log = RequestLog(stream)
    stream.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        request_log.write(Exchange(), 200)
        request_log.write(Exchange(), 200)


def test_a_stream_that_its_client_left_has_status_499(serve):
    stream, model = io.StringIO(), PacedModel()
    running = serve(model=model, request_log=RequestLog(stream))
    sent = running.send({**QUESTION, "stream": True})
    model.let(3)
    until(lambda: model.begun == 4)
    sent.close()
    time.sleep(0.3)  # for the news to come, while the fourth draw is waiting
    model.let(100)
    until(stream.getvalue)
    line = json.loads(stream.getvalue())
    assert line["status"] == 499
    assert line["tokens"] == 4


def test_a_stream_that_was_read_to_its_end_has_status_200(serve):
    stream = io.StringIO()
    running = serve(model=PacedModel(open=True), request_log=RequestLog(stream))
    with running.client.stream("POST", "/v1/chat/completions", json=QUESTION) as answer:
        answer.read()
    until(stream.getvalue)
    assert json.loads(stream.getvalue())["status"] == 200
