"""`corpora`."""

from __future__ import annotations

import json

from dpicl_rag.cli import data_folder
from dpicl_rag.corpora import Corpus
from dpicl_rag.ledger import Ledger


def texts(name):
    corpus = Corpus.open(name, embedder=data_folder.load_embedder(None))
    try:
        return [record.text for record in corpus.records()]
    finally:
        corpus.close()


def test_list(cli, mail):
    assert cli("corpora", "list").stdout == "mail\n"
    assert json.loads(cli("corpora", "list", "--json").stdout) == {"corpora": ["mail"]}


def test_list_of_an_empty_store(cli):
    result = cli("corpora", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no corpus yet" in result.stderr


def test_delete_asks_first(cli, mail):
    assert cli("corpora", "delete", mail, input="n\n").exit_code == 1
    assert Corpus.names() == ["mail"]
    assert cli("corpora", "delete", mail, input="y\n").exit_code == 0
    assert Corpus.names() == []


def test_delete_keeps_what_was_spent(cli, mail, spending):
    words = ("--corpus", mail, "--max-tokens", "1")
    assert cli("ask", "What is the code?", *words).exit_code == 0
    spent = spending(mail).spent
    assert cli("corpora", "delete", mail, "--yes").exit_code == 0
    assert spending(mail).spent == spent > 0


def test_delete_of_an_unknown_corpus(cli, mail):
    result = cli("corpora", "delete", "mial", "--yes")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: no corpus named 'mial'")
    assert Corpus.names() == ["mail"]


def test_forget_deletes_the_unit_and_tells_the_ledger(cli, home, secret, monkeypatch):
    assert cli("ingest", str(home / "m.jsonl"), "--corpus", "mail").exit_code == 1
    lines = [{"text": f"{secret} of {name}", "owner": name} for name in ("ann", "bob")]
    (home / "m.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    cli("ingest", str(home / "m.jsonl"), "--corpus", "mail", "--unit", "owner")
    told = []
    note = Ledger.forget_units

    def keep(self, corpus, units):
        told.append((corpus, list(units)))
        note(self, corpus, units)

    monkeypatch.setattr(Ledger, "forget_units", keep)
    result = cli("corpora", "forget", "mail", "--unit", "ann")
    assert result.exit_code == 0, result.output
    assert texts("mail") == [f"{secret} of bob"]
    assert told == [("mail", ["ann"])]
    # Whether the unit was there is not told.
    assert cli("corpora", "forget", "mail", "--unit", "nobody").output == result.output


def test_forget_says_what(cli, mail):
    assert cli("corpora", "forget", mail).exit_code == 2
    assert cli("corpora", "forget", mail, "--unit", "a", "--message", "b").exit_code == 2
    result = cli("corpora", "forget", mail, "--message", "b")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: no message of that id")
    assert len(texts(mail)) == 3


def test_the_units_of_a_person_are_listed_and_none_is_deleted(cli, mail):
    result = cli("corpora", "forget", mail, "--person", "O0")
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 2
    assert "Nothing was deleted" in result.stderr
    listed = json.loads(cli("corpora", "forget", mail, "--person", "o0", "--json").stdout)
    assert [one["records"] for one in listed["units"]] == [1, 1]
    assert len(texts(mail)) == 3
    missing = cli("corpora", "forget", mail, "--person", "nobody@x.example")
    assert missing.exit_code == 1
    assert missing.stderr.startswith("error: no record of corpus mail has that person")
    assert cli("corpora", "forget", mail, "--unit", "a", "--person", "b").exit_code == 2
    assert cli("corpora", "forget", mail, "--unit", "a", "--json").exit_code == 2


def test_a_corpus_without_joins(cli, mail):
    result = cli("corpora", "joins", mail)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "No units of corpus mail became one" in result.stderr
