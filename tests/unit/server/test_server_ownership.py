"""What an owner uploads has a budget, and is that owner's key's alone until it is opened."""

from __future__ import annotations

from contextlib import closing

import pytest

from dpicl_rag import Document
from dpicl_rag.accounting import epsilon_to_rho
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.corpora import Corpus
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.server.api_keys import KeyFile
from dpicl_rag.server.settings import CorpusSettings
from dpicl_rag.server.uploads import Uploads
from tests.support.bucket_embedder import BucketEmbedder
from tests.unit.server.conftest import CANTEEN, bearer
from tests.unit.server.test_server_audits import REPORT, auditing
from tests.unit.server.test_server_uploads import Held, ended, upload

QUESTION = "When does the canteen open?"

REST = SHARES.beside_pool(1e-6)  # budgets keep their epsilon at this part of delta


@pytest.fixture
def start(serve, keys, tmp_path):
    """A server over one store; another one is a restart."""

    def start(embedder=None, **settings):
        settings = CorpusSettings.create(**settings)
        uploads = Uploads(tmp_path / "store", embedder or BucketEmbedder(), settings)
        # A file of its own: a server closes it.
        return serve(KeyFile(keys.path), model=CANTEEN, owner={"uploads": uploads})

    return start


@pytest.fixture
def uploaded(start, keys):
    """A server with an upload of Olga's, who is an owner as Otto is; Ann is a caller."""
    running = start()
    for name, role in (("olga", "owner"), ("otto", "owner"), ("ann", "caller")):
        setattr(running, name, bearer(keys.add(name, role=role)))
    running.client.headers.update(running.olga)
    assert upload(running).status_code == 202
    assert ended(running)["state"] == "done"
    return running


def restarted(start, running, tmp_path):
    """Another server over the same files, which serves what is in the store."""
    running.server.handle_exit(15, None)
    running.thread.join(30)
    again = start()
    corpus = Corpus.open("house-mail", tmp_path / "store", embedder=BucketEmbedder())
    again.service.offer("house-mail", CorpusSettings().served(corpus))
    for name in ("olga", "otto", "ann"):
        setattr(again, name, getattr(running, name))
    return again


def models(running, who):
    found = running.client.get("/v1/models", headers=who).json()["data"]
    return [model["id"] for model in found]


def asked(running, who, model="house-mail"):
    body = {"model": model, "messages": [{"role": "user", "content": QUESTION}]}
    return running.client.post("/v1/chat/completions", json=body, headers=who)


def budget_of(running, corpus="house-mail"):
    (found,) = [one.budget for one in running.service.ledger.status() if one.name == corpus]
    return found


def require_closed(running):
    """All that others get of the upload is what they get of a corpus that is not there."""
    for who in (running.ann, running.otto):
        assert models(running, who) == ["notes", "public"]
        for name in ("house-mail", "payroll"):
            answer = asked(running, who, name)
            assert (answer.status_code, answer.json()) == (404, asked(running, who, "no").json())
        assert "house-mail" not in running.client.get("/v1/budget", headers=who).text
        found = running.client.get("/v1/memory", params={"model": "house-mail"}, headers=who)
        assert found.status_code == 404
    for path in ("/v1/owner", "/metrics"):
        assert "house-mail" not in running.client.get(path, headers=running.otto).text
    client = running.client
    for name in ("house-mail", "payroll"):
        body = {"kind": "corpus", "name": name, "epsilon": None}
        answer = client.post("/v1/owner/budgets", json=body, headers=running.otto)
        assert answer.status_code == 404
        answer = client.post("/v1/owner/open", json={"corpus": name}, headers=running.otto)
        assert answer.status_code == 404
    assert asked(running, running.olga).status_code == 200
    assert 'corpus="house-mail"' in running.client.get("/metrics", headers=running.olga).text
    assert "house-mail" not in running.client.get("/metrics", headers=running.otto).text


def test_an_upload_is_its_owners_alone_also_after_a_restart(uploaded, start, tmp_path):
    require_closed(uploaded)
    require_closed(restarted(start, uploaded, tmp_path))


