"""`ingest`: every record is accounted for, twice is once, and what goes wrong."""

from __future__ import annotations

import json
import types

import pytest

from dpicl_rag.cli import data_folder
from dpicl_rag.corpora import Corpus
from dpicl_rag.ledger import Ledger


@pytest.fixture
def rows(home):
    """A table of 20 rows, 12 of which are broken."""
    path = home / "rows.jsonl"
    lines = [json.dumps({"text": f"fact number {n}", "owner": f"o{n % 4}"}) for n in range(8)]
    path.write_text("\n".join(["{broken"] * 12 + lines) + "\n")
    return path


def counts(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_json_accounts_for_every_record(cli, rows):
    found = counts(cli("ingest", str(rows), "--corpus", "facts", "--unit", "owner", "--json"))
    assert found["read"] == 20
    assert found["loaded"] == 8
    assert len(found["skipped"]) == 12
    assert set(found["skipped"][0]) == {"position", "reason"}
    assert (found["units"], found["chunks"], found["new"], found["already_there"]) == (4, 8, 8, 0)


def test_a_name_that_cannot_be_one_is_refused_before_a_file_is_read(cli, rows, monkeypatch):
    monkeypatch.setattr("dpicl_rag.loaders.load", lambda *_, **__: pytest.fail("read"))
    result = cli("ingest", str(rows), "--corpus", "it")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "3 to 512 letters" in result.stderr


def test_twice_is_once(cli, rows):
    first = counts(cli("ingest", str(rows), "--corpus", "facts", "--json"))
    second = counts(cli("ingest", str(rows), "--corpus", "facts", "--json"))
    assert (first["new"], first["already_there"]) == (8, 0)
    assert (second["new"], second["already_there"]) == (0, 8)


def test_an_interrupted_ingest_goes_on(cli, rows, monkeypatch):
    add = Corpus.add

    def interrupted(self, documents, on_progress=None, **options):
        add(self, documents[:3])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Corpus, "add", interrupted)
        result = cli("ingest", str(rows), "--corpus", "facts")
    assert result.exit_code == 130
    assert result.stderr == "interrupted; run the same command again to go on\n"
    found = counts(cli("ingest", str(rows), "--corpus", "facts", "--json"))
    assert (found["new"], found["already_there"]) == (5, 3)


def numbers(table):
    rows = (line.rsplit(maxsplit=1) for line in table.splitlines() if line.strip())
    return {row[0].strip(): row[1] for row in rows if len(row) == 2}


def test_the_summary_names_the_first_ten_skipped(cli, rows):
    result = cli("ingest", str(rows), "--corpus", "facts")
    found = numbers(result.stdout)
    assert (found["records read"], found["loaded"], found["skipped"]) == ("20", "8", "12")
    assert (found["privacy units"], found["passages"]) == ("8", "8")
    assert (found["embedded now"], found["already there"]) == ("8", "0")
    assert result.stdout.count("  row ") + result.stdout.count("  line ") == 10
    assert "and 2 more; --verbose names them all" in result.stdout


def test_verbose_names_all_skipped(cli, rows):
    result = cli("ingest", str(rows), "--corpus", "facts", "--verbose")
    assert result.stdout.count("  row ") + result.stdout.count("  line ") == 12
    assert "more;" not in result.stdout


def test_a_message_without_text_is_skipped_and_named(cli, home):
    path = home / "mail.mbox"
    messages = [f"From a@b Thu Jan  1 00:00:00 2026\nMessage-ID: <{n}@b>\n\n" for n in range(2)]
    path.write_text(messages[0] + "words here\n\n" + messages[1] + "\n")
    found = counts(cli("ingest", str(path), "--corpus", "mail", "--json"))
    assert (found["read"], found["loaded"], found["chunks"]) == (2, 1, 1)
    assert [item["reason"] for item in found["skipped"]] == ["empty"]


def test_the_text_field_is_passed_on(cli, home):
    path = home / "rows.csv"
    path.write_text("note,text\nkept words,other\n")
    cli("ingest", str(path), "--corpus", "rows", "--text-field", "note")
    corpus = Corpus.open("rows", embedder=data_folder.load_embedder(None))
    assert [record.text for record in corpus.records()] == ["kept words"]
    corpus.close()


