"""`/v1/surveys`: counts, tallies and surveys of a corpus, and what is refused."""

import asyncio
import re
import threading
from contextlib import closing
from types import SimpleNamespace

import pytest
from fastapi import Request

from dpicl_rag import Document
from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.corpora import Corpus
from dpicl_rag.server.admission import Admission, ServerLimits
from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.routers.question_endpoints import SurveyRequest, surveys
from dpicl_rag.server.settings import CorpusSettings
from tests.support.bucket_embedder import BucketEmbedder
from tests.unit.server.conftest import SECRET

PRICE = epsilon_to_rho(8.0, 1e-5)


@pytest.fixture(autouse=True)
def embedder(monkeypatch):
    monkeypatch.setattr("dpicl_rag.surveys.surveying.SentenceTransformerEmbedder", BucketEmbedder)


@pytest.fixture
def server(serve):
    return serve(budget=3.5 * PRICE, accounting="fixed")


def ask(server, **body):
    return server.client.post("/v1/surveys", json={"model": "notes", **body})


def test_a_count_has_an_interval_and_a_price(server):
    found = ask(server, kind="count", question="Is it about an office?").json()
    assert (found["model"], found["kind"], found["complete"]) == ("notes", "count", True)
    assert found["yes"]["low"] <= found["yes"]["units"] <= found["yes"]["high"] <= 60
    assert (found["epsilon"], found["delta"]) == (8.0, 1e-5)
    assert found["text"].endswith("95 in 100 that say no.")


def test_metrics_tell_what_counts_were_charged(server):
    chat = {"messages": [{"role": "user", "content": "Who?"}], "dpicl": {"kind": "survey"}}
    for path, body in (("/v1/surveys", {"kind": "survey"}), ("/v1/chat/completions", chat)):
        server.client.post(path, json={"model": "notes", **body})
        metrics = server.client.get("/metrics").text
        [told] = re.findall(r'^dpicl_rho_total{corpus="notes"} (.+)', metrics, re.M)
        assert float(told) == pytest.approx(server.service.ledger.status()[0].spent)


def test_a_tally_and_a_survey_come_out_of_the_same_budget(server):
    tally = ask(server, kind="tally", question="what?", labels=["office", "canteen"]).json()
    assert list(tally["counts"]) == ["office", "canteen"]
    assert tally["total"]["low"] <= 40 <= tally["total"]["high"]
    survey = ask(server, kind="survey").json()
    assert survey["smallest"] > 0
    assert survey["total"]["low"] <= 40 <= survey["total"]["high"]
    assert ask(server, kind="survey", question="what of the office?").status_code == 200
    again = ask(server, kind="survey").json()
    assert (again["from_memory"], again["rho"]) == (True, 0.0)
    refused = ask(server, kind="survey", fresh=True)
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "budget_exceeded"


@pytest.mark.heavy
def test_a_tally_by_vectors_reads_nothing(server, monkeypatch):
    monkeypatch.setattr("dpicl_rag.answering.labels.label_step", None)
    found = ask(server, kind="tally", question="what?", labels=["office", "food"], by="vectors")
    assert list(found.json()["counts"]) == ["office", "food"]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"kind": "count"}, 400, "a count needs a question"),
        ({"kind": "tally", "question": "what?", "labels": ["one"]}, 400, "at least two labels"),
        ({"kind": "tally", "question": "w?", "labels": ["a", "b"], "most": 3}, 400, "3 of 2"),
        ({"kind": "median"}, 400, "kind"),
        ({"kind": "count", "question": "w?", "sample": 0}, 400, "sample"),
        ({"kind": "count", "question": "w?", "sample": 1e-300}, 400, "sample"),
        ({"kind": "survey", "sample": 5e-324}, 400, "sample"),
        ({"kind": "column", "column": "x", "most": 1001}, 400, "most"),
        ({"kind": "column", "column": " "}, 400, "name the column"),
        ({"kind": "tally", "question": "w?", "labels": [" ", "b"], "by": "vectors"}, 400, "empty"),
        ({"kind": "count", "question": "w?", "epsilon": 9}, 400, "epsilon"),
        ({"kind": "count", "question": "w?", "model": "public"}, 400, "reads no documents"),
        ({"kind": "count", "question": "w?", "model": "other"}, 404, "no such model"),
    ],
)
def test_what_cannot_be_counted_is_refused_and_costs_nothing(server, body, status, message):
    refused = ask(server, **body)
    assert refused.status_code == status
    assert message in refused.text
    assert server.service.ledger.status()[0].spent == 0


