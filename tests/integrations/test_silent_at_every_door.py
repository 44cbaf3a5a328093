"""A model that can say nothing is asked alike at every door, by defaults, and told is charged."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest

import langchain_dpicl_rag as langchain
from dpicl_rag import Bundle
from dpicl_rag.answering import private_run
from dpicl_rag.cli import data_folder
from dpicl_rag.rehearsal import Rehearsal
from dpicl_rag.results import UNSUPPORTED
from tests.integrations.installation import (
    BUDGET,
    QUESTION,
    SAID,
    UNKNOWN,
    Installation,
    an_installation,
    reply,
)
from tests.support.scripted_model import ScriptedModel
from tests.support.served_in_process import called, chat

KNOWS = Rehearsal(told=10, right=10, right_by_default=10, far=10, silent=10)
Told = tuple[str, float]
"""What is said, and the rho that it has cost by what is told beside it."""


def chain(installed: Installation, question: str) -> Told:
    found = langchain.PrivateRetrievalChain(installed.corpus, llm=installed.llm(), numbers=True)
    answer = found.invoke(question)
    return answer["answer"], BUDGET - answer["budget_left"]


def engine(installed: Installation, question: str) -> Told:
    found = installed.llm().as_query_engine(installed.corpus).query(question)
    return str(found), BUDGET - found.metadata["budget_left"]


def python(installed: Installation, question: str) -> Told:
    answer = installed.llm().ask(question, installed.corpus)
    return answer.text, answer.rho


def command_line(installed: Installation, question: str) -> Told:
    words = ("ask", question, "--corpus", "notes", "--json", "--quiet")
    found = installed.command(*words)["stdout"]
    return found.get("answer") or found["text"], found["rho"]


def over_http(installed: Installation, question: str) -> Told:
    with installed.client() as client:
        found = client.post("/v1/chat/completions", json={"model": "notes", **chat(question)})
    body = found.json()
    return body["choices"][0]["message"]["content"], body["privacy"]["rho"]


def streamed(installed: Installation, question: str) -> Told:
    asked = {"model": "notes", **chat(question, stream=True)}
    with installed.client() as client:
        events = reply(client.post("/v1/chat/completions", json=asked))["body"]
    parts = [one for one in events if isinstance(one, dict)]
    deltas = [one["choices"][0]["delta"] for one in parts if one["choices"]]
    [told] = [one["privacy"]["rho"] for one in parts if "privacy" in one]
    return "".join(one.get("content") or "" for one in deltas), told


def responses(installed: Installation, question: str) -> Told:
    with installed.client() as client:
        found = client.post("/v1/responses", json={"model": "notes", "input": question}).json()
    return found["output"][0]["content"][0]["text"], found["privacy"]["rho"]


def tool(installed: Installation, question: str) -> Told:
    [found] = called(installed.service(), "ask", {"question": question})
    return found.structuredContent["text"], found.structuredContent["rho"]


DOORS: dict[str, Callable[[Installation, str], Told]] = {
    "Python": python,
    "LangChain": chain,
    "LlamaIndex": engine,
    "command line": command_line,
    "HTTP": over_http,
    "HTTP stream": streamed,
    "HTTP responses": responses,
    "MCP": tool,
}


SILENT = {"note": "NOTHING"}


def asked(door: str, question: str, answers: dict[str, str]) -> tuple[str, float]:
    """What a door says, and what its ledger has charged, which is what it tells."""
    with an_installation(model=ScriptedModel(answers)) as installed:
        text, rho = DOORS[door](installed, question)
        charged = installed.spent()
    assert rho == pytest.approx(charged)
    return text, charged


@pytest.mark.parametrize(
    ("question", "answers", "told"), [(QUESTION, SAID, "7:00."), (UNKNOWN, SILENT, UNSUPPORTED)]
)
@pytest.mark.parametrize("door", DOORS)
def test_an_answer_is_the_same_at_every_door_and_costs_what_it_says(
    door: str, question: str, answers: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_run, "rehearsal_of", lambda model: KNOWS)
    found = asked(door, question, answers)
    assert found == asked("Python", question, answers)
    assert found[0] == told


ABOUT = {"note": "the garden"}


@pytest.mark.parametrize("door", DOORS)
def test_what_all_is_about_is_said_by_the_units_at_every_door(
    door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_run, "rehearsal_of", lambda model: KNOWS)
    found = asked(door, "What are the main themes?", ABOUT)
    assert found == asked("Python", "What are the main themes?", ABOUT)
    assert " about garden" in found[0]


@pytest.mark.parametrize("asked_with", [("--model", "any"), ("--question", QUESTION)])
def test_a_bundle_has_what_units_say_they_are_about(
    asked_with: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_run, "rehearsal_of", lambda model: KNOWS)
    with an_installation(model=ScriptedModel(ABOUT)) as installed:
        monkeypatch.setattr(data_folder, "spread_model", lambda *_: nullcontext(installed.model))
        folder = str(installed.folder / "bundle")
        told = installed.command(
            "publish", "notes", "--into", folder, "--epsilon", "8", "--json", "--quiet", *asked_with
        )["stdout"]
        first = Bundle.open(folder).items[0]
        assert first.kind == "survey"
        assert " about garden" in first.text
        assert 0 < installed.spent() <= told["rho"]
        again = installed.llm(knowledge=Bundle.open(folder)).ask(
            "What are the main topics?", installed.corpus
        )
        assert (again.text, again.rho) == (first.text, 0.0)


@pytest.mark.parametrize("door", ["command line", "HTTP", "HTTP stream", "HTTP responses", "MCP"])
def test_a_greeting_makes_no_other_question(door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the doors that remember by themselves."""
    monkeypatch.setattr(private_run, "rehearsal_of", lambda model: KNOWS)
    with an_installation(model=ScriptedModel(SAID)) as installed:
        first, _ = DOORS[door](installed, QUESTION)
        charged = installed.spent()
        assert charged > 0
        assert DOORS[door](installed, f"Hello! {QUESTION} Thank you.") == (first, 0.0)
        assert installed.spent() == charged
