from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpicl_rag.cli import console, data_folder, settings_file
from dpicl_rag.ledger import Ledger, ScopeStatus
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.command_line import run_command

SECRET = "zanzibar-4471"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_model) -> Path:
    """A user's data folder that is empty, and models that are small."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for variable in (settings_file.ENVIRONMENT, *settings_file.variables().values()):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(data_folder, "load_embedder", lambda name, device=None: BucketEmbedder())
    monkeypatch.setattr("dpicl_rag.language_models.defaults.default_model", lambda: tiny_model)
    console.show_tracebacks(False)
    return tmp_path


@pytest.fixture
def cli():
    """Run a command; ``.output`` is stdout and stderr together."""
    return run_command


@pytest.fixture
def secret() -> str:
    """What every document of ``mail`` says and no other output may."""
    return SECRET


@pytest.fixture
def mail(cli, home: Path) -> str:
    """A corpus of three documents, each with a secret."""
    source = home / "mail.jsonl"
    lines = [{"text": f"The code is {SECRET}, entry {n}.", "owner": f"o{n % 2}"} for n in range(3)]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert cli("ingest", str(source), "--corpus", "mail").exit_code == 0
    return "mail"


@pytest.fixture
def spending():
    """What the default ledger says of a corpus, or of a caller."""

    def find(name: str, kind: str = "corpus") -> ScopeStatus:
        with Ledger(data_folder.default_ledger()) as ledger:
            (status,) = [s for s in ledger.status() if (s.kind, s.name) == (kind, name)]
        return status

    return find
