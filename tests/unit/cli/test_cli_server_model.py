"""``--model`` with the address of a server."""

from __future__ import annotations

import json

import pytest

from tests.support.fake_server import SECRET, FakeServer
from tests.support.tiny_model import build_tiny_tokenizer


@pytest.fixture
def server(tiny_model, monkeypatch):
    def none(name):
        raise OSError(name)

    monkeypatch.setattr(
        "transformers.AutoTokenizer.from_pretrained", lambda name: build_tiny_tokenizer()
    )
    monkeypatch.setattr("transformers.GenerationConfig.from_pretrained", none)
    monkeypatch.setattr("dpicl_rag.weights.answers_for", lambda name: True)
    with FakeServer(tiny_model) as server:
        yield server


def ask(cli, mail, server, *words):
    asked = ("What is the code?", "--corpus", mail, "--model", server.address(deadline=5))
    return cli("ask", *asked, "--threshold", "0.5", "--max-tokens", "4", *words)


@pytest.mark.heavy
def test_an_answer_comes_from_a_server(cli, mail, server):
    result = ask(cli, mail, server, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["tokens"] > 0
    assert result.stderr == ""
    asked = ("What is the code?", "--corpus", mail, "--model", server.address())
    labels = ("--label", "4471", "--label", "none", "--threshold", "0.5")
    assert cli("classify", *asked, *labels).exit_code == 0


def test_a_server_that_voids_the_guarantee_is_told_on_stderr(cli, mail, server):
    server.moves = 1e-6
    result = ask(cli, mail, server)
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: what the server says of a prompt moves")
    assert result.stderr.count("\n") == 1


def test_no_server_is_one_line(cli, mail, server):
    server.kill()
    result = ask(cli, mail, server)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: no OpenAI-compatible server answers at http://127.")
    server.start()


def test_a_server_that_fails_in_an_answer_is_one_line(cli, mail, server):
    ask(cli, mail, server)  # rehearses the model, which takes requests too
    most = len(server.bodies) + 4
    server.fault = lambda number: "refused: a prompt is too long" if number > most else None
    result = ask(cli, mail, server)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: the language model's engine did not answer in time")
    assert SECRET not in result.output


def test_what_is_no_address_is_one_line(cli, mail):
    result = cli("ask", "What?", "--corpus", mail, "--model", "openai+nowhere")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: the address of a server looks like openai+http://")
