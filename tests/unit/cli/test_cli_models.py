"""Which model answers: what is said of the default, of names that are none, and the version."""

from __future__ import annotations

from importlib.metadata import version


def test_a_toy_is_said_once_and_not_in_the_json(cli, mail, monkeypatch, tiny_model):
    words = ("ask", "What is the code?", "--corpus", mail, "--max-tokens", "2")
    assert "toy" not in cli(*words).output
    monkeypatch.setattr(
        "dpicl_rag.language_models.defaults._toys", {tiny_model.fingerprint}, raising=False
    )
    plain = cli(*words, "--fresh")
    assert plain.stderr.count("toy model: the default is for trying the library") == 1
    found = cli(*words, "--fresh", "--json")
    assert "toy" not in found.stdout
    assert found.stderr.count("toy model") == 1


def test_the_name_of_a_chat_api_is_one_sentence(cli, mail):
    done = cli("ask", "What is the code?", "--corpus", mail, "--model", "gpt-4o-mini")
    assert done.exit_code == 1
    assert "gpt-4o-mini is behind a chat API" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_version(cli):
    done = cli("--version")
    assert (done.exit_code, done.output) == (0, f"dpicl-rag {version('dpicl-rag')}\n")
