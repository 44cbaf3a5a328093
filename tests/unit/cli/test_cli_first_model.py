"""The first model: who is asked, once, and what becomes of a yes and a no."""

from __future__ import annotations

import types
from dataclasses import replace
from pathlib import Path

import pytest

from dpicl_rag.cli import model_commands as first_model
from dpicl_rag.cli import settings_file
from dpicl_rag.errors import ModelError
from dpicl_rag.language_models import converted_models
from dpicl_rag.language_models.converted_models import SMALL, QuantisedModel

QUESTION = "Take small from now on?"


@pytest.fixture(autouse=True)
def fetched(tmp_path, monkeypatch):
    """How often the file was fetched; nothing is converted."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    calls = []

    def fetch(self):
        calls.append(self.name)
        return tmp_path

    def convert(_, folder, dtype):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr("dpicl_rag.weights.Pinned.folder", fetch)
    monkeypatch.setattr(converted_models, "_convert", convert)
    return calls


@pytest.fixture
def terminal(monkeypatch):
    """Somebody watches and may answer."""
    one = types.SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(first_model, "sys", types.SimpleNamespace(stdin=one, stderr=one))


@pytest.fixture
def table(home):
    path = home / "rows.jsonl"
    path.write_text('{"text": "A row."}\n')
    return str(path)


def test_a_no_is_remembered(cli, table, terminal, fetched):
    words = ("ingest", table, "--corpus", "rows")
    first = cli(*words, input="n\n")
    assert first.exit_code == 0, first.output
    assert "is a toy" in first.stderr
    assert QUESTION in first.stderr
    assert "1.1 GB" in first.stderr
    assert str(SMALL.place) in first.stderr
    assert QUESTION not in cli(*words).stderr
    assert fetched == []
    assert not settings_file.own_path().exists()


def test_a_yes_is_kept_in_the_settings_file(cli, table, terminal, fetched, monkeypatch):
    file = settings_file.own_path()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("# mine\nepsilon = 4.0\n\n[corpora.rows]\nepsilon = 2.0\n")
    words = ("ingest", table, "--corpus", "rows")
    done = cli(*words, input="y\n")
    assert done.exit_code == 0, done.output
    assert fetched == [SMALL.pinned.name]
    assert file.read_text().startswith('model = "small"\n# mine\n')
    found = settings_file.SettingsFile.read(file)
    assert (found.model, found.epsilon) == ("small", 4.0)
    assert QUESTION not in cli(*words).stderr


def test_nobody_is_asked_who_cannot_answer(cli, mail, table):
    assert QUESTION not in cli("ingest", table, "--corpus", "rows").output
    assert QUESTION not in cli("ask", "What?", "--corpus", mail, "--max-tokens", "2").output


@pytest.mark.parametrize("option", ["--json", "--quiet", "--plan"])
def test_some_commands_do_not_ask(cli, mail, terminal, option):
    words = ("ask", "What is the code?", "--corpus", mail, "--max-tokens", "2")
    done = cli(*words, option)
    assert done.exit_code == 0, done.output
    assert QUESTION not in done.output


def test_a_question_may_be_the_first_command(cli, mail, terminal):
    words = ("ask", "What is the code?", "--corpus", mail, "--max-tokens", "2")
    assert QUESTION in cli(*words, input="n\n").stderr


def test_who_names_a_model_is_not_asked(terminal, fetched):
    assert first_model.chosen_model("./mine", asks=True) == "./mine"
    assert fetched == []


def test_what_is_here_is_not_fetched(cli, table, terminal, fetched):
    SMALL.place.mkdir(parents=True)
    (SMALL.place / "config.json").write_text("{}")
    done = cli("ingest", table, "--corpus", "rows", input="y\n")
    assert "small, is here" in done.stderr
    assert "1.1 GB" not in done.stderr
    assert fetched == []


def test_without_a_network_the_toy_goes_on(cli, table, terminal, monkeypatch):
    def unreachable(self):
        raise ModelError("the hub cannot be reached")

    monkeypatch.setattr("dpicl_rag.weights.Pinned.folder", unreachable)
    done = cli("ingest", table, "--corpus", "rows", input="y\n")
    assert done.exit_code == 0, done.output
    assert "the hub cannot be reached. The toy goes on." in done.stderr
    assert not settings_file.own_path().exists()


def test_where_the_settings_cannot_be_written_it_is_taken_this_once(terminal, monkeypatch, capsys):
    place = Path("/proc/none/dpicl-rag.toml")
    chosen = settings_file.ChosenSettings(place, settings_file.SettingsFile())
    monkeypatch.setattr(settings_file, "_current", chosen)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: True)
    assert first_model.chosen_model(None, asks=True) == "small"
    assert "give --model small each time" in capsys.readouterr().err


def test_two_files_of_one_name_have_two_folders():
    other = replace(SMALL.pinned, files={"a.gguf": "0" * 64})
    assert QuantisedModel(other, "bfloat16").place != SMALL.place
