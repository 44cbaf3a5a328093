"""What was answered before belongs to the key that asked, and nobody else has a part in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from dpicl_rag.knowledge.answer_file import AnswerFile
from tests.support.scripted_model import ScriptedModel
from tests.unit.server.conftest import bearer

OFFICE = ScriptedModel({"office": "The office is in Elm Lane.", "": "I cannot know that."})


def spent(running, caller):
    (found,) = [one.spent for one in running.service.ledger.status() if one.name == caller]
    return found


def remembered(running):
    return running.client.get("/v1/memory").json()["data"]


def test_a_key_made_again_under_an_old_name_reads_nothing_of_the_old_one(serve, keys):
    running = serve(keys, model=OFFICE)
    running.client.headers.update(bearer(keys.add("ann")))
    assert running.ask().status_code == 200
    assert running.ask().json()["privacy"]["from_memory"]
    assert len(remembered(running)) == 1
    keys.remove("ann")
    running.client.headers.update(bearer(keys.add("ann")))
    assert remembered(running) == []
    assert not running.ask().json()["privacy"]["from_memory"]
    assert len(remembered(running)) == 1


def test_a_key_made_again_goes_on_with_the_budget_of_its_name(serve, keys):
    running = serve(keys, model=OFFICE, agreement="off")
    price = running.service.price("notes")
    running.service.ledger.set_budget(caller="ann", rho=1.5 * price)
    running.client.headers.update(bearer(keys.add("ann")))
    assert running.ask().status_code == 200
    before = spent(running, "ann")
    keys.remove("ann")
    running.client.headers.update(bearer(keys.add("ann")))
    (found,) = running.client.get("/v1/budget").json()["data"]
    assert found["answers_left"] == 0
    assert spent(running, "ann") == before > 0


def keep(path, caller, answer):
    """An answer that no key of a server asked for, such as one of the command line."""
    with closing(AnswerFile(path)) as answers:
        answers.put(
            corpus="notes",
            caller=caller,
            part="",
            key="",
            form="",
            words="where",
            question="Where?",
            answer=answer,
            epsilon=1.0,
            delta=1e-5,
            whole=True,
            drawn=False,
        )


def test_what_was_kept_under_a_name_alone_is_read_by_no_key(serve, keys, tmp_path):
    keep(tmp_path / "memory.sqlite", "ann", "Here.")
    running = serve(keys, model=OFFICE)
    running.client.headers.update(bearer(keys.add("ann")))
    assert remembered(running) == []


def test_what_others_were_told_is_not_read_whatever_is_in_it(serve, keys, tmp_path):
    path = tmp_path / "memory.sqlite"
    keep(path, "bob", "b" * 100_000)
    running = serve(keys, model=OFFICE)
    running.client.headers.update(bearer(keys.add("ann")))
    assert running.ask().status_code == 200
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:  # pages of Bob's are lost
        for start in range(0, path.stat().st_size, 4096):
            file.seek(start)
            if file.read(4096).count(b"b") > 4000:
                file.seek(start)
                file.write(bytes(4096))
    answer = running.client.get("/v1/memory")
    assert (answer.status_code, len(answer.json().get("data", []))) == (200, 1)
    assert running.ask().json()["privacy"]["from_memory"]


def test_a_memory_that_is_removed_is_forgotten_by_the_server_too(serve, tmp_path):
    running = serve(model=OFFICE)
    running.ask()
    assert running.ask().json()["privacy"]["from_memory"]
    for path in tmp_path.glob("memory.sqlite*"):
        path.unlink()
    assert remembered(running) == []
    assert not running.ask().json()["privacy"]["from_memory"]
    assert len(remembered(running)) == 1
