"""The file of keys: hashes only, read by whoever serves, and changed under it."""

from __future__ import annotations

import os
import threading
from contextlib import closing, suppress

import pytest

from dpicl_rag.errors import ConfigurationError, KeyFileError
from dpicl_rag.server.admission import ServerLimits
from dpicl_rag.server.api_keys import KeyFile
from tests.support.paced_model import PacedModel
from tests.unit.server.test_server_ends import QUESTION, until


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def test_a_key_is_found_and_is_nowhere_in_the_file(keys):
    key = keys.add("ann", corpora=["mail"])
    found = keys.find(key)
    assert (found.name, found.role, found.corpora) == ("ann", "caller", ("mail",))
    assert keys.find(key[:-1]) is keys.find(key.upper()) is keys.find("") is None
    keys.close()
    written = b"".join(path.read_bytes() for path in keys.path.parent.glob("keys.sqlite*"))
    assert b"ann" in written
    assert key.encode() not in written
    assert key.removeprefix("dpk-").encode() not in written
    assert key not in repr(keys)


def test_a_key_made_again_under_a_name_is_another(keys):
    first = keys.find(keys.add("ann")).id
    keys.remove("ann")
    assert keys.find(keys.add("ann")).id != first


def test_a_corpus_is_closed_to_all_keys_but_one(keys):
    ann, bob = (keys.find(keys.add(name)) for name in ("ann", "bob"))
    keys.close_corpus("mail", ann)
    keys.close_corpus("mail", ann)
    with pytest.raises(ConfigurationError, match="another key's"):
        keys.close_corpus("mail", bob)
    assert [one.may_ask("mail") for one in keys.callers()] == [True, False]
    assert all(one.may_ask("other") for one in keys.callers())


@pytest.mark.parametrize("limit", [{"each": 0}, {"a_minute": 0}, {"a_minute": -1}])
def test_a_limit_of_nothing_is_refused(keys, limit):
    with pytest.raises(ConfigurationError):
        keys.add("ann", **limit)
    assert keys.callers() == []


def test_a_key_has_limits_of_its_own(serve, keys):
    slow, quick = keys.add("ann", a_minute=2), keys.add("bob", a_minute=5)
    running = serve(keys, model=PacedModel(open=True), limits=ServerLimits(a_minute=3))

    def asked(key):
        headers = bearer(key)
        answers = [
            running.client.post("/v1/chat/completions", json=QUESTION, headers=headers)
            for _ in range(6)
        ]
        return [answer.status_code for answer in answers].count(200)

    assert (asked(slow), asked(quick), asked(keys.add("cay"))) == (2, 5, 3)


def test_a_key_has_questions_at_a_time_of_its_own(serve, keys):
    key, model = keys.add("ann", each=1), PacedModel()
    running = serve(keys, model=model)
    with closing(running.send(QUESTION, **bearer(key))):
        until(lambda: running.admission.inside == 1)
        answer = running.client.post("/v1/chat/completions", json=QUESTION, headers=bearer(key))
        assert (answer.status_code, "1 questions" in answer.text) == (429, True)
        model.open = True
        model.let(100)
        until(lambda: running.admission.inside == 0)


def test_a_key_that_is_taken_back_is_refused_at_once_also_by_another_process(serve, keys):
    key = keys.add("ann")
    running = serve(keys, model=PacedModel(open=True))
    assert running.client.get("/v1/models", headers=bearer(key)).status_code == 200
    with closing(KeyFile(keys.path)) as others:
        others.remove("ann")
        assert running.client.get("/v1/models", headers=bearer(key)).status_code == 401
        again = others.add("ann")
    assert running.client.get("/v1/models", headers=bearer(key)).status_code == 401
    assert running.client.get("/v1/models", headers=bearer(again)).status_code == 200


@pytest.mark.skipif(os.name != "posix", reason="an open file cannot be replaced there")
def test_another_file_in_its_place_is_the_one_that_counts(serve, keys, tmp_path):
    old = keys.add("ann")
    running = serve(keys, model=PacedModel(open=True))

    def status(key):
        return running.client.get("/v1/models", headers=bearer(key)).status_code

    assert status(old) == 200
    keys.path.unlink()
    assert status(old) == 503  # nobody is let in, and nobody is told why
    with closing(KeyFile(tmp_path / "other.sqlite")) as others:
        new = others.add("bob")
    (tmp_path / "other.sqlite").replace(keys.path)
    assert (status(old), status(new)) == (401, 200)
    keys.path.write_bytes(b"swordfish" * 1000)
    with closing(KeyFile(tmp_path / "third.sqlite")) as others:
        others.add("cay")
    os.truncate(keys.path, 100)
    assert status(new) in (401, 503)


@pytest.mark.skipif(os.name != "posix", reason="permissions are others there")
def test_a_file_that_anybody_may_write_is_no_file_of_keys(serve, keys):
    key = keys.add("ann")
    running = serve(keys, model=PacedModel(open=True))
    keys.path.chmod(0o666)
    assert running.client.get("/v1/models", headers=bearer(key)).status_code == 503
    with pytest.raises(KeyFileError, match="chmod 600"):
        KeyFile(keys.path)
    keys.path.chmod(0o640)
    assert running.client.get("/v1/models", headers=bearer(key)).status_code == 200


@pytest.mark.heavy
def test_keys_come_and_go_while_they_are_in_use(keys):
    key, over, wrong = keys.add("ann"), threading.Event(), []

    def come_and_go():
        with closing(KeyFile(keys.path)) as others:
            for number in range(60):
                others.add(f"bob {number}")
                others.remove(f"bob {number}")
        over.set()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    while not over.is_set():
        with suppress(AttributeError):
            wrong += [] if keys.find(key).name == "ann" else [1]
            continue
        wrong.append(2)
    thread.join()
    assert wrong == []
    assert [one.name for one in keys.callers()] == ["ann"]
