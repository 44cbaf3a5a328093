"""A published bundle behind the server: answers and counts for nothing, without documents."""

from __future__ import annotations

import pytest

from dpicl_rag import Bundle, Corpus, Document, PrivateContextLLM, Request, publish
from dpicl_rag.knowledge import PublishedItem
from dpicl_rag.results import UNSUPPORTED
from dpicl_rag.server.service import ServedCorpus
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.tool_client import found
from tests.unit.server.conftest import CANTEEN
from tests.unit.server.test_server_mcp import call

LABELS = ("travel", "work")
STATUS = ("open", "closed")
ASKED = "what about?"
OPENS = "When does the canteen open?"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    place = tmp_path_factory.mktemp("bundle")
    folder = place / "published"
    requests = [
        Request.of("tally", question=ASKED, labels=LABELS, by="vectors"),
        Request.of("column", column="status", labels=STATUS),
        Request.of("label-head", column="status", labels=STATUS),
    ]
    told = PublishedItem("answer", OPENS, "At noon.", {}, 1.0, 1e-5, 0.0, True, True)
    with Corpus.create("notes", place, embedder=BucketEmbedder()) as corpus:
        said = (("travel", "open"), ("work", "closed"))
        corpus.add(
            [
                Document(text, f"{text}-{n}", {"status": own})
                for n in range(60)
                for text, own in said
            ],
            no_ledger=True,
        )
        publish(PrivateContextLLM(CANTEEN), corpus, folder, requests, epsilon=4.0, beside=[told])
    return Bundle.open(folder, embedder=BucketEmbedder())


@pytest.fixture
def alone(serve, bundle):
    """A server that has the bundle, and no documents."""
    running = serve(model=CANTEEN)
    running.service.corpora = {"notes": ServedCorpus(bundle)}
    return running


def spent(running):
    return [one.spent for one in running.service.ledger.status()]


@pytest.mark.parametrize(
    ("question", "said", "by"),
    [(OPENS, "At noon.", "published"), ("Who repairs the lift?", UNSUPPORTED, None)],
)
def test_chat_is_answered_from_a_bundle_alone(alone, question, said, by):
    reply = alone.ask(question).json()
    assert reply["choices"][0]["message"]["content"] == said
    assert (reply["privacy"]["by"], reply["privacy"]["epsilon"]) == (by, 0.0)
    assert spent(alone) == [0.0]


def test_counts_are_those_of_the_bundle(alone, bundle):
    body = {"model": "notes", "kind": "tally", "question": ASKED, "labels": list(LABELS)}
    body["by"] = "vectors"
    found = alone.client.post("/v1/surveys", json=body).json()
    assert found["counts"] == bundle.items[0].numbers["counts"]
    assert (found["rho"], found["from_memory"]) == (0.0, True)
    body["labels"] = ["others", "work"]
    refused = alone.client.post("/v1/surveys", json=body)
    assert refused.status_code == 404
    assert "was not published" in refused.json()["error"]["message"]
    assert spent(alone) == [0.0]


def test_a_columns_counts_are_those_of_the_bundle(alone, bundle):
    body = {"model": "notes", "kind": "column", "column": "status", "labels": list(STATUS)}
    told = alone.client.post("/v1/surveys", json=body).json()
    assert told["counts"] == bundle.items[1].numbers["counts"]
    asked = "How many have each status?"
    reply = alone.ask(asked, dpicl={"column": "status", "labels": list(STATUS)}).json()
    assert reply["privacy"]["numbers"]["counts"] == told["counts"]
    assert (reply["privacy"]["kind"], reply["privacy"]["rho"]) == ("column", 0.0)
    assert spent(alone) == [0.0]


def test_new_texts_get_labels_from_a_bundle_alone(alone):
    for text, label in (("travel", "open"), ("work", "closed")):
        reply = alone.ask(text, dpicl={"kind": "label"}).json()
        assert reply["choices"][0]["message"]["content"] == label
        told = reply["privacy"]
        assert (told["kind"], told["by"], told["numbers"]) == (
            "label",
            "published",
            {"label": label},
        )
        assert (told["epsilon"], told["rho"]) == (0.0, 0.0)
    other = {"kind": "label", "labels": ["yes", "no"]}
    refused = alone.ask("travel", dpicl=other)
    assert refused.status_code == 400
    assert "open, closed" in refused.json()["error"]["message"]
    plan = alone.client.get(
        "/v1/plan", params={"model": "notes", "question": "travel", "kind": "label"}
    )
    assert (plan.json()["kind"], plan.json()["rho"]) == ("label", 0.0)
    assert spent(alone) == [0.0]


def test_agents_get_labels_and_columns_from_a_bundle_alone(alone):
    for given, text in (
        ({"question": "work", "kind": "label"}, "closed"),
        ({"question": "How many have each status?", "column": "status", "labels": [*STATUS]}, None),
    ):
        told = found(call(alone, "ask", **given))
        assert text is None or told["text"] == text
        assert (told["epsilon"], told["rho"], told["from_memory"]) == (0.0, 0.0, True)
    assert spent(alone) == [0.0]


def test_its_budget_is_that_nothing_is_spent(alone):
    [found] = alone.client.get("/v1/budget").json()["data"]
    assert (found["epsilon"], found["answers_left"], found["scopes"]) == (0.0, None, [])


def test_beside_documents_a_bundle_is_read_first(serve, bundle):
    running = serve(model=CANTEEN)
    [served] = running.service.corpora.values()
    running.service.corpora = {"notes": ServedCorpus(served.documents, published=bundle)}
    assert running.ask(OPENS).json()["choices"][0]["message"]["content"] == "At noon."
    assert spent(running) == [0.0]
    running.ask("Where is the office?")
    assert spent(running) > [0.0]
