"""At every door the price that is told, before and after, is the one that is charged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import langchain_dpicl_rag as langchain
from dpicl_rag import Corpus, Document
from dpicl_rag.answering.private_run import PrivateRun
from dpicl_rag.errors import DPICLError
from dpicl_rag.ledger.fixed_point import affordable
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.retrieval import retriever_over
from dpicl_rag.server.api_keys import Caller
from dpicl_rag.vision import classify_image
from dpicl_research import vision_prototype
from tests.integrations.installation import (
    LABELS,
    QUESTION,
    Installation,
    an_installation,
)
from tests.support.images import ColourNetwork, an_image
from tests.support.served_in_process import called, chat

SUMMARY = "Summarise what people write about."
YES = "Is it about seven?"
NOTES = ("--corpus", "notes", "--json", "--quiet")
TALLY = {"question": "What?", "labels": LABELS}
TALLIED = ("tally", "What?", "--label", "seven", "--label", "noon")

Settings = dict[str, Any]
Told = Callable[[Installation, Settings], float]
"""Asks with some settings; what is told of the rho that it cost."""


class EnoughError(DPICLError):
    """The plan is seen."""


@pytest.fixture
def installed() -> Iterator[Installation]:
    with an_installation() as one:
        yield one


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What answers pay from; nothing is searched."""
    found: list[Any] = []

    def stop(plan: Any, open_account: Any, **_: Any) -> None:
        found.append((plan, open_account.func.__self__.booked))
        raise EnoughError("seen")

    monkeypatch.setattr("dpicl_rag.answering.private_run.gather", stop)
    return found


def parts(cost: dict[str, Any]) -> list[Any]:
    """What is told of a price, as the plan of an answer has it."""
    names = ("rho", "search_rho", "support_rho", "agreement_rho", "token_rho", "thresholds")
    *told, thresholds = (cost[name] for name in names)
    return [*told, list(thresholds)]


def charged(plan: Any) -> list[Any]:
    steps = [] if plan.ladder is None else [step.threshold for step in plan.ladder.steps]
    told = (plan.rho, plan.search_rho, plan.support_rho, plan.agreement_rho, plan.mechanism.rho)
    return [*told, steps]


AGREEMENTS = (None, "auto", "only", "off")
SEARCHES = ({}, {"top_k": 2}, {"threshold": 0.1})


@pytest.mark.one_in(5)
@pytest.mark.parametrize("booked", [True, False])
@pytest.mark.parametrize("search", SEARCHES, ids=str)
@pytest.mark.parametrize("agreement", AGREEMENTS)
def test_a_plan_on_the_command_line_is_what_its_answer_pays_from(
    agreement, search, booked, installed, plans
):
    words = ["ask", QUESTION, *NOTES, "--epsilon", "4"]
    words += [] if booked else ["--no-ledger"]
    words += [] if agreement is None else ["--agreement", agreement]
    words += [f"--{name.replace('_', '-')}={value}" for name, value in search.items()]
    told = installed.command(*words, "--plan")["stdout"]
    assert not plans
    installed.command(*words)
    [(plan, paid)] = plans
    assert paid == booked
    assert parts(told) == charged(plan)
    every = ("search_rho", "support_rho", "agreement_rho", "tokens_rho")
    assert sum(told[name] for name in every) == pytest.approx(plan.rho)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("booked", [True, False])
@pytest.mark.parametrize("search", SEARCHES, ids=str)
@pytest.mark.parametrize("agreement", AGREEMENTS)
def test_a_plan_in_python_is_what_answers_of_the_frameworks_pay_from(
    agreement, search, booked, installed, plans
):
    ledger = installed.ledger if booked else None
    llm = PrivateContextLLM(installed.model, ledger=ledger, agreement=agreement, epsilon=4.0)
    corpus = installed.corpus
    retriever = retriever_over(corpus, **search)
    told = parts(llm.plan(retriever).as_dict())
    for ask in (
        lambda: llm.answer(QUESTION, retriever),
        lambda: langchain.PrivateRetrievalChain(corpus, llm=llm, **search).invoke(QUESTION),
        lambda: llm.as_langchain().invoke(QUESTION, documents=retriever),
        lambda: llm.as_query_engine(corpus, **search).query(QUESTION),
    ):
        with pytest.raises(EnoughError):
            ask()
    assert [charged(plan) for plan, _ in plans] == [told] * 4


