"""What owners do over HTTP: uploads, budgets, audits, and who may not."""

from __future__ import annotations

import errno
import sys
import threading
import time
from contextlib import closing

import pytest

from dpicl_rag import Document
from dpicl_rag.corpora import Corpus
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.server import views
from dpicl_rag.server.api_keys import KeyFile
from dpicl_rag.server.audits import Auditor, audit_command
from dpicl_rag.server.uploads import Uploads, file_name
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.scripted_model import ScriptedModel
from tests.unit.server.test_server_ends import until

CANTEEN = ScriptedModel({"canteen": "The canteen opens at noon.", "": "I cannot know that."})
TABLE = "id,text\n" + "".join(
    f"{n},When does the canteen open? It opens at noon.\n" for n in range(80)
)


@pytest.fixture
def uploads(tmp_path):
    return Uploads(tmp_path / "store", BucketEmbedder(), most_bytes=100_000)


@pytest.fixture
def owned(serve, uploads):
    """A server without keys: whoever asks is the owner."""
    return serve(model=CANTEEN, owner={"uploads": uploads})


def upload(running, content=TABLE, name="hours.csv", corpus="house-mail", **fields):
    return running.client.post(
        "/v1/owner/documents", data={"corpus": corpus, **fields}, files={"file": (name, content)}
    )


def ended(running):
    """The job when it has ended."""
    while (job := running.client.get("/v1/owner/job").json())["state"] == "running":
        time.sleep(0.02)
    return job


def test_an_upload_can_be_asked_when_it_is_read(owned):
    answer = upload(owned)
    assert answer.status_code == 202, answer.text
    job = ended(owned)
    assert job["state"] == "done", job
    assert {name: job["result"][name] for name in ("read", "loaded", "units", "passages")} == (
        dict.fromkeys(("read", "loaded", "units", "passages"), 80)
    )
    assert "house-mail" in [m["id"] for m in owned.client.get("/v1/models").json()["data"]]
    said = owned.ask("When does the canteen open?", model="house-mail")
    assert said.json()["choices"][0]["message"]["content"] == "The canteen opens at noon."


def test_an_upload_leaves_no_file(owned, tmp_path):
    upload(owned)
    ended(owned)
    assert not [path for path in tmp_path.glob("store-uploads/**/*") if path.is_file()]


def test_the_same_table_again_takes_the_place_of_the_first(owned, tmp_path):
    upload(owned)
    ended(owned)
    upload(owned, TABLE.replace("0,When does", "0,When did", 1))
    assert ended(owned)["result"]["passages"] == 1
    corpus = Corpus.open("house-mail", tmp_path / "store", embedder=BucketEmbedder())
    texts = [record.text for record in corpus.records()]
    corpus.close()
    assert len(texts) == 80


def test_the_unit_is_the_owners_choice(owned):
    rows = "team,text\n" + "".join(f"team {n % 4},row {n}\n" for n in range(12))
    upload(owned, rows, unit="team")
    assert ended(owned)["result"]["units"] == 4


@pytest.mark.parametrize("field", ["unit", "text_field"])
def test_a_column_without_a_name_is_refused(owned, tmp_path, field):
    answer = upload(owned, **{field: "  "})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == (
        f"{field} is empty; fill it in, or leave the field out"
    )
    assert Corpus.names(tmp_path / "store") == []


def test_a_new_corpus_asks_whether_a_person_is_its_unit(owned, tmp_path):
    rows = "customer,text\n" + "".join(f"c{n % 4},row {n}\n" for n in range(12))
    upload(owned, rows)
    job = ended(owned)
    assert job["state"] == "failed"
    assert "'customer' looks like a person" in job["error"]
    assert job["result"]["persons"] == ["customer"]
    assert Corpus.names(tmp_path / "store") == []
    upload(owned, rows, unit="document")
    assert ended(owned)["result"]["units"] == 12
    upload(owned, rows, corpus="by-customer", unit="customer")
    assert ended(owned)["result"]["units"] == 4
    upload(owned, rows.replace("row", "line"))
    assert ended(owned)["state"] == "done"  # the corpus has its unit, and nothing is asked


def test_an_upload_that_joins_many_units_stores_nothing(owned, tmp_path):
    def mail(number, references=""):
        return (
            f"From a@b Thu Jan  1 00:00:00 2026\nMessage-ID: <{number}@b>\n{references}"
            f"From: a@b\nSubject: Nr {number} {number}\n\nMail {number} says this.\n\n"
        )

    upload(owned, "".join(map(mail, range(5))), name="a.mbox")
    assert ended(owned)["result"]["units"] == 5
    many = " ".join(f"<{number}@b>" for number in range(5))
    upload(owned, mail(9, f"References: {many}\n"), name="b.mbox")
    job = ended(owned)
    assert job["state"] == "failed"
    assert "more than 3 units" in job["error"]
    assert "`dpicl-rag ingest`" in job["error"]
    with closing(Corpus.open("house-mail", tmp_path / "store", embedder=BucketEmbedder())) as kept:
        assert len({record.unit for record in kept.records()}) == 5


