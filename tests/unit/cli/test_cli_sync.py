"""`sync`: a corpus is brought up to date with where its documents are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpicl_rag.cli import data_folder
from dpicl_rag.corpora import Corpus
from dpicl_rag.following.mail_account import PASSWORD as VARIABLE
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.command_line import unwrapped
from tests.support.dovecot import PASSWORD, TOKEN, mail


@pytest.fixture
def notes(cli, home: Path) -> Path:
    """A folder of five files, ingested."""
    folder = home / "notes"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.txt").write_text(f"note {number}")
    assert cli("ingest", str(folder), "--corpus", "notes").exit_code == 0
    return folder


def texts(name: str) -> list[str]:
    corpus = Corpus.open(name, embedder=BucketEmbedder())
    found = sorted(record.text for record in corpus.records())
    corpus.close()
    return found


def report(result) -> list[dict]:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["sources"]


def test_new_edited_and_deleted_files(cli, notes: Path) -> None:
    (notes / "0.txt").unlink()
    (notes / "1.txt").write_text("note 1, edited")
    (notes / "9.txt").write_text("note 9")
    (found,) = report(cli("sync", "notes", "--json"))
    assert (found["there"], found["deleted"], found["new"]) == (5, 1, 2)
    assert found["source"] == str(notes)
    assert texts("notes") == ["note 1, edited", "note 2", "note 3", "note 4", "note 9"]
    assert report(cli("sync", "notes", "--json"))[0]["new"] == 0


def test_ingesting_again_deletes_nothing(cli, notes: Path) -> None:
    (notes / "0.txt").unlink()
    assert cli("ingest", str(notes), "--corpus", "notes").exit_code == 0
    assert len(texts("notes")) == 5
    assert report(cli("sync", "notes", "--json"))[0]["deleted"] == 1


def test_the_table_names_what_came_of_it(cli, notes: Path) -> None:
    (notes / "0.txt").unlink()
    said = cli("sync", "notes").stdout
    assert "gone there, deleted here" in said
    assert said.startswith(f"{notes}\n")


def test_an_empty_or_missing_folder_deletes_nothing(cli, notes: Path) -> None:
    away = notes.with_name("away")
    notes.rename(away)
    result = cli("sync", "notes")
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "is not there" in result.stderr
    assert f"sync notes --drop {notes}" in result.stderr
    notes.mkdir()
    result = cli("sync", "notes")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "--deletions" in result.stderr
    assert len(texts("notes")) == 5
    assert report(cli("sync", "notes", "--deletions", "--json"))[0]["deleted"] == 5
    assert texts("notes") == []


def test_one_source_that_fails_holds_up_no_other(cli, notes: Path, home: Path) -> None:
    more = home / "more.txt"
    more.write_text("more")
    assert cli("ingest", str(more), "--corpus", "notes").exit_code == 0
    more.unlink()
    (notes / "9.txt").write_text("note 9")
    result = cli("sync", "notes", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert [one["new"] for one in found["sources"]] == [1]
    assert len(found["failed"]) == 1
    assert "note 9" in texts("notes")


def test_a_source_may_be_dropped(cli, notes: Path, home: Path) -> None:
    more = home / "more.txt"
    more.write_text("more")
    assert cli("ingest", str(more), "--corpus", "notes").exit_code == 0
    dropped, kept = report(cli("sync", "notes", "--drop", str(notes), "--json"))
    assert dropped["deleted"] == 5
    assert kept["source"] == str(more)
    assert texts("notes") == ["more"]
    result = cli("sync", "notes", "--drop", str(notes))
    assert result.exit_code == 1
    assert f"there are: {more}" in result.stderr


def test_what_was_read_of_a_unit_is_deleted_before_its_texts_are(cli, notes, monkeypatch) -> None:
    calls = []

    def noted(corpus, path, units):
        calls.append((corpus.name, path, len(units), units <= corpus.unit_names()))

    monkeypatch.setattr(data_folder, "forget_units_read", noted)
    cli("sync", "notes")
    assert calls == []
    (notes / "0.txt").unlink()
    cli("sync", "notes")
    assert calls == [("notes", None, 1, True)]


def test_what_has_no_source_is_told_so(cli, home: Path) -> None:
    Corpus.create("empty", embedder=BucketEmbedder()).close()
    assert "ingest its documents once more" in cli("sync", "empty").stderr
    result = cli("sync", "chroma:folder#notes")
    assert "asked in place" in result.stderr
    assert cli("sync", "nowhere").exit_code == 1


def test_mail_is_read_and_followed(cli, dovecot, home: Path, monkeypatch) -> None:
    monkeypatch.setenv(VARIABLE, PASSWORD)
    monkeypatch.setenv("DPICL_RAG_IMAP_CA", str(dovecot.certificate))
    dovecot.deliver([mail(1), mail(2, answers=1), mail(3)])
    dovecot.deliver([mail(4)], "Archive")
    result = cli("ingest", dovecot.address("INBOX"), dovecot.address("Archive"), "--corpus",
                 "mail", "--json")  # fmt: skip
    (found,) = report(result)
    assert (found["there"], found["read"], found["new"], found["deleted"]) == (4, 4, 4, 0)
    client = dovecot.client()
    client.select_folder("INBOX")
    client.delete_messages(client.search(["SUBJECT", "matter 3"]))
    client.logout()
    dovecot.deliver([mail(5)])
    result = cli("sync", "mail")
    assert result.exit_code == 0, result.output
    assert "gone there, deleted here" in result.stdout
    (found,) = report(cli("sync", "mail", "--json"))
    assert (found["there"], found["read"], found["known"]) == (4, 0, 4)
    assert len(texts("mail")) == 4
    found, _ = report(cli("sync", "mail", "--drop", dovecot.address("Archive"), "--json"))
    assert found["deleted"] == 1
    (found,) = report(cli("sync", "mail", "--json"))
    assert found["there"] == 3
    result = cli("sync", "mail", "--drop", dovecot.address("INBOX"), "--json")
    assert report(result)[0]["deleted"] == 3
    assert texts("mail") == []


def test_a_token_command_opens_an_account(cli, dovecot) -> None:
    dovecot.deliver([mail(1)])
    words = ["--corpus", "mail", "--ca-file", str(dovecot.certificate), "--json"]
    result = cli("ingest", dovecot.address(), *words, "--token-command", f"echo {TOKEN}")
    assert report(result)[0]["read"] == 1
    result = cli("ingest", dovecot.address(), *words, "--token-command", "echo canary-77")
    assert result.exit_code == 1
    assert "canary-77" not in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["imaps://ann:canary-77@h.org/INBOX"], "no password stands in it"),
        (["imaps://ann@h.org/INBOX"], VARIABLE),
        (["imaps://ann@h.org/INBOX", "--text-field", "text"], "not for mail on a server"),
        (["imaps://ann@h.org/INBOX", "--anew", "--unit", "sender"], "not for mail on a server"),
        (["imaps://ann@h.org/INBOX", "box.mbox"], "two calls"),
        (["imap://ann@h.org/INBOX"], "imaps://"),
    ],
)
def test_what_mail_is_refused_in_one_line(cli, monkeypatch, words, said) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    result = cli("ingest", *words, "--corpus", "mail")
    assert result.exit_code != 0
    assert said in unwrapped(result.stderr)
    assert "canary-77" not in result.output
    assert Corpus.names() == []


def test_a_wrong_password_makes_no_corpus_and_is_not_shown(cli, dovecot, monkeypatch) -> None:
    monkeypatch.setenv(VARIABLE, "canary-77")
    dovecot.deliver([mail(1)])
    result = cli("ingest", dovecot.address(), "--corpus", "mail", "--ca-file",
                 str(dovecot.certificate))  # fmt: skip
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "refuses the password" in result.stderr
    assert "canary-77" not in result.output
    assert Corpus.names() == []


def test_mail_that_joins_many_units_is_withheld_alone(cli, dovecot, monkeypatch) -> None:
    monkeypatch.setenv(VARIABLE, PASSWORD)
    monkeypatch.setenv("DPICL_RAG_IMAP_CA", str(dovecot.certificate))
    dovecot.deliver([mail(n) for n in range(5)])
    assert cli("ingest", dovecot.address(), "--corpus", "mail").exit_code == 0
    ties = b"References: " + b" ".join(b"<m%d@example.org>" % n for n in range(5)) + b"\r\n"
    dovecot.deliver([ties + mail(9), mail(10)])
    for there in (6, 6):  # until somebody accepts it, it is looked at again
        (found,) = report(cli("sync", "mail", "--json"))
        assert len(found["withheld"][0]["parts"]) == 4
        assert len(texts("mail")) == there
    assert "--yes" in cli("sync", "mail").stdout
    (found,) = report(cli("sync", "mail", "--yes", "--no-ledger", "--json"))
    assert len(found["joins"][0]["parts"]) == 4
    assert found["withheld"] == []
    assert len(texts("mail")) == 7