@pytest.mark.parametrize(
    ("source", "words", "told"),
    [
        ("nowhere.mbox", ["--corpus", "mail"], "does not exist"),
        ("rows.jsonl", ["--corpus", "a b"], "the name of a corpus"),
        ("t.csv", ["--corpus", "mail", "--unit", "owners"], "'owners'; there are: 'owner'"),
        ("rows.jsonl", ["--corpus", "mail", "--path", "rows.jsonl"], "folder"),
    ],
)
def test_bad_input_is_one_line(cli, rows, home, monkeypatch, source, words, told):
    monkeypatch.chdir(home)
    (home / "t.csv").write_text("owner,text\n")
    result = cli("ingest", source, *words)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert told in result.stderr


def test_where_nobody_is_there_is_no_error(cli, home):
    """Of JSON Lines one row would decide it; the report tells the owner which columns there are."""
    (home / "empty").mkdir()
    assert counts(cli("ingest", str(home / "empty"), "--corpus", "mail", "--json"))["read"] == 0
    (home / "t.jsonl").write_text('{"owner": "x", "text": "y"}\n')
    result = cli("ingest", str(home / "t.jsonl"), "--corpus", "mail", "--unit", "owners")
    assert result.exit_code == 0
    assert "there are: owner, text" in result.stdout
    assert "line 1: no value for the privacy unit" in result.stdout


def test_what_subjects_joined_is_named(cli, home):
    head = "From a@b Thu Jan  1 00:00:00 2026\nDate: 1 Jan 2026 10:00 +0000\nFrom: a@b\nTo: c@d\n"
    mails = [f"{head}Subject: {subject}\n\nwords\n\n" for subject in ("Plans", "Re: Plans")]
    (home / "box.mbox").write_text("".join(mails))
    result = cli("ingest", str(home / "box.mbox"), "--corpus", "mail")
    assert "In one thread by their subjects alone:\n  message 1 (byte 0) and m" in result.stdout


def test_a_corpus_of_another_embedder_is_refused(cli, rows, monkeypatch):
    assert cli("ingest", str(rows), "--corpus", "facts").exit_code == 0
    other = type("Other", (type(data_folder.load_embedder(None)),), {"fingerprint": "other"})
    monkeypatch.setattr(data_folder, "load_embedder", lambda name, device=None: other())
    result = cli("ingest", str(rows), "--corpus", "facts")
    assert result.exit_code == 1
    assert "was embedded with buckets, not with other" in result.stderr


def message(number, answers=""):
    reply = f"In-Reply-To: <{answers}@b>\n" if answers else ""
    return (
        f"From a@b Thu Jan  1 00:00:00 2026\nMessage-ID: <{number}@b>\n{reply}"
        f"From: a@b\nSubject: Number {number}\n\nwords of {number}\n\n"
    )


@pytest.fixture
def two_threads(cli, home):
    """A corpus of two mails, and the one that ties them together, which is not in it."""
    for number, answers in (("1", ""), ("3", "2")):
        (home / "box.mbox").write_text(message(number, answers))
        assert cli("ingest", str(home / "box.mbox"), "--corpus", "mail").exit_code == 0
    (home / "box.mbox").write_text(message("2", "1"))
    return str(home / "box.mbox")


@pytest.fixture
def many_threads(cli, home):
    """A corpus of five mails, and the one that ties them together, which is not in it."""
    box = home / "box.mbox"
    box.write_text("".join(message(str(number)) for number in range(1, 6)))
    assert cli("ingest", str(box), "--corpus", "mail").exit_code == 0
    references = " ".join(f"<{number}@b>" for number in range(1, 6))
    last = message("9").replace("From: a@b", f"References: {references}\nFrom: a@b")
    box.write_text(last + "not a mail\n")
    return str(box)


def test_what_ties_many_units_is_withheld_without_a_terminal(cli, many_threads):
    result = cli("ingest", many_threads, "--corpus", "mail", "--no-ledger")
    assert result.exit_code == 0, result.output
    assert "withheld" in result.stdout
    assert "5 units" in result.stdout
    assert "--yes" in result.stdout
    assert "(Number 9)" in result.stdout
    assert "Number" not in result.stderr
    assert units() == 5


