"""`ingest` tells what a unit is, and asks before a column of persons is passed over."""

from __future__ import annotations

import json
import types

import pytest

from dpicl_rag.cli import console, data_folder
from dpicl_rag.cli.console import ProgressLog
from dpicl_rag.corpora import Corpus

TICKETS = "customer,subject,body\nAnn,Hi,It broke\nAnn,Yo,It works\nBo,Hm,It hums\n"


@pytest.fixture
def tickets(home):
    path = home / "tickets.csv"
    path.write_text(TICKETS)
    return str(path)


@pytest.fixture
def terminal(monkeypatch):
    """Somebody is there to answer."""
    there = types.SimpleNamespace(stdin=types.SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("dpicl_rag.cli.ingest.sys", there)


def units():
    corpus = Corpus.open("tickets", embedder=data_folder.load_embedder(None))
    try:
        return len({record.unit for record in corpus.records()})
    finally:
        corpus.close()


def test_it_tells_the_unit_and_the_columns(cli, tickets):
    result = cli("ingest", tickets, "--corpus", "tickets", "--unit", "customer")
    assert result.exit_code == 0, result.output
    assert "A unit is: the same customer. Text: body. Not read: subject." in result.stdout
    found = json.loads(
        cli("ingest", tickets, "--corpus", "tickets", "--unit", "customer", "--json").stdout
    )
    assert (found["unit"], found["text"]) == ("the same customer", ["body"])
    assert (found["not_read"], found["persons"], found["units"]) == (["subject"], [], 2)


def test_where_nobody_answers_nothing_is_stored(cli, tickets):
    result = cli("ingest", tickets, "--corpus", "tickets")
    assert result.exit_code == 1
    assert result.stdout == ""
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert "'customer' looks like a person" in line
    assert "--unit customer" in line
    assert "--unit document" in line
    assert Corpus.names() == []


@pytest.mark.parametrize(("answer", "count"), [("customer", 2), ("nobody\ndocument", 3)])
def test_it_asks(cli, tickets, terminal, answer, count):
    result = cli("ingest", tickets, "--corpus", "tickets", input=f"{answer}\n")
    assert result.exit_code == 0, result.output
    assert "A unit is: one row. Text: body. Not read: customer, subject." in result.stderr
    assert units() == count


@pytest.mark.parametrize("words", [["--unit", "document"], ["--unit", "customer"], ["--public"]])
def test_a_chosen_unit_is_not_questioned(cli, tickets, words):
    result = cli("ingest", tickets, "--corpus", "tickets", *words)
    assert result.exit_code == 0, result.output
    assert "looks like" not in result.output


def test_with_yes_it_warns_once_and_goes_on(cli, tickets):
    result = cli("ingest", tickets, "--corpus", "tickets", "--yes")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("warning: a unit would be one row, but 'customer'") == 1
    assert units() == 3
    again = cli("ingest", tickets, "--corpus", "tickets")  # the unit is fixed
    assert again.exit_code == 0
    assert "looks like" not in again.stderr


def test_a_corpus_is_made_anew_under_the_wanted_unit(cli, tickets, home):
    words = ("ingest", tickets, "--corpus", "tickets")
    assert cli(*words, "--unit", "document").exit_code == 0
    assert cli("ask", "What works?", "--corpus", "tickets", "--max-tokens", "1").exit_code == 0
    refused = cli(*words, "--unit", "customer")
    assert refused.exit_code == 1
    assert "--unit customer --anew" in refused.stderr
    made = cli(*words, "--unit", "customer", "--anew", "--json")
    assert made.exit_code == 0, made.output
    assert (json.loads(made.stdout)["new"], units()) == (0, 2)
    assert cli(*words, "--unit", "customer").exit_code == 0
    assert cli(*words, "--anew").exit_code == 2


def test_what_leaves_a_corpus_made_anew_is_asked_about(cli, tickets, home):
    words = ("ingest", tickets, "--corpus", "tickets")
    assert cli(*words, "--unit", "document").exit_code == 0
    (home / "tickets.csv").write_text("".join(TICKETS.splitlines(keepends=True)[:3]))
    words += ("--unit", "customer", "--anew", "--no-ledger")
    refused = cli(*words)
    assert refused.exit_code == 1
    assert "let the others leave it with --yes" in refused.stderr
    assert units() == 3
    assert "units that left the corpus" in cli(*words, "--yes").stdout
    assert units() == 1


def test_several_paths_are_one_load(cli, tickets, home):
    more = home / "more.json"
    more.write_text(json.dumps([{"customer": "Ann", "body": "It sings"}]))
    words = ("--corpus", "tickets", "--unit", "customer", "--json")
    found = json.loads(cli("ingest", tickets, str(more), *words).stdout)
    assert (found["read"], found["units"]) == (4, 2)


def test_a_log_has_lines_unless_it_is_quiet(cli, tickets):
    words = ("ingest", tickets, "--corpus", "tickets", "--unit", "document")
    assert "Embedding: 3 of 3\n" in cli(*words).stderr
    assert cli(*words, "--quiet").stderr == ""


def test_a_line_for_each_tenth_and_each_half_minute():
    now, lines = [0.0], []
    log = ProgressLog("Embedding", lines.append, counts=True, clock=lambda: now[0])
    for done in range(1001):
        log.update(done, 1000)
    assert lines == [f"Embedding: {done:,} of 1,000" for done in range(100, 1001, 100)]
    lines.clear()
    log = ProgressLog("Reading", lines.append, counts=True, clock=lambda: now[0])
    for second in range(100):
        now[0] = float(second)
        log.update(second, None)
    assert lines == [f"Reading: {at}" for at in (30, 60, 90)]


def test_where_others_ask_a_log_says_nothing(capsys):
    with console.Bar("Reading the documents", quiet=False) as bar:
        bar.update(0.5)
        bar.update(1.0)
    assert capsys.readouterr().err == ""
