"""`--reader`: a chat server reads, and what it costs and fails at is one line."""

import json

import pytest

from tests.support.fake_chat import FakeChat


@pytest.fixture
def chat():
    with FakeChat(lambda prompt: "yes" if "labels" in prompt else "The code is seven.") as running:
        yield running


def test_a_reader_alone_answers(cli, mail, chat, monkeypatch, secret):
    monkeypatch.setattr("dpicl_rag.language_models.defaults.default_model", None)
    given = ("--corpus", mail, "--reader", chat.address(), "--agreement", "only", "--json")
    result = cli("ask", "What is the code?", *given, "--threshold", "-1")
    assert result.exit_code == 0, result.stderr
    assert not json.loads(result.stdout)["supported"]  # three units are too few to agree
    assert sum(secret in prompt for prompt in chat.prompts) == 3  # a call for each unit
    assert "each document that is found is sent to the reader" in result.stderr
    assert secret not in result.output


@pytest.mark.parametrize(
    "command",
    [("count", "Is it a code?"), ("tally", "A code?", "--label", "yes", "--label", "no")],
)
def test_a_reader_counts(cli, mail, chat, monkeypatch, command):
    monkeypatch.setattr("dpicl_rag.answering.label_reading.label_step", None)  # no model reads
    result = cli(*command, "--corpus", mail, "--reader", chat.address(), "--json")
    found = json.loads(result.stdout)
    yes = found["yes"] if command[0] == "count" else found["counts"]["yes"]
    assert yes["low"] <= 3 <= yes["high"]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("chat+ftp://x", "chat+http"),
        ("llama", "chat+http"),
        ("chat+http://a:b@h/v1#m", "DPICL_RAG"),
    ],
)
def test_a_wrong_address_is_one_line(cli, mail, address, message):
    result = cli("ask", "q?", "--corpus", mail, "--reader", address)
    assert result.exit_code != 0
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_server_that_is_down_is_one_line_and_costs_nothing_more(cli, mail, spending):
    given = ("--corpus", mail, "--reader", "chat+http://127.0.0.1:9/v1?deadline=1#m")
    result = cli("count", "q?", *given)
    assert result.exit_code != 0
    assert result.stderr.strip().count("\n") <= 1
    assert "Traceback" not in result.stderr
    assert spending(mail).spent == 0