def test_an_upload_that_its_owner_opened_is_open_also_after_a_restart(
    uploaded, start, keys, tmp_path
):
    overview = uploaded.client.get("/v1/owner", headers=uploaded.olga).json()
    assert (overview["corpora"], overview["closed"]) == (["house-mail", "notes"], ["house-mail"])
    body = {"corpus": "house-mail"}
    answer = uploaded.client.post("/v1/owner/open", json=body, headers=uploaded.olga)
    assert answer.json() == {"corpus": "house-mail", "closed": False}
    other = bearer(keys.add("bob", corpora=["notes"]))

    def require_open(running):
        assert asked(running, running.ann).status_code == 200
        assert asked(running, other).status_code == 404
        overview = running.client.get("/v1/owner", headers=running.otto).json()
        assert (overview["corpora"], overview["closed"]) == (["house-mail", "notes"], [])

    require_open(uploaded)
    require_open(restarted(start, uploaded, tmp_path))


def test_what_is_added_to_an_open_corpus_does_not_close_it(uploaded):
    uploaded.client.post("/v1/owner/open", json={"corpus": "house-mail"})
    uploaded.client.headers.update(uploaded.otto)
    assert upload(uploaded, name="more.csv").status_code == 202
    assert ended(uploaded)["state"] == "done"
    assert asked(uploaded, uploaded.ann).status_code == 200


def test_an_uploads_key_that_is_made_again_is_another(uploaded, keys):
    keys.remove("olga")
    again = bearer(keys.add("olga", role="owner"))
    assert models(uploaded, again) == ["notes", "public"]
    assert keys.closed() == {"house-mail": None}
    with pytest.raises(ConfigurationError, match="nobody named 'olaf'"):
        keys.give_corpus("house-mail", "olaf")
    keys.give_corpus("house-mail", "olga")
    assert keys.closed() == {"house-mail": "olga"}
    assert models(uploaded, again) == ["house-mail", "notes", "public"]
    keys.open_corpus("house-mail")
    assert models(uploaded, uploaded.ann) == ["house-mail", "notes", "public"]


def test_an_upload_has_the_budget_of_one_answer_or_what_its_owner_gives(start, keys):
    running = start(epsilon=2.0, delta=1e-6)
    running.client.headers.update(bearer(keys.add("olga", role="owner")))
    assert running.client.get("/v1/owner").json()["upload_epsilon"] == 2.0
    upload(running)
    ended(running)
    assert budget_of(running) == pytest.approx(epsilon_to_rho(2.0, REST))
    upload(running, corpus="other-mail", epsilon="0.5")
    ended(running)
    assert budget_of(running, "other-mail") == pytest.approx(
        epsilon_to_rho(0.5, SHARES.beside_pool(1e-6))
    )
    upload(running, corpus="other-mail")  # the budget that it has
    ended(running)
    assert budget_of(running, "other-mail") == pytest.approx(
        epsilon_to_rho(0.5, SHARES.beside_pool(1e-6))
    )
    (scope,) = [one for one in running.service.ledger.status() if one.name == "other-mail"]
    assert scope.renews_on is None


@pytest.mark.parametrize("epsilon", ["-1", "0", "nan", "inf", "all", "1e9"])
def test_a_budget_that_is_no_number_is_refused(start, keys, epsilon):
    running = start()
    running.client.headers.update(bearer(keys.add("olga", role="owner")))
    answer = upload(running, epsilon=epsilon)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "epsilon")
    assert keys.closed() == {}


def test_an_upload_without_keys_has_a_budget_too(serve, tmp_path):
    uploads = Uploads(tmp_path / "store", BucketEmbedder())
    running = serve(model=CANTEEN, owner={"uploads": uploads})
    upload(running)
    ended(running)
    assert budget_of(running) == pytest.approx(running.service.price("house-mail"))


