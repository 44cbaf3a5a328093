"""`/v1/plan`: what is done with a question and what it costs, before anything is paid."""

from __future__ import annotations

import io

import pytest

from dpicl_rag.server.request_log import RequestLog
from dpicl_rag.server.service import ServedCorpus
from tests.unit.server.conftest import CANTEEN, NOTES, bearer

LIFT = "How many people complain about the lift?"


def told(server, question, **more):
    return server.client.get("/v1/plan", params={"model": "notes", "question": question, **more})


@pytest.mark.parametrize(
    ("question", "given", "kind", "labels"),
    [
        ("When does it open?", {}, "answer", []),
        (LIFT, {}, "count", []),
        ("And about the heating?", {"before": LIFT}, "count", []),
        ("And about the heating?", {"before": LIFT, "kind": "answer"}, "answer", []),
        ("Is it about food?", {"labels": ["food", "rent"]}, "tally", ["food", "rent"]),
        ("What are they about?", {}, "survey", []),
        ("What did Mrs Miller write?", {}, "person", []),
        ("Thank you!", {}, "answer", []),
    ],
)
def test_a_question_has_a_kind_and_a_price_and_nothing_is_spent_or_logged(
    serve, question, given, kind, labels
):
    log = io.StringIO()
    server = serve(model=CANTEEN, request_log=RequestLog(log, questions=True))
    found = told(server, question, **given).json()
    assert (found["kind"], found["labels"]) == (kind, labels)
    free = question.startswith(("Thank", "What did"))
    assert (found["epsilon"], found["rho"] == 0) == (0.0 if free else 8.0, free)
    assert (found["within"] is not None) == (kind in ("count", "tally"))
    (status,) = server.service.ledger.status()
    assert (status.spent, status.reserved, log.getvalue()) == (0, 0, "")


@pytest.mark.parametrize("fields", [{"kind": "tally"}, {"kind": "label"}, {"column": "status"}])
def test_what_is_told_is_charged(serve, fields):
    server = serve()
    server.service.corpora = {"notes": ServedCorpus(NOTES, {"accounting": "fixed"})}
    asked = {**fields, "labels": ["office", "canteen"]}
    plan = told(server, "What is it?", **asked).json()
    answer = server.ask("What is it?", dpicl=asked).json()["privacy"]
    assert answer["kind"] == plan["kind"] == fields.get("kind", "column")
    assert answer["rho"] == pytest.approx(plan["rho"], rel=1e-6)
    assert server.service.ledger.status()[0].spent == pytest.approx(answer["rho"])


def test_a_plan_is_refused_as_its_question_is(serve, keys):
    server = serve(keys)
    server.client.headers = {}
    assert told(server, LIFT).status_code == 401
    server.client.headers = bearer(keys.add("ann", corpora=["other"]))
    assert told(server, LIFT).status_code == 404
    server.client.headers = bearer(keys.add("bob"))
    few = told(server, "Which?", kind="tally").json()["error"]
    assert (few["param"], few["message"][:24]) == ("labels", "give at least two labels")


def test_a_kind_is_insisted_on_in_the_middle_of_a_conversation(serve):
    server = serve()
    turns = [("user", LIFT), ("assistant", "About 3."), ("user", "And about the office?")]
    body = {
        "model": "notes",
        "messages": [{"role": role, "content": text} for role, text in turns],
        "max_tokens": 8,
        "dpicl": {"kind": "tally", "labels": ["yes", "no"]},
    }
    found = server.client.post("/v1/chat/completions", json=body).json()
    assert found["question"] == "How many people complain about the office?"
    assert found["privacy"]["kind"] == "tally"
