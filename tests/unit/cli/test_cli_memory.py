"""`memory`: the released answers of a ledger's corpora, for who runs the system."""

from __future__ import annotations

import json

import pytest

from dpicl_rag.cli import data_folder
from dpicl_rag.knowledge import AnswerMemory
from tests.support.bucket_embedder import BucketEmbedder

QUESTION = "When does the canteen open?"


@pytest.fixture
def remember(home):
    def keep(question: str = QUESTION, answer: str = "At ten.", corpus="mail", **options) -> None:
        path = data_folder.memory_path(None)
        with AnswerMemory(path, corpus, embedder=BucketEmbedder(), **options) as memory:
            memory.remember(question, answer, epsilon=4.0, delta=1e-5)

    return keep


@pytest.fixture
def entries(cli):
    def read(*words: str) -> list[dict]:
        result = cli("memory", "show", "--json", *words)
        assert (result.exit_code, result.stderr) == (0, "")
        return json.loads(result.stdout)["entries"]

    return read


def test_show_names_every_field(remember, entries):
    remember(caller="ann")
    (entry,) = entries()
    assert entry.pop("time").endswith("+00:00")
    assert entry == {
        "id": 1,
        "corpus": "mail",
        "caller": "ann",
        "question": QUESTION,
        "answer": "At ten.",
        "epsilon": 4.0,
        "delta": 1e-5,
        "whole": True,
        "edited": False,
    }


def test_show_as_a_table_without_control_characters(cli, remember):
    remember("Who\x1b[2J?", "Ann [bold]Lee[/bold]", caller="bob")
    shown = cli("memory", "show").stdout
    assert "\x1b" not in shown
    for word in ("mail", "bob", "Who[2J?", "[bold]", "epsilon 4"):
        assert word in shown.replace("\n", "")


def test_show_chooses_by_corpus_and_caller(remember, entries):
    remember()
    remember(caller="ann")
    remember(corpus="other", caller="ann")
    chosen = [entries(), entries("--corpus", "mail"), entries("--caller", "ann")]
    assert [[entry["id"] for entry in found] for found in chosen] == [[1, 2, 3], [1, 2], [2, 3]]
    assert [e["id"] for e in entries("--corpus", "mail", "--caller", "ann")] == [2]
    assert entries("--corpus", "unknown") == []


def test_looking_makes_no_file(cli, entries):
    assert entries() == []
    assert "Nothing is remembered yet" in cli("memory", "show").stdout
    for words in (["forget", "1"], ["edit", "1", "x"], ["clear", "--corpus", "mail", "--yes"]):
        result = cli("memory", *words)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "nothing is remembered yet" in result.stderr
    assert not data_folder.memory_path(None).exists()


def test_edit_and_forget(cli, remember, entries):
    remember()
    remember("Who leads?", "Ann.")
    assert cli("memory", "edit", "1", " At seven. ").exit_code == 0
    assert [(e["answer"], e["edited"]) for e in entries()] == [("At seven.", True), ("Ann.", False)]
    assert "edited" in cli("memory", "show").stdout
    assert cli("memory", "forget", "2").exit_code == 0
    assert [e["id"] for e in entries()] == [1]
    again = cli("memory", "forget", "2")
    assert again.exit_code == 1
    assert again.stderr.startswith("error: there is no entry 2 in this memory; `dpicl-rag memory")
    assert cli("memory", "edit", "1", "  ").exit_code == 2


@pytest.mark.heavy
def test_clear_asks_first_and_takes_what_was_named(cli, remember, entries):
    remember()
    remember(caller="ann")
    remember(corpus="other")
    assert cli("memory", "clear").exit_code == 2
    refused = cli("memory", "clear", "--corpus", "mail", input="n\n")
    assert refused.exit_code == 1
    assert "all remembered answers of corpus mail?" in refused.output
    assert len(entries()) == 3
    done = cli("memory", "clear", "--corpus", "mail", "--caller", "ann", "--yes")
    assert done.stdout == "forgot 1 answer\n"
    assert cli("memory", "clear", "--corpus", "mail", input="y\n").exit_code == 0
    assert [e["corpus"] for e in entries()] == ["other"]


def test_the_memory_stands_beside_the_ledger_that_is_named(cli, home, entries):
    ledger = home / "own" / "book.sqlite"
    with AnswerMemory(f"{ledger}.memory", "mail", embedder=BucketEmbedder()) as memory:
        memory.remember(QUESTION, "At ten.")
    assert entries() == []
    assert len(entries("--ledger", str(ledger))) == 1


def test_a_damaged_memory_is_one_line(cli, home):
    path = data_folder.memory_path(None)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("text")
    result = cli("memory", "show")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert "restore it from a backup" in result.stderr


def test_deleting_a_corpus_says_where_its_answers_are(cli, mail, remember, entries):
    remember()
    said = cli("corpora", "delete", mail, "--yes").stdout
    assert "released answers in the memory (`dpicl-rag memory clear --corpus mail`)" in said
    assert len(entries()) == 1
