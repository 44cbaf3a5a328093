"""`--reader`: a chat server reads, and what it costs and fails at is one line."""

import json
import sqlite3
from contextlib import closing

import pytest

from dpicl_rag import Corpus
from dpicl_rag.cli import data_folder
from tests.support.bucket_embedder import BucketEmbedder
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
    assert "each unit that is found is sent to the reader" in result.stderr
    assert "as many as are found; --max-calls limits them" in result.stderr
    assert secret not in result.output


@pytest.mark.parametrize(
    "command",
    [("count", "Is it a code?"), ("tally", "A code?", "--label", "yes", "--label", "no")],
)
def test_a_reader_counts(cli, mail, chat, monkeypatch, command):
    monkeypatch.setattr("dpicl_rag.answering.labels.label_step", None)  # no model reads
    result = cli(*command, "--corpus", mail, "--reader", chat.address(), "--json")
    found = json.loads(result.stdout)
    yes = found["yes"] if command[0] == "count" else found["counts"]["yes"]
    assert yes["low"] <= 3 <= yes["high"]


def test_a_reader_s_phrases_are_surveyed(cli, mail, chat):
    result = cli("survey", "--corpus", mail, "--reader", chat.address(), "--max-calls", "9")
    assert result.exit_code == 0, result.output
    assert sum("phrases" in prompt for prompt in chat.prompts) == 3
    assert ": about 9" in result.stderr


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


def test_calls_are_told_before_and_limited(cli, mail, chat):
    given = ("--corpus", mail, "--reader", chat.address(), "--agreement", "only")
    assert ": about 64" in cli("ask", "q?", *given).stderr
    assert ": about 9" in cli("ask", "q?", *given, "--max-calls", "9").stderr
    assert ": about 9" in cli("count", "q?", *given[:4], "--max-calls", "9").stderr
    plan = json.loads(cli("ask", "q?", *given, "--max-calls", "9", "--plan", "--json").stdout)
    assert plan["calls"] == 9
    # More than there are: coins of a limit would widen what noise alone leaves.
    given = (*given[:4], "--max-calls", "999", "--epsilon", "1", "--json")
    planned = json.loads(cli("count", "r?", *given, "--plan").stdout)
    counted = json.loads(cli("count", "r?", *given).stdout)
    assert planned["rho"] == pytest.approx(counted["rho"], rel=1e-6)
    # A noisy count may be below none.
    assert counted["yes"]["high"] <= counted["yes"]["units"] + planned["within"]
    result = cli("ask", "q?", "--corpus", mail, "--max-calls", "9")
    assert result.exit_code != 0
    assert "max_calls is for a reader" in result.stderr


def test_a_survey_by_a_reader_is_planned_as_it_is_paid(cli, mail, chat):
    given = ("--corpus", mail, "--reader", chat.address(), "--max-calls", "9", "--json")
    planned = json.loads(cli("survey", *given, "--plan").stdout)
    by_vectors = json.loads(cli("survey", "--corpus", mail, "--json", "--plan").stdout)
    surveyed = json.loads(cli("survey", *given).stdout)
    assert planned["rho"] == pytest.approx(surveyed["rho"], rel=1e-6)
    assert planned["smallest"] == surveyed["smallest"] > by_vectors["smallest"]


def test_the_same_question_in_a_new_process_reads_nothing_twice(cli, mail, chat, secret):
    given = ("--corpus", mail, "--reader", chat.address(), "--agreement", "only", "--no-memory")
    for epsilon in ("8", "4"):
        cli("ask", "What is the code?", *given, "--threshold", "-1", "--epsilon", epsilon)
    assert sum(secret in prompt for prompt in chat.prompts) == 3


def test_what_was_read_is_deleted_with_a_corpus(cli, mail, chat):
    given = ("--corpus", mail, "--reader", chat.address(), "--agreement", "only")
    cli("ask", "What is the code?", *given, "--threshold", "-1")
    folder = data_folder._replies_file(mail, None).parent
    assert any(folder.iterdir())
    result = cli("corpora", "delete", "mail", "--yes")
    assert result.exit_code == 0, result.output
    assert not any(folder.iterdir())


def test_what_was_read_of_a_unit_is_deleted_with_it_and_of_others_stays(cli, mail, chat, secret):
    given = ("--corpus", mail, "--reader", chat.address(), "--agreement", "only", "--no-memory")
    ask = ("ask", "What is the code?", *given, "--threshold", "-1")
    cli(*ask)
    with closing(Corpus.open(mail, embedder=BucketEmbedder())) as corpus:
        units = sorted(corpus.unit_names())
    result = cli("corpora", "forget", "mail", "--unit", units[0])
    assert result.exit_code == 0, result.output
    with closing(sqlite3.connect(data_folder._replies_file(mail, None))) as replies:
        kept = replies.execute("SELECT count(*) FROM reply WHERE key IN (SELECT key FROM read_for)")
        assert kept.fetchone() == (len(units) - 1,)
    asked = len(chat.prompts)
    cli(*ask)
    assert len(chat.prompts) == asked + 2  # the public prompt, of the process and of the question


def test_polish_shows_what_was_released(cli, tmp_path):
    source = tmp_path / "many.jsonl"
    source.write_text("".join(json.dumps({"text": f"entry {n}"}) + "\n" for n in range(40)))
    assert cli("ingest", str(source), "--corpus", "many").exit_code == 0

    def reply(prompt):
        return "It leaves from Oslo." if "Document:" in prompt else "From Oslo it leaves."

    with FakeChat(reply) as chat:
        given = ("--corpus", "many", "--reader", chat.address(), "--agreement", "only", "--polish")
        given += ("--threshold", "-1")
        result = cli("ask", "Where does it leave?", *given)
        assert "From Oslo it leaves." in result.stdout
        assert "released: It leaves from Oslo." in result.stdout
        found = json.loads(cli("ask", "Where does it leave?", *given, "--json").stdout)
        assert (found["answer"], found["released"]) == (
            "From Oslo it leaves.",
            "It leaves from Oslo.",
        )