def test_an_upload_that_did_not_come_to_its_end_is_closed_and_has_a_budget(start, keys, tmp_path):
    embedder = Held()
    running = start(embedder)
    running.client.headers.update(bearer(keys.add("olga", role="owner")))
    upload(running)
    assert embedder.inside.wait(30)
    running.client.post("/v1/owner/job/stop")
    embedder.go.set()
    assert ended(running)["state"] == "stopped"
    assert Corpus.names(tmp_path / "store") == ["house-mail"]
    assert keys.closed() == {"house-mail": "olga"}
    assert budget_of(running) is not None


def test_answers_go_on_after_the_safe_count_of_the_first_budget(uploaded):
    for question in (QUESTION, "Does the canteen open at noon?"):
        body = {"model": "house-mail", "messages": [{"role": "user", "content": question}]}
        answer = uploaded.client.post("/v1/chat/completions", json=body, headers=uploaded.olga)
        assert answer.status_code == 200, answer.text
        assert not answer.json()["privacy"]["from_memory"]


def test_a_job_is_its_owners_alone(uploaded):
    mine = uploaded.client.get("/v1/owner/job", headers=uploaded.olga).json()
    assert mine["result"]["units"] == 80
    for method, path in (("GET", "/v1/owner/job"), ("POST", "/v1/owner/job/stop")):
        answer = uploaded.client.request(method, path, headers=uploaded.otto)
        assert answer.json()["error"]["code"] == "no_job"
    assert uploaded.client.get("/v1/owner", headers=uploaded.otto).json()["job"] is None


def test_a_job_of_another_owner_cannot_be_stopped(start, keys):
    embedder = Held()
    running = start(embedder)
    olga, otto = (bearer(keys.add(name, role="owner")) for name in ("olga", "otto"))
    running.client.headers.update(olga)
    upload(running)
    assert embedder.inside.wait(30)
    assert running.client.post("/v1/owner/job/stop", headers=otto).status_code == 404
    embedder.go.set()
    assert ended(running)["state"] == "done"


def test_the_audit_of_a_corpus_that_was_deleted_is_not_of_the_next_one(serve, keys, tmp_path):
    (tmp_path / "audits" / "house-mail").mkdir(parents=True)
    for name, text in (("audit.txt", "of Otto's documents"), ("summary.json", "{}")):
        (tmp_path / "audits" / "house-mail" / name).write_text(text)
    uploads = Uploads(tmp_path / "store", BucketEmbedder())
    owner = {"uploads": uploads, "auditor": auditing(tmp_path, REPORT)}
    running = serve(keys, model=CANTEEN, owner=owner)
    running.client.headers.update(bearer(keys.add("olga", role="owner")))
    assert (answer := upload(running)).status_code == 202, answer.text
    ended(running)
    answer = running.client.get("/v1/owner/audits/house-mail")
    assert answer.json()["error"]["code"] == "no_audit"


def test_a_name_that_is_taken_is_refused_alike_whose_ever_it_is(uploaded, keys, tmp_path):
    path = tmp_path / "store"
    with closing(Corpus.create("payroll", path, embedder=BucketEmbedder())) as corpus:
        corpus.add([Document("a salary", "one")])  # beside the server, which does not serve it
    uploaded.service.ledger.set_budget(corpus="elsewhere", rho=0.03)  # its store is not here
    some = bearer(keys.add("oda", role="owner", corpora=["oda-mail"]))
    answers = []
    for who, name in (
        (uploaded.otto, "house-mail"),
        (uploaded.otto, "payroll"),
        (uploaded.otto, "elsewhere"),
        (some, "house-mail"),
        (some, "payroll"),
        (some, "notes"),
        (some, "no-such"),
    ):
        uploaded.client.headers.update(who)
        answer = upload(uploaded, corpus=name)
        answers.append((answer.status_code, answer.json()))
    assert answers[0][0] == 403
    assert [one for one in answers if one != answers[0]] == []
    assert "`dpicl-rag ingest`" in answers[0][1]["error"]["message"]
    budgets = {one.name: one.budget for one in uploaded.service.ledger.status()}
    assert budgets["elsewhere"] == 0.03
    uploaded.client.headers.update(uploaded.olga)
    assert upload(uploaded).status_code == 202
