"""Stores in folders that are named by a relative path."""

from __future__ import annotations

import json
import os

import pytest

from dpicl_rag.cli import data_folder
from dpicl_rag.corpora import Corpus


@pytest.fixture(params=[".", "here", "../beside", "./sub/.."])
def store(request, home, monkeypatch):
    """A relative path, and the working directory that it starts from."""
    (home / "work" / "sub").mkdir(parents=True)
    monkeypatch.chdir(home / "work")
    return request.param


@pytest.fixture
def source(home):
    path = home / "facts.jsonl"
    lines = [{"text": f"fact number {n}", "owner": f"o{n}"} for n in range(3)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return os.path.relpath(path, home / "work")


def succeed(result):
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_command_finds_it(cli, source, store, home, monkeypatch):
    where = ("--path", store)
    words = ("--corpus", "facts", *where)
    succeed(cli("ingest", source, *words, "--unit", "owner", "--warm"))
    assert succeed(cli("corpora", "list", *where)) == "facts\n"
    read = data_folder.prefix_folder("facts", home / "work" / store)
    assert any(read.iterdir())
    asked = ("--threshold", "-1", "--max-tokens", "1", "--no-ledger")
    succeed(cli("ask", "What fact?", *words, *asked))
    succeed(cli("classify", "What?", *words, "--label", "a", "--label", "b", *asked[:2]))
    succeed(cli("corpora", "forget", "facts", "--unit", "o1", *where))
    assert not read.exists()
    succeed(cli("corpora", "delete", "facts", "--yes", *where))
    assert Corpus.names(store) == []


def test_it_may_come_from_the_environment(cli, source, store, monkeypatch):
    monkeypatch.setenv("DPICL_RAG_STORE", store)
    succeed(cli("ingest", source, "--corpus", "facts"))
    succeed(cli("ask", "What?", "--corpus", "facts", "--max-tokens", "1", "--no-ledger"))
    succeed(cli("corpora", "delete", "facts", "--yes"))


def test_what_was_read_lies_at_one_place_however_the_store_is_spelled(home, monkeypatch):
    (home / "work").mkdir()
    (home / "link").symlink_to(home / "work")
    monkeypatch.chdir(home / "work")
    expected = home / "work-read" / "facts"
    for spelling in (".", "../work", "../link", str(home / "work")):
        assert data_folder.prefix_folder("facts", type(home)(spelling)) == expected
    assert data_folder.prefix_folder("facts", type(home)("/")).is_absolute()
