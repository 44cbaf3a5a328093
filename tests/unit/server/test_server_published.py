"""A published bundle behind the server: answers and counts for nothing, without documents."""

from __future__ import annotations

import pytest

from dpicl_rag import Bundle, Corpus, Document, PrivateContextLLM, Request, publish
from dpicl_rag.knowledge import PublishedItem
from dpicl_rag.results import UNSUPPORTED
from dpicl_rag.server.service import ServedCorpus
from tests.support.bucket_embedder import BucketEmbedder
from tests.unit.server.conftest import CANTEEN

LABELS = ("travel", "work")
ASKED = "what about?"
OPENS = "When does the canteen open?"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    place = tmp_path_factory.mktemp("bundle")
    folder = place / "published"
    requests = [Request.of("tally", question=ASKED, labels=LABELS, by="vectors")]
    told = PublishedItem("answer", OPENS, "At noon.", {}, 1.0, 1e-5, 0.0, True, True)
    with Corpus.create("notes", place, embedder=BucketEmbedder()) as corpus:
        corpus.add([Document("travel", f"unit-{n}") for n in range(30)], no_ledger=True)
        publish(PrivateContextLLM(CANTEEN), corpus, folder, requests, epsilon=2.0, beside=[told])
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