def test_what_the_loaders_refuse_is_told_without_a_path(owned, tmp_path):
    upload(owned, unit="nobody")
    job = ended(owned)
    assert job["state"] == "failed"
    assert "'nobody'" in job["error"]
    upload(owned, b"\x00\x01\x02", name="../../<img src=x>.bin")
    job = ended(owned)
    assert "<img src=x>.bin" in job["error"]
    assert str(tmp_path) not in job["error"]


def test_an_upload_that_is_too_large_is_refused(owned):
    answer = upload(owned, b"x" * 300_000)
    assert answer.status_code == 413
    assert "100,000" in answer.json()["error"]["message"]
    assert ended(owned)["state"] == "failed"
    assert upload(owned).status_code == 202
    assert ended(owned)["state"] == "done"


@pytest.mark.parametrize("corpus", ["", "public", "../../etc", "a", "x" * 600, "a\nb", "<b>"])
def test_a_name_that_no_corpus_can_have_is_refused(owned, corpus):
    answer = upload(owned, corpus=corpus)
    assert answer.status_code == 400
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


def test_a_form_without_a_file_is_refused(owned):
    for request in (
        {"data": {"corpus": "house-mail", "file": "text"}},
        {"json": {"corpus": "house-mail"}},
        {"content": b"--x", "headers": {"Content-Type": "multipart/form-data; boundary=x"}},
        {"content": b"--x", "headers": {"Content-Type": "multipart/form-data"}},
        {"files": {f"file{n}": b"x" for n in range(9)}},
    ):
        answer = owned.client.post("/v1/owner/documents", **request)
        assert answer.status_code == 400, request
        assert answer.json()["error"]["message"]


HEAD = "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 90000\r\n"
PART = '--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhello'


def half_an_upload(running):
    """A connection on which a file has begun to come."""
    sent = running.connect()
    host = running.url.rpartition("/")[2]
    key = f"Authorization: Bearer {running.key}\r\n"
    head = f"POST /v1/owner/documents HTTP/1.1\r\nHost: {host}\r\n{key}{HEAD}\r\n{PART}"
    sent.sendall(head.encode())
    until(lambda: running.client.get("/v1/owner/job").status_code == 200)
    return sent


def test_an_upload_that_breaks_off_gives_the_place_back(owned):
    half_an_upload(owned).close()
    job = ended(owned)
    assert (job["state"], job["error"]) == ("failed", "the upload broke off; send it again")
    assert upload(owned).status_code == 202
    assert ended(owned)["state"] == "done"


def test_an_upload_that_does_not_come_can_be_stopped(owned):
    with closing(half_an_upload(owned)) as sent:
        owned.client.post("/v1/owner/job/stop")
        assert b" 409 " in sent.recv(65536)
    assert ended(owned)["state"] == "stopped"
    assert upload(owned).status_code == 202
    assert ended(owned)["state"] == "done"


def test_the_end_of_the_server_does_not_wait_for_an_upload(owned):
    with closing(half_an_upload(owned)) as sent:
        owned.server.handle_exit(15, None)
        assert b" 503 " in sent.recv(65536)
    owned.thread.join(10)
    assert not owned.thread.is_alive()


def test_a_full_disk_is_told_and_keeps_nothing(owned, tmp_path, monkeypatch):
    def full(content, kept, size):
        kept.write(b"swordfish")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    answer = upload(owned)
    assert (answer.status_code, answer.json()["error"]["code"]) == (507, "no_space")
    assert "No space left" in ended(owned)["error"]
    assert not [path for path in tmp_path.glob("store-uploads/**/*") if path.is_file()]


@pytest.mark.parametrize("charset", ["undefined", "punycode", "idna", "rot13", "no-such"])
def test_a_form_in_an_odd_alphabet_is_refused(owned, charset):
    name = b'--x\r\nContent-Disposition: form-data; name="corpus"\r\n\r\nm\xff\xfe\r\n'
    headers = {"Content-Type": f"multipart/form-data; boundary=x; charset={charset}"}
    content = name + PART.encode() + b"\r\n--x--\r\n"
    answer = owned.client.post("/v1/owner/documents", content=content, headers=headers)
    assert answer.status_code == 400


def test_an_upload_opens_no_corpus_that_is_not_served(serve, tmp_path):
    with closing(Corpus.create("payroll", tmp_path / "store", embedder=BucketEmbedder())) as corpus:
        corpus.add([Document("a salary", "one")])
    uploads = Uploads(tmp_path / "store", BucketEmbedder())
    running = serve(model=CANTEEN, owner={"uploads": uploads})
    assert upload(running, corpus="payroll").status_code == 403
    assert "payroll" not in running.client.get("/v1/models").text


