"""Commands over a Chroma collection, whose address stands where the name of a corpus does."""

from __future__ import annotations

import json

import chromadb
import pytest
from chromadb.config import Settings

from tests.support.bucket_embedder import BucketEmbedder
from tests.support.chroma_server import chroma_server, free_port


@pytest.fixture(params=["folder", "server"])
def place(request, home, tmp_path_factory):
    """Where a collection is that plain Chroma has filled."""
    folder = tmp_path_factory.mktemp("chroma")
    texts = [f"The code is {n}{n}." for n in range(9)]
    with chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False)) as client:
        client.create_collection("facts", embedding_function=None).add(
            [str(n) for n in range(9)],
            embeddings=BucketEmbedder().embed(texts),
            documents=texts,
            metadatas=[{"owner": f"owner-{n}"} for n in range(9)],
        )
    if request.param == "folder":
        yield folder, str(folder)
    else:
        with chroma_server(folder) as port:
            yield folder, f"http://127.0.0.1:{port}"


def succeed(result):
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.heavy
def test_every_command_takes_one(cli, place, spending):
    folder, there = place
    name = f"chroma:{there}#facts"
    refused = cli("ask", "What code?", "--corpus", name)
    assert refused.exit_code == 1
    assert f"corpora adopt {name} --unit FIELD" in refused.stderr
    assert cli("ask", "What code?", "--corpus", f"{name}?unit=owner").exit_code == 1
    told = succeed(cli("corpora", "check", f"{name}?unit=owner"))
    assert "unit: not on record\nasked for: owner\n" in told
    refused = cli("corpora", "adopt", name, "--unit", "owners")
    assert "no record of 'facts' has a field 'owners'" in refused.stderr
    succeed(cli("corpora", "adopt", name, "--unit", "document"))
    succeed(cli("corpora", "release", name))
    succeed(cli("corpora", "adopt", name, "--unit", "owner"))
    told = json.loads(succeed(cli("corpora", "check", name, "--json")))
    assert (told["records"], told["unit"], told["fields"]) == (9, "owner", {"owner": 9})
    assert told["missing"] == []
    words = ("--corpus", name)
    succeed(cli("budget", "set", "--corpus", "facts", "--epsilon", "500"))
    succeed(cli("ask", "What code?", *words, "--threshold", "-1", "--max-tokens", "1"))
    assert spending("facts").questions == 1
    refused = cli("corpora", "release", name)
    assert "were paid for under its unit" in refused.stderr
    succeed(cli("classify", "What?", *words, "--label", "a", "--label", "b", "--no-ledger"))
    succeed(cli("corpora", "scores", name, "What?"))
    if there == str(folder):
        assert b"owner-1" in b"".join(path.read_bytes() for path in folder.glob("dpicl-rag.*"))
    succeed(cli("corpora", "forget", name, "--unit", "owner-1"))
    if there == str(folder):
        held = b"".join(path.read_bytes() for path in folder.glob("dpicl-rag.*"))
        assert b"owner-1" not in held
        assert b"owner-2" in held


COMMANDS = [
    ("corpora", "forget", "{}", "--unit", "o"),
    ("corpora", "scores", "{}", "What?"),
    ("ask", "What?", "--corpus", "{}", "--no-ledger"),
    ("audit", "--corpus", "{}", "--question", "What?"),
    ("serve", "--corpus", "{}", "--port", "0"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_where_nothing_answers_one_line_says_so(cli, home, command):
    nobody = f"http://127.0.0.1:{free_port()}"
    refused = cli(*(word.format(f"chroma:{nobody}#facts") for word in command))
    assert refused.exit_code == 1
    (line,) = refused.stderr.strip().splitlines()
    assert f"no Chroma server answers at {nobody}; start it with `chroma run`" in line


def test_ingest_names_what_it_lacks(cli, home):
    for words, lacks in (
        (("ingest", "--corpus", "mail"), "name what is to be read"),
        (("ingest", "rows.csv"), "name the corpus"),
    ):
        refused = cli(*words)
        assert refused.exit_code == 2
        assert lacks in refused.stderr
