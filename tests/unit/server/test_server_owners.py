"""What owners may do over HTTP, what they see, and what callers do not."""

from __future__ import annotations

import pytest

from dpicl_rag.server.api_keys import KeyFile
from dpicl_rag.server.service import Service
from dpicl_rag.server.uploads import Uploads
from tests.support.bucket_embedder import BucketEmbedder
from tests.unit.server.conftest import CANTEEN
from tests.unit.server.test_server_audits import AUDIT
from tests.unit.server.test_server_uploads import TABLE, ended, upload


def test_budgets_of_corpora_and_callers(serve, keys, uploads):
    keys.add("ann")
    owner = keys.add("olga", role="owner")
    running = serve(keys, model=CANTEEN, owner={"uploads": uploads})
    running.client.headers["Authorization"] = f"Bearer {owner}"
    for kind, name in (("corpus", "notes"), ("caller", "ann")):
        body = {"kind": kind, "name": name, "epsilon": 4.0, "period": "month"}
        found = running.client.post("/v1/owner/budgets", json=body).json()
        assert found["budget_epsilon"] == pytest.approx(4.0, rel=1e-3)
        assert found["renews_on"]
    overview = running.client.get("/v1/owner").json()
    assert overview["callers"] == ["ann", "olga"]
    assert {one["name"] for one in overview["budgets"]} == {"notes", "ann"}
    body = {"kind": "corpus", "name": "notes", "epsilon": None}
    assert running.client.post("/v1/owner/budgets", json=body).json()["budget_rho"] is None


@pytest.mark.parametrize(
    "change",
    [
        {"name": "payroll"},
        {"name": "public"},
        {"kind": "caller"},
        {"kind": "unit"},
        {"epsilon": -1},
        {"epsilon": "NaN"},
        {"delta": 0},
        {"period": "week"},
    ],
)
def test_a_budget_of_nothing_or_of_no_number_is_refused(owned, change):
    body = {"kind": "corpus", "name": "notes", "epsilon": 4.0, **change}
    assert owned.client.post("/v1/owner/budgets", json=body).status_code in (400, 404)


OWNERS = [
    ("GET", "/v1/owner"),
    ("POST", "/v1/owner/documents"),
    ("GET", "/v1/owner/job"),
    ("POST", "/v1/owner/job/stop"),
    ("POST", "/v1/owner/budgets"),
    ("POST", "/v1/owner/open"),
    ("POST", "/v1/owner/audits"),
    ("GET", "/v1/owner/audits/notes"),
    ("GET", "/v1/owner/audits/notes/plot"),
    ("POST", "/v1/owner/publications/plan"),
    ("POST", "/v1/owner/publications"),
    ("GET", "/v1/owner/publications/notes"),
]


@pytest.mark.parametrize(("method", "path"), OWNERS)
def test_callers_are_no_owners(serve, keys, uploads, method, path):
    running = serve(keys, owner={"uploads": uploads})
    body = {"kind": "corpus", "name": "notes", "epsilon": 1, **AUDIT}
    sent = {} if method == "GET" else {"json": body}
    assert running.client.request(method, path, **sent).status_code == 401
    headers = {"Authorization": f"Bearer {keys.add('ann')}"}
    answer = running.client.request(method, path, headers=headers, **sent)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_owner")


def test_an_owner_of_some_corpora_sees_no_others(serve, keys, uploads):
    key = keys.add("olga", role="owner", corpora=["house-mail"])
    running = serve(keys, model=CANTEEN, owner={"uploads": uploads})
    running.client.headers["Authorization"] = f"Bearer {key}"
    found = running.client.get("/v1/owner").json()
    assert (found["corpora"], found["callers"], found["budgets"]) == ([], [], [])
    assert upload(running, corpus="notes").status_code == 403
    for kind, name in (("corpus", "notes"), ("caller", "olga")):
        body = {"kind": kind, "name": name, "epsilon": 4.0}
        assert running.client.post("/v1/owner/budgets", json=body).status_code in (403, 404)
    answer = running.client.get("/metrics")
    assert (answer.status_code, "notes" in answer.text) == (403, False)
    assert upload(running).status_code == 202
    assert ended(running)["state"] == "done"


def seen_by_ann(running, ann):
    """All that a caller may look at, but for the time."""
    found = []
    for method, path in [
        ("GET", "/v1/models"),
        ("GET", "/v1/budget"),
        ("GET", "/v1/memory"),
        ("GET", "/v1/caller"),
        ("GET", "/metrics"),
        ("GET", "/"),
        *OWNERS,
    ]:
        answer = running.client.request(method, path, headers=ann)
        headers = {name: value for name, value in answer.headers.items() if name != "date"}
        found.append((path, answer.status_code, headers, answer.text))
    return found


def neighbours_seen(serve, keys, tmp_path):
    """What a caller sees of a corpus, and of the same with a unit more."""
    ann = {"Authorization": f"Bearer {keys.add('ann')}"}
    owner = {"Authorization": f"Bearer {keys.add('olga', role='owner')}"}
    seen = []
    for folder, table in (("one", TABLE), ("more", f"{TABLE}80,the canteen is shut\n")):
        uploads = Uploads(tmp_path / folder, BucketEmbedder())
        running = serve(
            KeyFile(keys.path),
            model=CANTEEN,
            owner={"uploads": uploads},
            ledger=f"{folder}.sqlite",  # a name that a ledger knows is taken
        )
        running.client.headers.update(owner)
        answer = upload(running, table)
        assert answer.status_code == 202, answer.text
        assert ended(running)["state"] == "done"
        running.client.post("/v1/owner/open", json={"corpus": "house-mail"})
        seen.append(seen_by_ann(running, ann))
    return seen


def test_a_caller_sees_the_same_of_neighbouring_uploads(serve, keys, tmp_path):
    one, more = neighbours_seen(serve, keys, tmp_path)
    assert one == more
    assert [status for _, status, _, _ in one][:4] == [200] * 4


def test_a_count_on_a_callers_view_would_be_found(serve, keys, tmp_path, monkeypatch):
    honest = Service.budget

    def counting(service, name, caller):
        documents = service.corpora[name].documents
        held = len(documents.source.records()) if name == "house-mail" else 0
        return honest(service, name, caller) | {"passages": held}

    monkeypatch.setattr(Service, "budget", counting)
    one, more = neighbours_seen(serve, keys, tmp_path)
    assert one != more