def test_the_plan_says_how_long_labels_may_be_and_longer_ones_are_refused(server):
    plan = server.client.get("/v1/surveys", params={"model": "notes"}).json()
    assert plan["label_tokens"] == 1024
    long = [f"{n} " + "word " * 60 for n in range(40)]
    refused = ask(server, kind="tally", question="what?", labels=long)
    assert refused.status_code == 400
    assert "each unit can be asked 1,024; give fewer or shorter labels" in refused.text
    assert server.service.ledger.status()[0].spent == 0


def test_nobody_without_a_key_counts(serve, keys):
    server = serve(keys)
    assert ask(server, kind="survey").status_code == 401


def test_nothing_private_is_said(server):
    for body in ({"kind": "survey"}, {"kind": "count", "question": "a?"}):
        assert SECRET not in ask(server, **body).text


@pytest.fixture
def stored(tmp_path):
    with closing(Corpus.create("stored", tmp_path / "store", embedder=BucketEmbedder())) as corpus:
        corpus.add([Document(f"The office is in Elm Lane {n}.", f"unit {n}") for n in range(200)])
        yield corpus


def test_a_corpus_is_counted_whole_though_it_is_searched_for_answers(server, stored):
    settings = CorpusSettings.create(accounting="fixed")
    server.service.offer("stored", settings.served(stored))
    labels = ["office", "canteen"]
    tally = ask(server, model="stored", kind="tally", question="what?", labels=labels)
    survey = ask(server, model="stored", kind="survey")
    for found in (tally, survey):
        assert found.status_code == 200, found.text
        total = found.json()["total"]
        assert 150 < total["low"] <= 200 <= total["high"]


async def test_a_client_that_left_while_it_waited_is_not_counted_for():
    def count(*_):
        pytest.fail("counted")

    async def gone():
        return {"type": "http.disconnect"}

    admission, free = Admission(ServerLimits()), threading.Event()
    service = SimpleNamespace(corpus=lambda *_: None, run=count)
    parts = SimpleNamespace(admission=admission, service=service)
    before = asyncio.create_task(admission.take(free.wait))
    body = SurveyRequest(model="notes", kind="count", question="Is it about an office?")
    asking = surveys(body, Request({"type": "http"}, gone), parts, Caller(None))
    waiting = asyncio.create_task(asking)
    for _ in range(20):  # until the news has come
        await asyncio.sleep(0)
    free.set()
    assert (await waiting).status_code == 499
    assert await before
    assert admission.inside == 0
    await admission.end(lambda: None)


MANY, PERSON, ABOUT = (
    "How many notes are about an office?",
    "What did Ada write?",
    "What are they about?",
)


def chat(server, question, **more):
    messages = [{"role": "user", "content": question}]
    given = {"model": "notes", "messages": messages, "max_tokens": 9, **more}
    return server.client.post("/v1/chat/completions", json=given)


@pytest.mark.parametrize(("question", "kind"), [(MANY, "count"), (ABOUT, "survey")])
def test_a_chat_counts_what_is_to_be_counted_for_the_price_that_was_told(server, question, kind):
    told = server.client.get("/v1/plan", params={"model": "notes", "question": question}).json()
    found = chat(server, question).json()
    assert (told["kind"], found["privacy"]["kind"]) == (kind, kind)
    assert found["privacy"]["rho"] == pytest.approx(told["rho"]) == pytest.approx(PRICE)
    assert found["choices"][0]["message"]["content"]
    assert found["privacy"]["numbers"].keys() & {"yes", "themes"}
    [spent] = [one.spent for one in server.service.budgets("notes", Caller(None))]
    assert spent == pytest.approx(PRICE)


def test_a_chat_pays_nothing_for_one_person_and_asks_for_a_fact_where_that_is_wanted(server):
    found = chat(server, PERSON).json()
    assert (found["privacy"]["kind"], found["privacy"]["rho"]) == ("person", 0.0)
    streamed = chat(server, MANY, stream=True).text
    assert '"kind": "count"' in streamed
    assert chat(server, MANY, dpicl={"kind": "answer"}).json()["privacy"]["kind"] == "answer"
