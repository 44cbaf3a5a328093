"""Bundles that owners publish over HTTP: the price first, then the job, and the bundle."""

from __future__ import annotations

import io
from zipfile import ZipFile

import pytest

from dpicl_rag import Bundle, Document
from dpicl_rag.server.service import ServedCorpus
from tests.unit.server.conftest import CANTEEN
from tests.unit.server.test_server_uploads import ended

PATH = "/v1/owner/publications"
BODY = {
    "corpus": "notes",
    "epsilon": 4.0,
    "survey": False,
    "columns": ["status=open,closed", "status"],
}
NOTES = [
    Document(f"The canteen opens at noon. {n}", f"unit-{n}", {"status": "open"}) for n in range(60)
]


@pytest.fixture
def publishing(serve, tmp_path):
    running = serve(model=CANTEEN, owner={"published": tmp_path / "published"})
    running.service.corpora = {"notes": ServedCorpus(NOTES)}
    return running


def spent(running):
    return [one.spent for one in running.service.ledger.status()]


def test_the_price_is_told_before_anything_is_paid(publishing):
    found = publishing.client.post(f"{PATH}/plan", json={**BODY, "questions": ["Who?"]}).json()
    assert [one["name"] for one in found["parts"]] == ["column", "column", "answer"]
    assert found["rho"] == pytest.approx(sum(one["rho"] for one in found["parts"]))
    assert spent(publishing) == [0.0]


def test_a_label_head_is_an_item_as_others(publishing, tmp_path):
    body = {**BODY, "columns": [], "label_columns": ["status = open, closed"]}
    plan = publishing.client.post(f"{PATH}/plan", json=body).json()
    assert [one["name"] for one in plan["parts"]] == ["label-head"]
    assert publishing.client.post(PATH, json=body).status_code == 202
    assert ended(publishing)["state"] == "done"
    assert spent(publishing) == [pytest.approx(plan["rho"])]
    [head] = Bundle.open(tmp_path / "published" / "notes").items
    assert (head.kind, head.numbers["labels"]) == ("label-head", ["open", "closed"])


def test_a_bundle_is_published_once_and_can_be_taken(publishing, tmp_path):
    two = {**BODY, "columns": ["status = open, closed", "owner=ann"]}
    plan = publishing.client.post(f"{PATH}/plan", json=two).json()
    assert publishing.client.get(f"{PATH}/notes").json()["error"]["code"] == "no_bundle"
    assert publishing.client.post(PATH, json=two).status_code == 202
    job = ended(publishing)
    assert (job["state"], job["result"]["items"], job["error"]) == ("done", 2, None)
    assert spent(publishing) == [pytest.approx(plan["rho"])]
    again = publishing.client.post(PATH, json=two)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "published")
    packed = publishing.client.get(f"{PATH}/notes")
    assert packed.headers["content-type"] == "application/zip"
    ZipFile(io.BytesIO(packed.content)).extractall(tmp_path / "elsewhere")
    taken = Bundle.open(tmp_path / "elsewhere")
    assert taken == Bundle.open(tmp_path / "published" / "notes")
    assert taken.find("How many have each status?").text.startswith("About ")
    assert publishing.client.post(PATH, json={**two, "again": True}).status_code == 202
    assert ended(publishing)["state"] == "done"
    assert spent(publishing) == [pytest.approx(2 * plan["rho"])]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"corpus": "payroll"}, 404),
        ({"corpus": "public"}, 400),
        ({"epsilon": 0}, 400),
        ({"epsilon": "NaN"}, 400),
        ({"columns": []}, 400),
        ({"questions": [""]}, 400),
        ({"columns": ["=open"]}, 400),
        ({"label_columns": ["status"]}, 400),
        ({"folder": "/"}, 400),
    ],
)
def test_what_cannot_be_published_is_refused(publishing, change, status):
    assert publishing.client.post(f"{PATH}/plan", json={**BODY, **change}).status_code == status


def test_nothing_is_published_where_no_folder_is_for_it(serve):
    assert serve().client.post(f"{PATH}/plan", json=BODY).json()["error"]["code"] == (
        "no_publications"
    )
