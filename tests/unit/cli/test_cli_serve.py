"""``dpicl-rag serve`` in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from dpicl_rag import Document, Ledger
from dpicl_rag.corpora import Corpus
from dpicl_rag.errors import ConfigurationError
from tests.support.bucket_embedder import BucketEmbedder

ROOT = Path(__file__).parents[3]
PER_TOKEN = ("--unsupported", "ignore", "--agreement", "off")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")


@contextmanager
def served(folder: Path, *options: str):
    """The process, where it serves, and the key of this run."""
    with closing(Corpus.create("notes", folder / "store", embedder=BucketEmbedder())) as corpus:
        corpus.add([Document(f"The office is in Elm Lane {n}.", f"unit {n}") for n in range(30)])
    with Ledger(folder / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="notes", rho=1e6)
    places = {"--path": "store", "--ledger": "ledger.sqlite"}
    words = [word for name, file in places.items() for word in (name, str(folder / file))]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.small_cli", "serve", "--port", "0", *words, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_DATA_HOME": str(folder)},
    )
    with process:
        try:
            found = re.search(r"http://\S+", process.stdout.readline())
            assert found is not None, process.stderr.read()
            key = process.stdout.readline().strip().rpartition("#")[2]
            yield process, found[0], {"Authorization": f"Bearer {key}"}
        finally:
            process.kill()


@pytest.mark.heavy
def test_sigterm_lets_an_answer_end_at_its_next_token(tmp_path):
    body = {"model": "notes", "messages": [{"role": "user", "content": "Where?"}], "stream": True}
    options = ("--max-tokens", "500", "--log", "stderr", *PER_TOKEN)
    with served(tmp_path, *options) as (process, url, headers):
        events = []
        with httpx.stream(
            "POST", f"{url}v1/chat/completions", json=body, headers=headers, timeout=60
        ) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    events.append(line[6:])
                if len(events) == 4:
                    process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        errors = process.stderr.read()
    assert events[-1] == "[DONE]"
    last = json.loads(events[-2])
    assert last["choices"][0]["finish_reason"] == "length"
    assert len(events) < 400
    *notes, line = errors.splitlines()
    logged = json.loads(line)  # though the command line silences libraries
    assert (logged["corpus"], logged["status"], logged["stopped_by"]) == ("notes", 200, "length")
    assert not any("Traceback" in note for note in notes)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        (status,) = ledger.status()
    assert status.questions == 1
    assert status.reserved == 0


@pytest.fixture
def refused(cli, tmp_path):
    """What a server that does not start says."""

    def run(*options):
        done = cli("serve", "--port", "0", "--path", str(tmp_path / "none"), *options)
        assert done.exit_code == 1
        assert "Traceback" not in done.stderr
        return done.stderr

    return run


def test_what_cannot_be_listened_on_is_said_in_one_line(refused):
    said = refused("--host", "0.0.0.0")
    assert "without keys the server listens on this machine only" in said


def test_a_file_of_keys_that_is_named_and_not_there_opens_nothing_to_all(refused, tmp_path):
    assert "there is no key file" in refused("--keys", str(tmp_path / "kyes.sqlite"))


@pytest.mark.parametrize("sites", [(), ("https://chat.example", "http://localhost:3000")])
def test_sites_whose_pages_may_ask_are_those_that_are_named(refused, monkeypatch, sites):
    def app(**parts):
        raise ConfigurationError(f"named: {[*parts['origins']]}")

    monkeypatch.setattr("dpicl_rag.server.app.create_app", app)
    options = [word for site in sites for word in ("--allow-origin", site)]
    assert f"named: {[*sites]}" in refused(*options)