class Held(BucketEmbedder):
    """Waits until it is let go."""

    def __init__(self):
        self.inside, self.go = threading.Event(), threading.Event()

    def embed(self, texts, *, query=False):
        self.inside.set()
        assert self.go.wait(30)
        return super().embed(texts, query=query)


def test_one_job_at_a_time_and_a_stopped_one_keeps_what_it_stored(serve, tmp_path):
    embedder = Held()
    running = serve(model=CANTEEN, owner={"uploads": Uploads(tmp_path / "store", embedder)})
    upload(running)
    assert embedder.inside.wait(30)
    assert upload(running).status_code == 409
    assert running.client.post("/v1/owner/job/stop").json()["state"] == "running"
    embedder.go.set()
    assert ended(running)["state"] == "stopped"
    assert "house-mail" not in [m["id"] for m in running.client.get("/v1/models").json()["data"]]
    upload(running)
    job = ended(running)
    assert (job["state"], job["result"]["known"]) == ("done", 64)


def test_the_end_of_the_server_ends_a_job(serve, tmp_path):
    embedder = Held()
    running = serve(model=CANTEEN, owner={"uploads": Uploads(tmp_path / "store", embedder)})
    upload(running)
    assert embedder.inside.wait(30)
    running.server.handle_exit(15, None)
    embedder.go.set()  # the fixture sees that the server ends


def test_what_a_killed_server_left_of_uploads_is_gone_at_the_next_start(tmp_path):
    left = tmp_path / "store-uploads" / "house-mail" / "hours.csv"
    left.parent.mkdir(parents=True)
    left.write_text(TABLE)
    first = Uploads(tmp_path / "store", BucketEmbedder())
    assert not left.exists()
    left.parent.mkdir(parents=True)
    left.write_text(TABLE)
    second = Uploads(tmp_path / "store", BucketEmbedder())
    assert left.exists()  # another server is at work
    first.close()
    second.close()


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("mail.mbox", "mail.mbox"),
        ("../../etc/passwd", "passwd"),
        ("C:\\mail\\box.mbox", "box.mbox"),
        ("..", "upload"),
        ("", "upload"),
        (".hidden", "upload"),
        ("a\x00b\n.csv", "ab.csv"),
        ("é" * 200 + ".csv", "é" * 58 + ".csv"),
    ],
)
def test_a_files_name_is_its_last_part(given, name):
    assert file_name(given) == name


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


def test_a_question_is_one_word_of_an_audits_command(tmp_path):
    command = audit_command(["epsilon"], "--path", "store")
    words = command("notes", "--runs=1 $(x)", 20, tmp_path, {"epsilon": 4.0})
    assert "--question=--runs=1 $(x)" in words
    assert "--runs=20" in words
    assert words[-2:] == ["--epsilon", "4.0"]
    with pytest.raises(ConfigurationError, match="copy_bias"):
        command("notes", "Where?", 20, tmp_path, {"copy_bias": 2.0})


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


AUDIT = {"corpus": "notes", "question": "Where is the office?"}
REPORT = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
(folder / "audit.txt").write_text("Privacy audit: within the claim")
(folder / "audit.png").write_bytes(b"png")
(folder / "summary.json").write_text(json.dumps({"whole": True, "holds": True}))
"""


def auditing(tmp_path, program):
    def command(corpus, question, runs, out, settings):
        return [sys.executable, "-c", program, str(out)]

    return Auditor(tmp_path / "audits", command)


def test_an_audits_report_and_plot(serve, tmp_path):
    running = serve(owner={"auditor": auditing(tmp_path, REPORT)})
    assert running.client.get("/v1/owner/audits/notes").json()["error"]["code"] == "no_audit"
    assert running.client.post("/v1/owner/audits", json=AUDIT).status_code == 202
    assert ended(running)["result"] == {"holds": True}
    found = running.client.get("/v1/owner/audits/notes").json()
    summary = {"whole": True, "holds": True}
    assert found == {"summary": summary, "text": "Privacy audit: within the claim"}
    assert running.client.get("/v1/owner/audits/notes/plot").content == b"png"


def test_an_audit_that_fails_says_why(serve, tmp_path):
    program = "import sys; sys.exit('error: no document was found')"
    running = serve(owner={"auditor": auditing(tmp_path, program)})
    running.client.post("/v1/owner/audits", json=AUDIT)
    job = ended(running)
    assert job["state"] == "failed"
    assert job["error"].endswith("error: no document was found")


def test_an_audit_that_fails_leaves_the_last_report(serve, tmp_path):
    whole = tmp_path / "whole"
    program = f"import os\nos.path.exists({str(whole)!r}) and exit('error: no')\n"
    running = serve(owner={"auditor": auditing(tmp_path, program + REPORT)})
    running.client.post("/v1/owner/audits", json=AUDIT)
    ended(running)
    before = running.client.get("/v1/owner/audits/notes").json()
    whole.touch()
    running.client.post("/v1/owner/audits", json=AUDIT)
    assert ended(running)["state"] == "failed"
    assert running.client.get("/v1/owner/audits/notes").json() == before


def test_an_audit_shows_what_it_has_and_goes_on_where_it_was_stopped(serve, tmp_path):
    program = """
