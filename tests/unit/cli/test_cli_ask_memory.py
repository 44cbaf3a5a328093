"""`ask` and the answers that were released before."""

from __future__ import annotations

import json

import pytest

from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.cli import data_folder
from dpicl_rag.knowledge import AnswerMemory

SIZE, END = 8, 7
QUESTION = "Which token is it?"


def speech(text: str, history: tuple[int, ...]) -> list[float]:
    """Documents name a token, then the answer ends; the public row does not know."""
    sure = {"token 3: d": 3, "token 5": 5}.get(text)
    if sure is None:
        return [0.0] * SIZE
    return [0.0 if token == (END if history else sure) else -40.0 for token in range(SIZE)]


@pytest.fixture(autouse=True)
def model(home, monkeypatch):
    made = SyntheticModel(SIZE, speech, stop_tokens=frozenset({END}))
    monkeypatch.setattr("dpicl_rag.language_models.defaults.default_model", lambda: made)


@pytest.fixture
def ingest(cli, home):
    def make(corpus: str, text: str, *words: str) -> str:
        source = home / f"{corpus}.jsonl"
        lines = [{"text": text, "id": str(n)} for n in range(40)]
        source.write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert cli("ingest", str(source), "--corpus", corpus, *words).exit_code == 0
        return corpus

    return make


@pytest.fixture
def ask(cli, ingest):
    corpus = ingest("mail", "token 3: d")

    def run(*words: str, question: str = QUESTION):
        given = ("--corpus", corpus, "--threshold", "-1", "--agreement", "off", *words)
        result = cli("ask", question, *given)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout) if "--json" in words else result.stdout

    return run


def test_a_supported_answer_is_remembered_and_costs_nothing_again(ask, spending):
    assert "memory" not in ask()
    spent = spending("mail")
    again = ask(question="which token IS it")
    assert again == (
        "d\nfrom memory: answered before, so it costs nothing; --fresh asks the documents again\n"
    )
    assert spending("mail") == spent
    found = ask("--json")
    assert (found["answer"], found["epsilon"], found["rho"]) == ("d", 0.0, 0.0)
    assert (found["from_memory"], found["recalled"]) == (True, 0)


def test_fresh_asks_again_and_a_near_question_is_informed(ask):
    ask()
    assert ask("--fresh", "--json")["epsilon"] == 8.0
    near = ask(question="Which token is it now?")
    assert "informed by 1 public text, such as earlier answers, at no cost" in near
    assert ask("--json", question="Which token is it then?")["recalled"] == 2


@pytest.mark.parametrize("option", ["--no-memory", "--no-ledger"])
def test_without_a_memory_nothing_is_read_or_kept(ask, cli, option):
    ask(option)
    assert not data_folder.memory_path(None).exists()
    ask()
    assert not ask(option, "--json")["from_memory"]
    shown = json.loads(cli("memory", "show", "--json").stdout)["entries"]
    assert len(shown) == 1


def test_callers_do_not_share_a_memory(ask, cli):
    ask("--caller", "ann")
    assert not ask("--caller", "bob", "--json")["from_memory"]
    assert not ask("--json")["from_memory"]
    assert ask("--caller", "ann", "--json")["from_memory"]
    shown = json.loads(cli("memory", "show", "--json").stdout)["entries"]
    assert [entry["caller"] for entry in shown] == ["ann", "bob", None]


def test_shared_reads_the_answers_to_all_and_keeps_its_own_callers_name(ask, cli):
    ask("--caller", "ann")
    assert ask("--caller", "bob", "--shared", "--json")["from_memory"]
    assert ask("--shared", "--json")["from_memory"]
    near = ask("--caller", "bob", "--shared", "--json", question="Which token is it now?")
    assert (near["from_memory"], near["recalled"]) == (False, 1)
    shown = json.loads(cli("memory", "show", "--json").stdout)["entries"]
    assert [entry["caller"] for entry in shown] == ["ann", "bob"]
    # What bob kept is still hidden from ann, who does not share.
    assert ask("--caller", "ann", "--json", question="Which token is it now?")["recalled"] == 1


def test_a_corrected_entry_is_the_answer(ask, cli):
    ask()
    assert cli("memory", "edit", "1", "Token three.").exit_code == 0
    assert ask().startswith("Token three.\n")


def test_a_memory_that_cannot_be_opened_is_one_line_and_no_answer(cli, ask, spending):
    data_folder.memory_path(None).parent.mkdir(parents=True, exist_ok=True)
    data_folder.memory_path(None).write_text("text")
    for words in (("ask", QUESTION), ("classify", QUESTION, "--label", "a", "--label", "b")):
        result = cli(*words, "--corpus", "mail")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith("error: the memory ")
        assert result.stderr.count("\n") == 1
    assert ask("--no-memory", "--json")["answer"] == "d"


def test_an_answer_that_cannot_be_kept_is_shown_with_one_warning(cli, ask, monkeypatch):
    def fails(self, *_, **__):
        self.close()
        self.same("q")

    monkeypatch.setattr(AnswerMemory, "remember", fails)
    words = ("--threshold", "-1", "--agreement", "auto")
    result = cli("ask", QUESTION, "--corpus", "mail", *words)
    assert result.exit_code == 0
    assert result.stdout.startswith("d\n")
    assert result.stderr.startswith("warning: the answer was not remembered: the memory ")
    assert result.stderr.count("\n") == 1


def test_a_public_corpus_informs_and_a_private_one_is_refused(ask, ingest, cli):
    ingest("handbook", "token 5", "--public")
    words = ("--public", "handbook", "--no-memory", "--json")
    found = ask(*words, question="token 5")
    assert (found["answer"], found["recalled"]) == ("d", 4)
    ingest("letters", "token 5")
    refused = cli("ask", QUESTION, "--corpus", "mail", "--public", "letters")
    assert refused.exit_code == 1
    assert "public=True, or `dpicl-rag ingest --public`" in refused.stderr
    again = cli("ingest", "x.jsonl", "--corpus", "handbook")
    assert again.exit_code == 1
