"""`ingest --warm`: documents read ahead, found by `ask`, and gone with their corpus."""

from __future__ import annotations

import json

import pytest

from dpicl_rag.cli import data_folder
from dpicl_rag.language_models.transformers_rows import CachedStates


@pytest.fixture
def passes(monkeypatch):
    """Documents that the model read and kept."""
    seen = []
    original = CachedStates.keep

    def counted(self, own, layers):
        if own:
            seen.append(own)
        return original(self, own, layers)

    monkeypatch.setattr(CachedStates, "keep", counted)
    return seen


@pytest.fixture
def source(home):
    path = home / "facts.jsonl"
    path.write_text("".join(json.dumps({"text": f"fact number {n}"}) + "\n" for n in range(5)))
    return str(path)


def ask(cli):
    words = ("--corpus", "facts", "--threshold", "-1", "--max-tokens", "2", "--no-ledger")
    result = cli("ask", "What fact?", *words)
    assert result.exit_code == 0, result.output


def test_what_was_read_ahead_is_not_read_again(cli, source, passes):
    result = cli("ingest", source, "--corpus", "facts", "--warm", "--json")
    assert json.loads(result.stdout)["read_ahead"] == 5
    assert len(passes) == 6  # the public row too
    passes.clear()
    ask(cli)
    assert len(passes) == 0


def test_without_it_nothing_is_kept_on_disk(cli, source, passes):
    assert "read_ahead" not in json.loads(
        cli("ingest", source, "--corpus", "facts", "--json").stdout
    )
    ask(cli)
    ask(cli)
    assert len(passes) == 12
    assert not data_folder.prefix_folder("facts", None).exists()


@pytest.mark.parametrize("end", ["delete", "forget"])
def test_it_goes_with_its_corpus_and_with_a_forgotten_unit(cli, source, end):
    assert cli("ingest", source, "--corpus", "facts", "--unit", "document", "--warm").exit_code == 0
    folder = data_folder.prefix_folder("facts", None)
    assert any(folder.iterdir())
    words = ("--yes",) if end == "delete" else ("--unit", "whoever")
    assert cli("corpora", end, "facts", *words).exit_code == 0
    assert not folder.exists()
    if end == "forget":
        ask(cli)
