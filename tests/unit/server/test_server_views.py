"""What the page reads: itself, the caller, budgets and earlier answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpicl_rag import server
from dpicl_rag.knowledge import AnswerMemory
from tests.support.scripted_model import ScriptedModel
from tests.support.scripted_reader import ScriptedReader

OFFICE = ScriptedModel({"office": "The office is in Elm Lane.", "": "I cannot know that."})
KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
FILES = {
    path.name: KINDS[path.suffix]
    for path in (Path(server.__file__).parent / "page").iterdir()
    if path.name != "index.html"
}
READER = ScriptedReader(
    lambda prompt: "It is in Elm Lane." if "Document:" in prompt else "You find it in Elm Lane."
)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html"),
        *((f"/page/{name}", kind) for name, kind in FILES.items()),
    ],
)
def test_the_page_comes_with_its_policy(serve, path, kind):
    answer = serve().client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(kind)
    policy = dict(
        part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";")
    )
    assert set(policy) == {
        *("default-src", "script-src", "style-src", "connect-src", "img-src", "form-action"),
        *("base-uri", "frame-ancestors"),
    }
    assert set(policy.values()) == {"'self'", "'none'"}


def test_no_other_file_of_the_page_is_sent(serve):
    running = serve()
    for path in ("/page/__init__.py", "/page/../keys.py", "/page/..%2fkeys.py", "/page/"):
        assert running.client.get(path).status_code == 404


def test_the_page_holds_no_script_of_its_own(serve):
    page = serve().client.get("/").text
    assert "<script>" not in page
    assert " style=" not in page
    assert " onclick" not in page


def test_a_caller_knows_who_it_is(serve, keys):
    key = keys.add("ann")
    client = serve(keys).client
    assert client.get("/v1/caller").status_code == 401
    found = client.get("/v1/caller", headers={"Authorization": f"Bearer {key}"})
    assert found.json() == {"name": "ann", "role": "caller", "keys": True, "toy": False}


def test_a_budget_says_how_many_answers_it_pays_for(serve):
    running = serve(budget=10.0, model=OFFICE, agreement="off")

    def left():
        (found,) = running.client.get("/v1/budget").json()["data"]
        (scope,) = found["scopes"]
        assert found["answers_left"] == scope["answers_left"] <= scope["answers"]
        assert scope["remaining_epsilon"] <= scope["budget_epsilon"]
        return found["answers_left"]

    before = left()
    assert running.ask().status_code == 200
    assert left() == before - 1


@pytest.mark.parametrize(
    ("reading", "settings", "calls"),
    [
        ({}, {}, None),
        ({"reader": READER}, {}, {"answer": None, "count": None}),
        ({"reader": READER, "max_calls": 9}, {}, {"answer": 9, "count": 9}),
        ({"reader": READER, "max_calls": 9}, {"max_calls": 5}, {"answer": 5, "count": 5}),
    ],
    ids=("no reader", "all", "server's limit", "corpus's limit"),
)
def test_calls_of_a_reader_are_told_before(serve, reading, settings, calls):
    running = serve(model=OFFICE, reading=reading, **settings)
    (found,) = running.client.get("/v1/budget").json()["data"]
    assert found["calls"] == calls


def test_a_polished_answer_comes_with_what_was_released(serve):
    reading = {"reader": READER, "polish": True}
    running = serve(model=OFFICE, agreement="only", max_tokens=32, reading=reading)
    answer = running.ask().json()
    assert answer["choices"][0]["message"]["content"] == "You find it in Elm Lane."
    assert answer["privacy"]["released"] == "It is in Elm Lane."


def test_a_budget_without_a_limit_says_so(serve):
    running = serve(model=OFFICE)
    running.service.ledger.set_budget(corpus="notes", rho=float("inf"))
    (found,) = running.client.get("/v1/budget").json()["data"]
    assert found["answers_left"] is None
    assert found["scopes"][0]["budget_epsilon"] is None


def test_a_caller_sees_its_own_budget_and_that_of_its_corpora_and_no_others(serve, keys):
    key = keys.add("ann", corpora=["notes"])
    running = serve(keys, model=OFFICE)
    for name in ("ann", "bob"):
        running.service.ledger.set_budget(caller=name, rho=5.0)
    running.service.ledger.set_budget(corpus="payroll", rho=5.0)
    answer = running.client.get("/v1/budget", headers={"Authorization": f"Bearer {key}"})
    (found,) = answer.json()["data"]
    assert {(scope["kind"], scope["name"]) for scope in found["scopes"]} == {
        ("corpus", "notes"),
        ("caller", "ann"),
    }


def test_earlier_answers_are_those_of_the_caller(serve, keys):
    ann, bob = ({"Authorization": f"Bearer {keys.add(name)}"} for name in ("ann", "bob"))
    running = serve(keys, model=OFFICE)
    running.client.headers.update(ann)
    assert running.client.get("/v1/memory").json() == {"data": []}
    said = running.ask().json()["choices"][0]["message"]["content"]
    (entry,) = running.client.get("/v1/memory", params={"model": "notes"}).json()["data"]
    assert (entry["question"], entry["answer"]) == ("Where is the office?", said)
    assert entry["epsilon"] == 8.0
    assert running.ask().json()["privacy"]["from_memory"]
    running.client.headers.update(bob)
    assert running.client.get("/v1/memory").json() == {"data": []}
    assert not running.ask().json()["privacy"]["from_memory"]  # what ann was told is ann's


def test_an_answer_to_another_caller_changes_nothing_of_ones_own(serve, keys, monkeypatch):
    seen, remembered = [], AnswerMemory.nearest

    def nearest(self, question):
        seen.append((self.caller, found := remembered(self, question)))
        return found

    monkeypatch.setattr(AnswerMemory, "nearest", nearest)
    ann, bob = ({"Authorization": f"Bearer {keys.add(name)}"} for name in ("ann", "bob"))
    running = serve(keys, model=OFFICE)
    for who, question in ((ann, "Where is the office?"), (bob, "Where is the office then?")):
        running.client.headers.update(who)
        assert running.ask(question).status_code == 200
    assert ("bob", []) in seen
    assert [caller for caller, found in seen if found] == []


def test_earlier_answers_of_another_corpus_are_not_found(serve):
    answer = serve().client.get("/v1/memory", params={"model": "payroll"})
    assert answer.json()["error"]["code"] == "model_not_found"
