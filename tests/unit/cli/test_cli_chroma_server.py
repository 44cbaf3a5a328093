"""Commands over a real Chroma server: an address stands where a folder does."""

from __future__ import annotations

import json

import pytest

from dpicl_rag.cli import data_folder
from tests.support.chroma_server import chroma_server, free_port


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with chroma_server(tmp_path_factory.mktemp("server")) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def cache(home, monkeypatch):
    """What this machine keeps of servers."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    return home / "cache" / "dpicl-rag" / "servers"


@pytest.fixture
def source(home):
    path = home / "facts.jsonl"
    lines = [{"text": f"The code is {n}{n}.", "owner": f"owner-{n}"} for n in range(9)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def held(cache):
    """All that the files say."""
    return b"".join(path.read_bytes() for path in cache.iterdir())


def succeed(result):
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_command_takes_one(cli, source, address, cache, spending):
    where = ("--path", address)
    words = ("--corpus", "facts", *where)
    succeed(cli("ingest", source, *words, "--unit", "owner"))
    assert "facts" in succeed(cli("corpora", "list", *where)).split()
    succeed(cli("budget", "set", "--corpus", "facts", "--epsilon", "500"))
    succeed(cli("ask", "What code?", *words, "--threshold", "-1", "--max-tokens", "1"))
    assert spending("facts").questions == 1
    succeed(cli("classify", "What?", *words, "--label", "a", "--label", "b", "--no-ledger"))
    succeed(cli("corpora", "scores", "facts", "What?", *where))
    assert b"owner-1" in held(cache)
    succeed(cli("corpora", "forget", "facts", "--unit", "owner-1", *where))
    assert b"owner-1" not in held(cache)
    assert b"owner-2" in held(cache)
    succeed(cli("corpora", "delete", "facts", "--yes", *where))
    assert not [path for path in cache.iterdir() if path.suffix != ".lock"]
    assert "facts" not in succeed(cli("corpora", "list", *where)).split()


def test_it_may_come_from_the_environment(cli, source, address, cache, monkeypatch):
    monkeypatch.setenv("DPICL_RAG_STORE", address)
    succeed(cli("ingest", source, "--corpus", "others"))
    succeed(cli("ask", "What?", "--corpus", "others", "--max-tokens", "1", "--no-ledger"))
    succeed(cli("corpora", "delete", "others", "--yes"))


def test_no_machine_keeps_what_the_model_has_read_of_it(cli, source, address, cache):
    given = ("--corpus", "facts", "--path", address)
    refused = cli("ingest", source, *given, "--warm")
    assert refused.exit_code == 1
    assert "--warm needs a store in a folder" in refused.stderr
    assert not data_folder.prefix_folder("facts", address).exists()


COMMANDS = [
    ("corpora", "list"),
    ("corpora", "forget", "facts", "--unit", "o"),
    ("corpora", "delete", "facts", "--yes"),
    ("corpora", "scores", "facts", "What?"),
    ("ask", "What?", "--corpus", "facts", "--no-ledger"),
    ("audit", "--corpus", "facts", "--question", "What?"),
    ("serve", "--port", "0"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_where_nothing_answers_one_line_says_so(cli, command):
    nobody = f"http://127.0.0.1:{free_port()}"
    refused = cli(*command, "--path", nobody)
    assert refused.exit_code == 1
    (line,) = refused.stderr.strip().splitlines()
    assert f"no Chroma server answers at {nobody}; start it with `chroma run`" in line