import json, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
found = (folder / "unfinished.json").exists()
(folder / "unfinished.json").write_text("{}")
(folder / "audit.txt").write_text(f"unfinished, {1 + found} of 6 parts were run")
(folder / "summary.json").write_text(json.dumps({"whole": False, "holds": True}))
time.sleep(600)
"""
    running = serve(owner={"auditor": auditing(tmp_path, program)})

    def shown():
        answer = running.client.get("/v1/owner/audits/notes")
        return answer.json().get("text"), answer.json().get("summary", {}).get("whole")

    for parts in (1, 2):
        assert running.client.post("/v1/owner/audits", json=AUDIT).status_code == 202
        found = (f"unfinished, {parts} of 6 parts were run", False)
        until(lambda found=found: shown() == found)
        running.client.post("/v1/owner/job/stop")
        assert ended(running)["state"] == "stopped"
        assert shown() == found


def test_an_audit_tells_how_far_it_is_and_how_long_it_takes(serve, tmp_path):
    program = """
import json, pathlib, sys, time
go = pathlib.Path(sys.argv[1]).parents[2] / "go"
for percent in (0, 25):
    print(json.dumps({"progress": "Canary", "percent": percent}), file=sys.stderr, flush=True)
    time.sleep(0.5)
while not go.exists():
    time.sleep(0.01)
"""
    running = serve(owner={"auditor": auditing(tmp_path, program + REPORT)})
    answer = running.client.post("/v1/owner/audits", json=AUDIT | {"runs": 20})
    assert answer.status_code == 202
    until(lambda: running.client.get("/v1/owner/job").json()["done"] == 25)
    job = running.client.get("/v1/owner/job").json()
    assert (job["stage"], job["total"]) == ("Canary", 100)
    assert 1 <= job["seconds_left"] < 60
    (tmp_path / "go").touch()
    assert ended(running)["state"] == "done"


@pytest.mark.parametrize("runs", [0, 3, 2001, "many", 5.5])
def test_an_audit_of_no_number_of_runs_is_refused(serve, tmp_path, runs):
    running = serve(owner={"auditor": auditing(tmp_path, REPORT)})
    answer = running.client.post("/v1/owner/audits", json=AUDIT | {"runs": runs})
    assert answer.status_code == 400


def test_a_stopped_audit_ends_its_process(serve, tmp_path):
    running = serve(owner={"auditor": auditing(tmp_path, "import time; time.sleep(600)")})
    running.client.post("/v1/owner/audits", json=AUDIT)
    running.client.post("/v1/owner/job/stop")
    assert ended(running)["state"] == "stopped"


def test_only_what_is_served_is_audited(serve, tmp_path):
    running = serve(owner={"auditor": auditing(tmp_path, REPORT)})
    for corpus in ("payroll", "public", "../notes"):
        answer = running.client.post("/v1/owner/audits", json=AUDIT | {"corpus": corpus})
        assert answer.status_code == 404
    assert running.client.get("/v1/owner/audits/..%2f..%2fstore").status_code == 404


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
        running = serve(KeyFile(keys.path), model=CANTEEN, owner={"uploads": uploads})
        running.client.headers.update(owner)
        upload(running, table)
        assert ended(running)["state"] == "done"
        running.client.post("/v1/owner/open", json={"corpus": "house-mail"})
        seen.append(seen_by_ann(running, ann))
    return seen


def test_a_caller_sees_the_same_of_neighbouring_uploads(serve, keys, tmp_path):
    one, more = neighbours_seen(serve, keys, tmp_path)
    assert one == more
    assert [status for _, status, _, _ in one][:4] == [200] * 4


def test_a_count_on_a_callers_view_would_be_found(serve, keys, tmp_path, monkeypatch):
    honest = views.budget

    def counting(catalogue, name, caller):
        documents = catalogue.corpora[name].documents
        held = len(documents.corpus.records()) if name == "house-mail" else 0
        return honest(catalogue, name, caller) | {"passages": held}

    monkeypatch.setattr(views, "budget", counting)
    one, more = neighbours_seen(serve, keys, tmp_path)
    assert one != more