@pytest.mark.one_in(5)
@pytest.mark.parametrize("search", SEARCHES, ids=str)
@pytest.mark.parametrize("agreement", AGREEMENTS)
def test_a_server_tells_the_price_that_it_charges(agreement, search, installed, plans):
    table = {"epsilon": 4.0, **search, **({} if agreement is None else {"agreement": agreement})}
    made = installed.service(table)
    price, told = made.price("notes"), made.budget("notes", Caller(None))
    [by_tool] = called(made, "budget", {})
    with installed.client(table) as client:
        page = client.get("/v1/budget").json()["data"]
        assert not plans
        client.post("/v1/chat/completions", json={"model": "notes", **chat(QUESTION)})
    [(plan, _)] = plans
    assert price == plan.rho
    assert page == [told] == [by_tool.structuredContent]
    assert told["answers_left"] == affordable(20.0, plan.rho)


@pytest.mark.parametrize("thresholds", [0.0, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("epsilon", [8.0, 2.0])
def test_a_forecast_tells_the_price_that_answers_pay(thresholds, epsilon, installed, plans):
    installed.ledger.set_budget(corpus="notes", rho=20.0, thresholds=thresholds)
    words = ("--epsilon", str(epsilon), "--json")
    [row] = installed.command("budget", "forecast", *words)["stdout"]["forecasts"]
    [shown] = installed.command("budget", "show", *words)["stdout"]["budgets"]
    installed.command("ask", QUESTION, *NOTES, "--epsilon", str(epsilon))
    [(plan, _)] = plans
    assert row == shown
    assert row["answer_rho"] == plan.rho
    assert row["answers_left"] == affordable(20.0, plan.rho)


def of_python(ask: Callable[[PrivateContextLLM, Corpus], Any]) -> Told:
    """The rho of a result."""
    return lambda installed, settings: ask(installed.llm(**settings), installed.corpus).rho


def of_http(path: str, **body: Any) -> Told:
    def ask(installed: Installation, settings: Settings) -> float:
        with installed.client(settings) as client:
            response = client.post(path, json={"model": "notes", **body})
        found = response.json()
        assert response.status_code == 200, found
        return found.get("privacy", found)["rho"]

    return ask


def of_stream(path: str, **body: Any) -> Told:
    """The rho that stands in the last event but for that which says the end."""

    def ask(installed: Installation, settings: Settings) -> float:
        with installed.client(settings) as client:
            text = client.post(path, json={"model": "notes", **body}).text
        told = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
        last = json.loads(told[-1])
        return last.get("response", last)["privacy"]["rho"]

    return ask


def of_tool(name: str, **given: Any) -> Told:
    def ask(installed: Installation, settings: Settings) -> float:
        [result] = called(installed.service(settings), name, given)
        assert not result.isError, result
        return result.structuredContent["rho"]

    return ask


def of_command(*words: str) -> Told:
    def ask(installed: Installation, settings: Settings) -> float:
        options = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
        done = installed.command(*words, *NOTES, *options)
        assert done["exit"] == 0, done
        return done["stdout"]["rho"]

    return ask


ANSWERS: dict[str, Told] = {
    "Python": of_python(lambda llm, notes: llm.answer(QUESTION, notes)),
    "HTTP chat": of_http("/v1/chat/completions", **chat(QUESTION)),
    "HTTP chat stream": of_stream("/v1/chat/completions", **chat(QUESTION, stream=True)),
    "HTTP responses": of_http("/v1/responses", input=QUESTION),
    "HTTP responses stream": of_stream("/v1/responses", input=QUESTION, stream=True),
    "MCP": of_tool("ask", question=QUESTION),
    "command line": of_command("ask", QUESTION),
}
NUMBERS: dict[str, Told] = {
    "label, Python": of_python(lambda llm, notes: llm.classify("Which?", notes, LABELS)),
    "label, command line": of_command("classify", "Which?", *TALLIED[2:]),
    "count, Python": of_python(lambda llm, notes: llm.count(YES, notes)),
    "count, HTTP": of_http("/v1/surveys", kind="count", question=YES),
    "count, MCP": of_tool("count", question=YES),
    "count, command line": of_command("count", YES),
    "tally, Python": of_python(lambda llm, notes: llm.tally("What?", LABELS, notes)),
    "tally, HTTP": of_http("/v1/surveys", kind="tally", **TALLY),
    "tally, MCP": of_tool("tally", **TALLY),
    "tally, command line": of_command(*TALLIED),
}
ALL_ALIKE: dict[str, Told] = {
    "tally by vectors, Python": of_python(
        lambda llm, notes: llm.tally("What?", LABELS, notes, by="vectors")
    ),
    "tally by vectors, HTTP": of_http("/v1/surveys", kind="tally", by="vectors", **TALLY),
    "tally by vectors, MCP": of_tool("tally", by="vectors", **TALLY),
    "tally by vectors, command line": of_command(*TALLIED, "--by", "vectors"),
    "survey, Python": of_python(lambda llm, notes: llm.survey(None, notes)),
    "survey, HTTP": of_http("/v1/surveys", kind="survey"),
    "survey, MCP": of_tool("survey"),
    "survey, command line": of_command("survey"),
    "sampled survey, Python": of_python(lambda llm, notes: llm.survey(None, notes, sample=0.5)),
    "sampled survey, MCP": of_tool("survey", sample=0.5),
}
"""Every unit of them pays, whatever accounting the others have."""

SUMMARIES: dict[str, Told] = {
    "Python": of_python(lambda llm, notes: llm.ask(SUMMARY, notes)),
    "HTTP": of_http("/v1/surveys", kind="summary", question=SUMMARY),
    "HTTP chat": of_http("/v1/chat/completions", **chat(SUMMARY)),
    "HTTP chat stream": of_stream("/v1/chat/completions", **chat(SUMMARY, stream=True)),
    "MCP": of_tool("ask", question=SUMMARY),
    "command line": of_command("ask", SUMMARY),
}
"""Whatever accounting others have, every unit of them pays."""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("settings", [{}, {"accounting": "fixed"}, {"agreement": "off"}], ids=str)
@pytest.mark.parametrize("door", ANSWERS)
def test_an_answer_tells_what_the_ledger_was_charged(door, settings, installed):
    told = ANSWERS[door](installed, settings)
    assert told > 0
    assert installed.spent() == pytest.approx(told, rel=1e-6)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("settings", [{}, {"accounting": "fixed", "epsilon": 4.0}], ids=str)
@pytest.mark.parametrize("door", NUMBERS)
def test_a_number_tells_what_the_ledger_was_charged(door, settings, installed):
    told = NUMBERS[door](installed, settings)
    assert told > 0
    assert installed.spent() == pytest.approx(told, rel=1e-6)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("settings", [{}, {"epsilon": 4.0}], ids=str)
@pytest.mark.parametrize("door", ALL_ALIKE)
def test_a_number_that_all_pay_for_tells_what_the_ledger_was_charged(door, settings, installed):
    told = ALL_ALIKE[door](installed, settings)
    assert told > 0
    assert installed.spent() == pytest.approx(told, rel=1e-6)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("silent", [True, False])
@pytest.mark.parametrize("door", SUMMARIES)
def test_a_summary_tells_what_the_ledger_was_charged(door, silent, installed, monkeypatch):
    monkeypatch.setattr(PrivateRun, "silent", silent)  # units are asked by a model that can be
    told = SUMMARIES[door](installed, {})
    assert told > 0
    assert installed.spent() == pytest.approx(told, rel=1e-6)


def test_what_is_left_is_told_by_the_frameworks(installed):
    chain = langchain.PrivateRetrievalChain(installed.corpus, llm=installed.llm(), numbers=True)
    engine = installed.llm().as_query_engine(installed.corpus)
    model = installed.llm().as_langchain()
    for ask in (
        lambda: chain.invoke(QUESTION),
        lambda: engine.query(QUESTION).metadata,
        lambda: (
            model.generate([QUESTION], documents=installed.corpus).generations[0][0].generation_info
        ),
    ):
        before = installed.spent()
        told = ask()["budget_left"]
        [left] = [one.unit_remaining for one in installed.ledger.status()]
        assert told == left
        assert installed.spent() > before


@pytest.mark.parametrize("door", ["ask", "count", "tally", "survey"])
def test_a_caller_is_charged_what_the_corpus_is(door, installed):
    words = {"ask": ("ask", QUESTION), "count": ("count", YES), "tally": TALLIED}
    told = of_command(*words.get(door, (door,)), "--caller", "ann")(installed, {})
    assert installed.spent("ann", "caller") == pytest.approx(told, rel=1e-6)
    assert installed.spent() == pytest.approx(told, rel=1e-6)


PLANS: dict[str, tuple[str, ...]] = {
    "count": ("count", YES),
    "sampled count": ("count", YES, "--sample", "0.5"),
    "tally": TALLIED,
    "tally of two": (*TALLIED, "--most", "2"),
    "tally by vectors": (*TALLIED, "--by", "vectors"),
    "survey": ("survey",),
    "survey in words": ("ask", SUMMARY),
    "sampled survey": ("survey", "--sample", "0.5", "--votes", "2"),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("epsilon", [8.0, 2.0])
@pytest.mark.parametrize("name", PLANS)
def test_a_plan_of_a_number_is_what_it_costs(name, epsilon, installed):
    settings = {"epsilon": epsilon}
    if "survey" not in name and "vectors" not in name:
        settings["accounting"] = "fixed"  # else units that say no pay nothing
    told = of_command(*PLANS[name], "--plan")(installed, settings)
    assert installed.spent() == 0
    paid = of_command(*PLANS[name])(installed, settings)
    assert told == pytest.approx(paid, rel=1e-6)
    assert installed.spent() == pytest.approx(told, rel=1e-6)


def widest(found: dict[str, Any]) -> int:
    """How far the interval of a result reaches above its number, of the last of them."""
    one = found.get("yes") or [*found["counts"].values()][-1]
    return one["high"] - one["units"]


@pytest.mark.parametrize("settings", [{}, {"epsilon": 2.0}, {"accounting": "fixed"}], ids=str)
def test_a_server_tells_how_exact_its_counts_are_and_what_a_survey_costs(settings, installed):
    with installed.client(settings) as client:
        told = client.get("/v1/surveys?model=notes").json()
        sent = {"model": "notes", "kind": "count", "question": YES}
        # Noise alone is told beforehand; what the model misreads comes with its rehearsal.
        assert widest(client.post("/v1/surveys", json=sent).json()) > told["within"]
        before = installed.spent()
        found = client.post("/v1/surveys", json={"model": "notes", "kind": "survey"}).json()
    assert (found["rho"], found["smallest"]) == (pytest.approx(told["rho"]), told["smallest"])
    assert installed.spent() - before == pytest.approx(told["rho"], rel=1e-6)


@pytest.mark.parametrize("name", [name for name in PLANS if "survey" not in name])
def test_a_plan_tells_how_exact_a_count_is(name, installed):
    words = (*PLANS[name], *NOTES)
    told = installed.command(*words, "--plan")["stdout"]
    found = installed.command(*words)["stdout"]
    if found["read_right"]:  # what the model misreads, beside noise
        assert widest(found) > told["within"]
    elif told["sample"] == 1:
        assert widest(found) == told["within"]
    else:  # what the coins of a sample add beside noise
        assert widest(found) > told["within"] / told["sample"]


@pytest.fixture
def photos(installed: Installation) -> Iterator[Path]:
    root = installed.folder / "photos"
    for label, colour in {"rose": (250, 0, 0), "sky": (0, 0, 250)}.items():
        (root / label).mkdir(parents=True)
        for number in range(6):
            (root / label / f"{number}.png").write_bytes(an_image((*colour[:2], number)))
    (installed.folder / "query.png").write_bytes(an_image((255, 30, 30)))
    with mock.patch.object(vision_prototype, "EfficientNetLite", ColourNetwork):
        yield root


@pytest.mark.parametrize("method", ["poe", "votes", "votes-gaussian", "permute-and-flip"])
@pytest.mark.parametrize("groups", [None, 3])
def test_a_label_of_a_picture_tells_what_the_ledger_was_charged(method, groups, installed, photos):
    query = installed.folder / "query.png"
    words = ("classify-image", str(query), str(photos), "--label", "rose", "--label", "sky")
    words += ("--model", "vision-prototype", "--method", method, *NOTES)
    words += () if groups is None else ("--groups", str(groups))
    done = installed.command(*words)
    assert done["exit"] == 0, done
    told = done["stdout"]["rho"]
    assert installed.spent() == pytest.approx(told, rel=1e-6)
    found = classify_image(
        *(query, [Document(f"{one}", one, image=query.read_bytes()) for one in ("rose", "sky")]),
        ("rose", "sky"),
        model=vision_prototype.VisionPrototype(ColourNetwork()),
        method=method,
        groups=groups,
        ledger=installed.ledger,
        corpus="notes",
    )
    assert found.rho == told
    assert installed.spent() == pytest.approx(2 * told, rel=1e-6)
