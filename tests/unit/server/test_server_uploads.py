"""Uploads over HTTP: from a form to a corpus that can be asked."""

from __future__ import annotations

import errno
import threading
import time
from contextlib import closing

import pytest

from dpicl_rag import Document
from dpicl_rag.conversion import Conversions
from dpicl_rag.corpora import Corpus
from dpicl_rag.loaders import parsing
from dpicl_rag.server.uploads import Uploads, file_name
from tests.support import made_files
from tests.support.bucket_embedder import BucketEmbedder
from tests.unit.server.conftest import CANTEEN
from tests.unit.server.test_server_ends import until

TABLE = "id,text\n" + "".join(
    f"{n},When does the canteen open? It opens at noon.\n" for n in range(80)
)


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


@pytest.mark.heavy
@made_files.needs_files
def test_documents_and_spreadsheets_are_read_as_by_ingest(owned):
    upload(owned, made_files.pdf("The canteen opens at noon."), "hours.pdf", unit="document")
    result = ended(owned)["result"]
    assert (result["loaded"], result["skipped"]) == (1, 0)
    book = made_files.xlsx([["team", "note"], ["a", "one"], ["b", "two"], ["a", "three"]])
    upload(owned, book, "teams.xlsx", corpus="teams", unit="team", text_field="note")
    result = ended(owned)["result"]
    assert (result["loaded"], result["units"]) == (3, 2)
    upload(owned, made_files.pdf(), "scan.pdf", corpus="scans", unit="document")
    (skipped,) = ended(owned)["result"]["first_skipped"]
    assert skipped["position"] == "scan.pdf"
    assert "OCR" in skipped["reason"]


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


@pytest.mark.parametrize(("header", "rows"), [("2", "Staff\nteam,text\n"), ("team,text", "")])
def test_the_owner_says_where_the_names_of_columns_are(owned, header, rows):
    rows += "".join(f"{n % 4},row {n}\n" for n in range(12))
    upload(owned, rows)
    assert "names of columns" in ended(owned)["error"]
    upload(owned, rows, unit="team", header=header)
    result = ended(owned)["result"]
    assert (result["loaded"], result["units"]) == (12, 4)


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


def test_what_would_join_many_units_is_withheld_and_told(owned, tmp_path):
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
    assert job["state"] == "done"
    assert job["result"]["withheld"] == 1
    assert job["result"]["summary"].endswith(
        " Withheld: 1 that would make more than 3 units one; `dpicl-rag ingest` asks about them."
    )
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
    assert not owned.service.ledger.knows("house-mail")


def test_a_file_that_cannot_be_read_leaves_no_budget_and_its_name_to_others(owned, tmp_path):
    upload(owned, "id\n1\n", text_field="text", epsilon="4")
    assert ended(owned)["state"] == "failed"
    assert not owned.service.ledger.knows("house-mail")
    again = Uploads(tmp_path / "store", BucketEmbedder())
    assert not again.is_taken("house-mail", owned.service)


def test_a_file_that_cannot_be_read_leaves_a_budget_as_it_is(owned):
    upload(owned)
    ended(owned)
    before = owned.service.ledger.status()
    upload(owned, "id\n1\n", "other.csv", text_field="text", epsilon="1000")
    assert ended(owned)["state"] == "failed"
    assert owned.service.ledger.status() == before


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


def test_an_upload_is_stopped_while_a_mail_is_parsed(owned, monkeypatch):
    monkeypatch.setattr(parsing, "_idle", [])
    planted = "tests.support.planted_parsers"
    monkeypatch.setattr(parsing, "Conversions", lambda limits, _: Conversions(limits, planted))
    upload(owned, b"From: eve@b.c\n\nspin\n", "mail.eml")
    until(lambda: owned.client.get("/v1/owner/job").json()["stage"])
    owned.client.post("/v1/owner/job/stop")
    assert ended(owned)["state"] == "stopped"
    assert "house-mail" not in [m["id"] for m in owned.client.get("/v1/models").json()["data"]]


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
    Uploads(tmp_path / "store", BucketEmbedder())
    assert not left.exists()


def test_a_server_that_starts_leaves_the_upload_of_another_alone(serve, tmp_path):
    embedder = Held()
    ended_since = Uploads(tmp_path / "store", BucketEmbedder())
    running = serve(model=CANTEEN, owner={"uploads": Uploads(tmp_path / "store", embedder)})
    upload(running)
    assert embedder.inside.wait(30)
    ended_since.close()
    started = Uploads(tmp_path / "store", BucketEmbedder())
    other = serve(model=CANTEEN, owner={"uploads": started}, ledger="other.sqlite")
    left = [*tmp_path.glob("store-uploads/**/hours.csv")]
    refused = upload(other, corpus="gate-mail")
    embedder.go.set()
    assert ended(running)["state"] == "done"
    assert left
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "job_running")
    assert upload(other, corpus="gate-mail").status_code == 202
    assert ended(other)["state"] == "done"
    assert not (tmp_path / "store-uploads").exists()


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


@pytest.mark.parametrize("end", ["x" * 120 + ".txt", "/letter.txt"], ids=["long", "folder"])
def test_files_of_two_names_are_two_units(owned, uploads, end):
    for who in ("ann", "bob"):
        upload(owned, f"the letter of {who}", who + end, corpus="letters")
        assert ended(owned)["state"] == "done"
    with Corpus.open("letters", uploads.path, embedder=uploads.embedder) as corpus:
        records = corpus.records()
    assert {record.text for record in records} == {"the letter of ann", "the letter of bob"}
    assert len({record.unit for record in records}) == 2