def test_what_ties_many_conversations_of_one_load_is_withheld(cli, home):
    box = home / "first.mbox"
    references = " ".join(f"<{number}@b>" for number in range(1, 6))
    last = message("9").replace("From: a@b", f"References: {references}\nFrom: a@b")
    box.write_text(last + "".join(message(str(number)) for number in range(1, 6)))
    words = ("ingest", str(box), "--corpus", "mail", "--no-ledger")
    (skipped,) = json.loads(cli(*words, "--json").stdout)["skipped"]
    assert skipped["position"] == "message 1 (byte 0)"
    assert "--yes" in skipped["reason"]
    assert units() == 5
    assert cli(*words, "--yes").exit_code == 0
    assert units() == 1


@pytest.mark.parametrize("answer", ["y", "n"])
def test_many_joins_are_asked_about(cli, many_threads, monkeypatch, answer):
    terminal = types.SimpleNamespace(stdin=types.SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("dpicl_rag.cli.show_joins.sys", terminal)
    result = cli(
        "ingest", many_threads, "--corpus", "mail", "--no-ledger", "--json", input=f"{answer}\n"
    )
    assert "5 units are one" in result.stderr
    for title in ("(Number 1)", "(Number 5)", "(Number 9)"):
        assert title in result.stderr
    assert result.exit_code == 0
    assert units() == (1 if answer == "y" else 5)
    told = json.loads(result.stdout.splitlines()[-1])  # after the echo
    (join,) = told["joins" if answer == "y" else "withheld"]
    assert len(join["parts"]) == 4


def test_many_joins_are_accepted_listed_and_undone(cli, many_threads):
    words = ("ingest", many_threads, "--corpus", "mail", "--no-ledger")
    result = cli(*words, "--yes")
    assert result.exit_code == 0, result.output
    assert "5 units are one" in result.stdout
    assert units() == 1
    listed = cli("corpora", "joins", "mail")
    (join,) = json.loads(cli("corpora", "joins", "mail", "--json").stdout)["joins"]
    assert join["messages"][0]["subject"] == "Number 9"
    assert join["messages"][0]["message"] in listed.stdout
    forgotten = cli(
        "corpora", "forget", "mail", "--message", join["messages"][0]["message"], "--no-ledger"
    )
    assert forgotten.exit_code == 0, forgotten.output
    assert units() == 5
    assert json.loads(cli("corpora", "joins", "mail", "--json").stdout)["joins"] == []
    again = json.loads(cli(*words, "--json").stdout)
    assert (again["forgotten"], again["new"], again["joins"]) == (1, 0, [])
    assert "forgotten before, left out" in cli(*words).stdout
    assert units() == 5


def units():
    corpus = Corpus.open("mail", embedder=data_folder.load_embedder(None))
    try:
        return len({record.unit for record in corpus.records()})
    finally:
        corpus.close()


@pytest.mark.heavy
def test_a_late_reply_joins_threads_and_their_spend(cli, two_threads, monkeypatch):
    assert units() == 2
    words = ("--corpus", "mail", "--threshold", "-1", "--max-tokens", "1")
    assert cli("ask", "Which number?", *words).exit_code == 0
    merged = []
    merge = Ledger.merge_units
    monkeypatch.setattr(
        Ledger, "merge_units", lambda self, *given: merged.append(given) or merge(self, *given)
    )
    assert cli("ingest", two_threads, "--corpus", "mail").exit_code == 0
    assert units() == 1
    assert [name for name, _ in merged] == ["mail"]


def test_without_a_ledger_it_is_refused(cli, two_threads, home):
    result = cli("ingest", two_threads, "--corpus", "mail")
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "--ledger FILE" in result.stderr
    assert units() == 2
    assert not data_folder.default_ledger().exists()
    both = ("--no-ledger", "--ledger", str(home / "l.sqlite"))  # as a settings file may name one
    assert cli("ingest", two_threads, "--corpus", "mail", *both).exit_code == 0
    assert units() == 1
    assert not (home / "l.sqlite").exists()


def test_another_privacy_unit_is_refused(cli, two_threads):
    result = cli("ingest", two_threads, "--corpus", "mail", "--unit", "sender")
    assert result.exit_code == 1
    assert "of 'mail' is one document, of mail one email thread, not the same send" in result.stderr
    assert "--unit sender --anew" in result.stderr
    assert "thread or document" not in result.stderr


def test_the_key_of_a_row_is_named(cli, home):
    path = home / "rows.csv"
    for word in ("before", "after"):
        path.write_text(f"nr,text\n1,{word}\n")
        assert cli("ingest", str(path), "--corpus", "mail", "--key-field", "nr").exit_code == 0
    assert units() == 1
    result = cli("ingest", str(path), "--corpus", "mail", "--key-field", "number")
    assert result.exit_code == 1
    assert "the table has no column for the key field 'number'" in result.stderr


def test_the_device_that_embeds_is_chosen(cli, rows, monkeypatch):
    devices = []
    load = data_folder.load_embedder

    def remember(name, device=None):
        devices.append(device)
        return load(name)

    monkeypatch.setattr(data_folder, "load_embedder", remember)
    assert cli("ingest", str(rows), "--corpus", "facts", "--device", "cpu").exit_code == 0
    assert devices == ["cpu"]


@pytest.mark.parametrize("content", ["", "\n", "text,label\n"], ids=["empty", "blank", "header"])
def test_an_empty_table_is_told_of_before_a_corpus_is_made(cli, home, content):
    (home / "empty.csv").write_text(content)
    result = cli("ingest", str(home / "empty.csv"), "--corpus", "empty", "--yes")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "a table names its columns in its first row" in result.stderr
    (home / "note.txt").write_text("A note.")
    both = (str(home / "empty.csv"), str(home / "note.txt"))
    assert cli("ingest", *both, "--corpus", "both", "--yes").exit_code == 0


@pytest.mark.parametrize("header", ["No,Who", "9"])
def test_a_header_that_fits_no_row_is_told_of_before_a_corpus_is_made(cli, home, header):
    (home / "rows.csv").write_text("7,Ida,lamp\n8,Olaf,door\n")
    result = cli("ingest", str(home / "rows.csv"), "--corpus", "rows", "--header", header)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "--header LINE" in result.stderr
    assert Corpus.names() == []


def test_the_list_of_records_is_named(cli, home):
    (home / "t.json").write_text('{"cases": [{"text": "lamp"}, {"text": "door"}], "count": 2}')
    refused = cli("ingest", str(home / "t.json"), "--corpus", "cases")
    assert "it holds 'cases'" in refused.stderr
    assert "--records" in cli("ingest", "imap://a@b", "--corpus", "facts", "--records", "x").stderr
    told = cli("ingest", str(home / "t.json"), "--corpus", "cases", "--records", "cases", "--json")
    assert json.loads(told.stdout)["loaded"] == 2


def test_a_name_whose_answers_were_paid_for_elsewhere_is_taken(cli, rows):
    with Ledger(data_folder.default_ledger()) as book:
        book.set_budget(corpus="facts", rho=0.03)
        assert cli("ingest", str(rows), "--corpus", "facts", "--no-ledger").exit_code == 0
        assert cli("corpora", "delete", "facts", "--yes").exit_code == 0
        with book.reserve(corpus="facts", rho=0.01) as held:
            held.commit(0.01)
    refused = cli("ingest", str(rows), "--corpus", "facts")
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: answers of a corpus 'facts' were paid for, and it is")
    assert "under what is left of its budget with --yes" in refused.stderr
    assert Corpus.names() == []
    assert cli("ingest", str(rows), "--corpus", "facts", "--yes").exit_code == 0
    assert cli("ingest", str(rows), "--corpus", "facts").exit_code == 0
    with Ledger(data_folder.default_ledger()) as book:
        [status] = book.status()
    assert (status.budget, status.spent) == (0.03, 0.01)


def test_a_budget_may_be_given_before_there_are_documents(cli, rows):
    assert cli("budget", "set", "--corpus", "facts", "--epsilon", "2").exit_code == 0
    assert cli("ingest", str(rows), "--corpus", "facts").exit_code == 0
