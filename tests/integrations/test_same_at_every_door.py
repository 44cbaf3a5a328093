"""Every door has the defaults of ``PrivacyConfig()``, refuses in one way, greets for free."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, get_args

import pytest
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import QueryEngineTool

import langchain_dpicl_rag as langchain
import llama_index_dpicl_rag as llama_index
from dpicl_rag import Corpus, Document, Ledger, PrivateContextLLM
from dpicl_rag.accounting import DIRECT
from dpicl_rag.answering import follow_ups
from dpicl_rag.cli import data_folder, option_groups
from dpicl_rag.cli import serve as serve_room
from dpicl_rag.cli.options import FieldOptions
from dpicl_rag.configuration import PrivacyConfig, Settings
from dpicl_rag.errors import BudgetExceededError, DeltaSpentError, DPICLError
from dpicl_rag.framework_bridge import LLMArguments
from dpicl_rag.prompts import PromptTemplate
from dpicl_rag.requests import FIELDS, Request
from dpicl_rag.results import UNSUPPORTED
from dpicl_rag.retrieval import ExactRetriever, Search, retriever_over
from dpicl_rag.server.protocol.chat_reply import ChatRequest
from dpicl_rag.server.protocol.request_bodies import Extension
from dpicl_rag.server.protocol.response_reply import ResponseRequest
from dpicl_rag.server.routers.question_endpoints import SurveyRequest
from dpicl_rag.server.service import ServedCorpus, Service
from dpicl_rag.server.tool_schemas import (
    ARGUMENTS,
    Arguments,
)
from tests.integrations.installation import an_installation
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.command_line import program, run_command
from tests.support.scripted_model import ScriptedModel
from tests.support.served_in_process import called, chat, posted

QUESTION = "When does the depot open?"
MARKED = PrivacyConfig().model_dump()
"""Where ``supported`` stands beside the answer."""
SENTENCE = {**MARKED, "unsupported": "refuse"}
"""Where people and agents read the text alone."""
LABELS = ("--label", "yes", "--label", "no")
OWNERS = ("ask", "classify", "count", "tally", "survey", "audit", "serve", "mcp")
"""Commands that ask documents."""


class EnoughError(DPICLError):
    """The settings are seen."""


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[PrivacyConfig]:
    """Settings of everything that is asked; nothing is answered."""
    found: list[PrivacyConfig] = []

    def stop(self: PrivateContextLLM, *_: Any, **__: Any) -> None:
        found.append(self.config)
        raise EnoughError("seen")

    for verb in ("stream", "begin", "run", "classify", "count", "tally", "survey"):
        monkeypatch.setattr(PrivateContextLLM, verb, stop)
    return found


@pytest.fixture
def corpus(tmp_path: Path, tiny_model, monkeypatch: pytest.MonkeyPatch) -> Iterator[Corpus]:
    """One that every door may ask, of a user without settings of any kind."""
    for name in ("DATA", "CONFIG", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path))
    monkeypatch.setattr(data_folder, "load_embedder", lambda name, device=None: BucketEmbedder())
    monkeypatch.setattr("dpicl_rag.language_models.defaults.default_model", lambda: tiny_model)
    with Corpus.create("notes", embedder=BucketEmbedder()) as made:
        made.add([Document(f"The depot opens at seven, note {n}.", f"unit {n}") for n in range(3)])
        yield made


def command(*words: str) -> Callable[..., None]:
    def run(model: Any, corpus: Corpus) -> None:
        run_command(*words, "--corpus", corpus.name, "--quiet")

    return run


@contextmanager
def service(*words: str) -> Iterator[Any]:
    """What a command serves, stopped before it listens."""
    made: list[Any] = []
    real = serve_room.open_service
    with pytest.MonkeyPatch.context() as patch:

        def keep(*given: Any, **named: Any) -> Any:
            made.append(real(*given, **named))
            raise KeyboardInterrupt

        patch.setattr(serve_room, "open_service", keep)
        done = run_command(*words)
    assert made, done.output
    with closing(made[0]):
        yield made[0]


def over_http(path: str, body: dict[str, Any]) -> Callable[..., Any]:
    """A request that gives nothing but a question, to whatever is served."""
    return lambda served: posted(served, path, body)


def by_tool(name: str) -> Callable[..., Any]:
    """A call of an agent's tool that gives nothing but a question."""
    return lambda served: called(served, name, {"question": QUESTION})


CHAT = over_http("/v1/chat/completions", chat(QUESTION))
STREAM = over_http("/v1/chat/completions", chat(QUESTION, stream=True))
RESPONSES = over_http("/v1/responses", {"input": QUESTION})
COUNTS = over_http("/v1/surveys", {"kind": "count", "question": QUESTION})


def served(ask: Callable[..., None], how: str = "--corpus", name: str = "serve") -> Any:
    """A server's door, by each way to say what is served."""

    def run(model: Any, corpus: Corpus) -> None:
        file = Path(data_folder.default_ledger()).with_name("served.toml")
        words = [name, "--corpus", "notes"]
        if how == "--config":
            file.write_text("[notes]\n")
            words = [name, "--config", str(file)]
        elif how == "settings file":
            file.write_text("[corpora.notes]\n")
            words = ["--config", str(file), name]
        with service(*words) as made:
            ask(made)

    return run


def chain(model: Any, corpus: Corpus, **more: Any) -> Any:
    return langchain.PrivateRetrievalChain(corpus, model=model, **more)


def combined(model: Any, corpus: Corpus) -> Any:
    given = {"input": QUESTION, "context": retriever_over(corpus)}
    return langchain.PrivateCombineDocuments(model=model).invoke(given)


def engine(model: Any, corpus: Corpus, **more: Any) -> Any:
    return PrivateContextLLM(model).as_query_engine(corpus, **more)


DOORS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Python": (lambda model, corpus: PrivateContextLLM(model).answer(QUESTION, corpus), MARKED),
    "LangChain model": (
        lambda model, corpus: langchain.PrivateLLM(model=model).invoke(QUESTION, documents=["a"]),
        SENTENCE,
    ),
    "LangChain chat": (
        lambda model, corpus: langchain.ChatPrivateContext(model=model).invoke(
            QUESTION, documents=["a"]
        ),
        SENTENCE,
    ),
    "LangChain chain": (lambda *given: chain(*given).invoke(QUESTION), SENTENCE),
    "LangChain chain with numbers": (
        lambda *given: chain(*given, numbers=True).invoke(QUESTION),
        MARKED,
    ),
    "LangChain tool": (
        lambda *given: chain(*given).as_tool().invoke({"question": QUESTION}),
        SENTENCE,
    ),
    "LangChain combined documents": (combined, SENTENCE),
    "LlamaIndex model": (
        lambda model, corpus: llama_index.PrivateLLM(PrivateContextLLM(model)).complete(
            QUESTION, documents=["a"]
        ),
        SENTENCE,
    ),
    "LlamaIndex messages": (
        lambda model, corpus: llama_index.PrivateLLM(PrivateContextLLM(model)).chat(
            [ChatMessage(QUESTION)], documents=["a"]
        ),
        SENTENCE,
    ),
    "LlamaIndex engine": (lambda *given: engine(*given).query(QUESTION), SENTENCE),
    "LlamaIndex stream": (
        lambda *given: list(engine(*given, streaming=True).query(QUESTION).response_gen),
        SENTENCE,
    ),
    "LlamaIndex tool": (
        lambda *given: QueryEngineTool.from_defaults(engine(*given)).call(QUESTION),
        SENTENCE,
    ),
    "LlamaIndex chat engine": (
        lambda model, corpus: PrivateContextLLM(model).as_chat_engine(corpus).chat(QUESTION),
        SENTENCE,
    ),
    "LlamaIndex synthesizer": (
        lambda model, corpus: llama_index.PrivateSynthesizer(
            PrivateContextLLM(model), unit_field="document"
        ).get_response(QUESTION, ["a"]),
        SENTENCE,
    ),
    "ask": (command("ask", QUESTION), MARKED),
    "classify": (command("classify", QUESTION, *LABELS), MARKED),
    "count": (command("count", QUESTION), MARKED),
    "tally": (command("tally", QUESTION, *LABELS), MARKED),
    **{
        f"serve, {how}: {name}": (served(ask, how), SENTENCE)
        for how in ("--corpus", "--config", "settings file")
        for name, ask in {
            "chat": CHAT,
            "chat stream": STREAM,
            "responses": RESPONSES,
            "counts": COUNTS,
            "tools": by_tool("ask"),
        }.items()
    },
    **{
        f"mcp, {how}: {name}": (served(by_tool(name), how, "mcp"), SENTENCE)
        for how in ("--corpus", "--config")
        for name in ("ask", "count")
    },
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", DOORS)
def test_a_door_that_is_given_nothing_asks_with_the_defaults(name, tiny_model, corpus, seen):
    ask, expected = DOORS[name]
    with suppress(EnoughError):
        ask(tiny_model, corpus)
    assert [config.model_dump() for config in seen] == [expected]


@pytest.mark.parametrize("name", OWNERS)
def test_an_option_has_the_default_of_its_setting_or_none(name):
    command = program().commands[name]
    given = {one.name: one.default for one in command.params if one.name in MARKED}
    if name == "audit":
        del given["units"]  # of its sample
    assert {"epsilon", "delta"} <= set(given)
    assert {**MARKED, **{one: value for one, value in given.items() if value is not None}} == MARKED


@pytest.mark.parametrize("name", ["serve", "mcp"])
def test_who_serves_does_not_choose_for_people_who_read_the_text_alone(name):
    command = program().commands[name]
    [unsupported] = [one for one in command.params if one.name == "unsupported"]
    assert unsupported.default is None


def test_a_group_of_options_says_nothing_of_what_nobody_set():
    [group] = [
        one for one in get_args(option_groups.AnswerOptions) if isinstance(one, FieldOptions)
    ]
    assert group.given({one.name: one.default for one in group.parameters()}) == {}


@pytest.mark.parametrize(
    "body",
    [ChatRequest, ResponseRequest, Extension, SurveyRequest, *Arguments.__subclasses__()],
    ids=lambda body: body.__name__,
)
def test_a_request_names_a_setting_only_where_it_leaves_it_alone(body):
    named = {name: field.default for name, field in body.model_fields.items() if name in MARKED}
    assert set(named.values()) <= {None}


def numbers_of(verb: str) -> dict[str, Any]:
    """Defaults of what a count, a tally or a survey may be told beside its settings, in Python."""
    given = inspect.signature(getattr(PrivateContextLLM, verb)).parameters.values()
    return {one.name: one.default for one in given if one.default is not one.empty}


COUNTED: dict[str, Callable[[str], dict[str, Any]]] = {
    "command line": lambda verb: {
        one.name: by_itself(one.name) if one.default is None else one.default
        for one in program().commands[verb].params
    },
    "HTTP": lambda verb: defaults_of(SurveyRequest),
    "MCP": lambda verb: defaults_of(TOOLS[verb]),
    "request": lambda verb: {name: by_itself(name) for name in FIELDS[verb] if name != "labels"},
}
TOOLS = {kind: ARGUMENTS[kind] for kind in ("count", "tally", "survey")}


def by_itself(name: str) -> Any:
    """The default of a field of a request, which stands where an option is not given."""
    return Request.model_fields[name].default if name in Request.model_fields else None


def defaults_of(body: Any) -> dict[str, Any]:
    return {name: one.default for name, one in body.model_fields.items() if not one.is_required()}


@pytest.mark.parametrize("verb", TOOLS)
@pytest.mark.parametrize("door", COUNTED)
def test_a_count_that_is_told_nothing_is_the_same_at_every_door(door, verb):
    python, found = numbers_of(verb), COUNTED[door](verb)
    same = {name: one for name, one in found.items() if name in python and one is not None}
    assert {"sample", "fresh"} <= set(same)
    assert {**python, **same} == python


def test_the_keywords_of_langchain_are_those_of_the_core():
    assert set(Settings.__annotations__) == set(MARKED)
    taken = inspect.signature(PrivateContextLLM).parameters.keys() - {"settings", "form"}
    assert set(LLMArguments.__annotations__) | set(MARKED) == taken | set(MARKED)


GREETINGS = ("Hi!", "Hello, how are you?", "Danke!", "Merci beaucoup", "Adi\u00f3s")
"""Five of them; one question is more than the budget."""


def greeted_over_http(llm: PrivateContextLLM, ledger: Ledger) -> list[str]:
    served = {"notes": ServedCorpus(UNREAD)}
    service = Service(llm.model, served, ledger, embedder=BucketEmbedder())
    bodies = [chat(one) for one in GREETINGS]
    found = [one.json() for one in posted(service, "/v1/chat/completions", *bodies)]
    assert {(one["privacy"]["by"], one["privacy"]["epsilon"]) for one in found} == {("public", 0.0)}
    return [one["choices"][0]["message"]["content"] for one in found]


def greeted_by_tools(llm: PrivateContextLLM, ledger: Ledger) -> list[str]:
    served = {"notes": ServedCorpus(UNREAD)}
    service = Service(llm.model, served, ledger, embedder=BucketEmbedder())
    results = called(service, "ask", *({"question": one} for one in GREETINGS))
    assert {one.structuredContent["by"] for one in results} == {"public"}
    return [one.structuredContent["text"] for one in results]


def greeted_on_the_command_line(llm: PrivateContextLLM, ledger: Ledger) -> list[str]:
    said = []
    for one in GREETINGS:
        done = run_command("ask", one, "--corpus", "notes")
        text, spent = done.stdout.splitlines()
        said.append(text)
        assert spent.startswith("spent: epsilon 0, delta 0, rho 0;")
        assert "no document is asked" in done.stderr
    return said


def greeted_in_llama_index(llm: PrivateContextLLM, ledger: Ledger) -> list[str]:
    responses = [llm.as_query_engine(UNREAD).query(one) for one in GREETINGS]
    assert {one.metadata["by"] for one in responses} == {"public"}
    return [str(one) for one in responses]


GREETED = {
    "Python": lambda llm, _: [llm.answer(one, UNREAD).text for one in GREETINGS],
    "LangChain chain": lambda llm, _: [
        langchain.PrivateRetrievalChain(UNREAD, llm=llm).invoke(one) for one in GREETINGS
    ],
    "LangChain chat stream": lambda llm, _: [
        "".join(
            part.content for part in langchain.ChatPrivateContext(llm).stream(one, documents=UNREAD)
        )
        for one in GREETINGS
    ],
    "LangChain tool": lambda llm, _: [
        langchain.PrivateRetrievalChain(UNREAD, llm=llm).as_tool().invoke({"question": one})
        for one in GREETINGS
    ],
    "LlamaIndex engine": greeted_in_llama_index,
    "LlamaIndex chat": lambda llm, _: list(
        map(str, map(llm.as_chat_engine(UNREAD).chat, GREETINGS))
    ),
    "HTTP": greeted_over_http,
    "MCP": greeted_by_tools,
    "ask": greeted_on_the_command_line,
}


class Unread(ExactRetriever):
    """A search that nobody may begin."""

    stability = DIRECT
    corpus_name = "notes"

    def retrieve(self, question: str) -> list[Document]:
        pytest.fail("searched")


UNREAD = Unread()


@pytest.mark.parametrize("name", GREETED)
def test_five_greetings_leave_a_budget_as_it_is(name, corpus, monkeypatch):
    model = ScriptedModel({"depot": "At seven.", "": "Hello to you!"})
    monkeypatch.setattr("dpicl_rag.language_models.defaults.default_model", lambda: model)
    monkeypatch.setattr(data_folder, "search_of", lambda *_: Search(UNREAD))
    file = data_folder.default_ledger()
    file.parent.mkdir(parents=True, exist_ok=True)
    with Ledger(file) as ledger:
        ledger.set_budget(corpus="notes", rho=1e-6, strict=True)
        before = ledger.status()
        llm = PrivateContextLLM(model, ledger=ledger)
        assert GREETED[name](llm, ledger) == ["Hello to you!"] * len(GREETINGS)
    with Ledger(file) as ledger:
        assert ledger.status() == before


CONTROLLED = "Be\x01 brief.\x00"
TURNS = (("user", "Who?\x02"), ("assistant", "Ann.\x1b"))
LAST = "When does the depot open?\x01\ud800"


def conversed_over_http(path: str, name: str) -> Callable[..., Any]:
    def run(llm: PrivateContextLLM, ledger: Ledger) -> None:
        service = Service(llm.model, {"notes": ServedCorpus(UNREAD)}, ledger)
        said = [("system", CONTROLLED), *TURNS, ("user", LAST)]
        posted(service, path, {name: [{"role": who, "content": text} for who, text in said]})

    return run


CONVERSED: dict[str, Callable[..., Any]] = {
    "Python": lambda llm, _: llm.with_settings(template=PromptTemplate(system=CONTROLLED)).answer(
        LAST, UNREAD, turns=TURNS
    ),
    "LangChain chat": lambda llm, _: langchain.ChatPrivateContext(llm).invoke(
        [("system", CONTROLLED), *TURNS, ("user", LAST)], documents=UNREAD
    ),
    "LlamaIndex chat": lambda llm, _: llama_index.PrivateLLM(llm).chat(
        [ChatMessage(text, role=who) for who, text in (("system", CONTROLLED), *TURNS)]
        + [ChatMessage(LAST)],
        documents=UNREAD,
    ),
    "HTTP chat": conversed_over_http("/v1/chat/completions", "messages"),
    "HTTP responses": conversed_over_http("/v1/responses", "input"),
}


@pytest.mark.parametrize("name", CONVERSED)
def test_control_characters_are_left_out_at_every_door(name, corpus, tmp_path, monkeypatch):
    cut: list[tuple[str, str]] = []

    def stop(self: PromptTemplate, tokenizer: Any, question: str) -> None:
        cut.append((self.system, question))
        raise EnoughError("seen")

    said: list[list[str]] = []

    def written(model: Any, lines: list[str], question: str) -> str:
        said.append(lines)
        return ""

    monkeypatch.setattr(PromptTemplate, "cut", stop)
    monkeypatch.setattr(follow_ups, "_written", written)
    with Ledger(tmp_path / "ledger.sqlite") as ledger, suppress(EnoughError):
        llm = PrivateContextLLM(ScriptedModel({"": "Hello."}), agreement="off")
        CONVERSED[name](llm, ledger)
    assert cut == [("Be brief.", "When does the depot open?")]
    assert said == [["User: Who?"], ["User: Who?", "Assistant: Ann."]]


def every_error(kind: type[DPICLError] = DPICLError) -> Iterator[DPICLError]:
    """One of each of this library's own."""
    for one in kind.__subclasses__():
        yield from every_error(one)
    if kind is not EnoughError:
        yield kind.__new__(kind, f"{kind.__name__}: it is not there; look elsewhere")


def langchain_tools(llm: PrivateContextLLM) -> Iterator[tuple[Any, Any]]:
    asking = langchain.PrivateRetrievalChain(UNREAD, llm=llm).as_tool()
    for tool in (asking, *langchain.counting_tools(llm, UNREAD)):
        given = {"question": QUESTION}
        if "labels" in tool.args:
            given["labels"] = ["yes", "no"]
        yield tool.invoke(given), asyncio.run(tool.ainvoke(given))


def llama_index_tools(llm: PrivateContextLLM) -> Iterator[tuple[Any, Any]]:
    asking = llm.as_query_engine(UNREAD).as_tool()
    assert {asking.call(QUESTION).is_error, asyncio.run(asking.acall(QUESTION)).is_error} == {True}
    yield asking.call(QUESTION).content, asyncio.run(asking.acall(input=QUESTION)).content
    for tool in llama_index.counting_tools(llm, UNREAD):
        given = {"question": QUESTION}
        if "tally" in tool.metadata.name:
            given["labels"] = ["yes", "no"]
        yield tool.call(**given).content, asyncio.run(tool.acall(**given)).content


@pytest.mark.parametrize("tools", [langchain_tools, llama_index_tools])
@pytest.mark.parametrize("error", [*every_error()], ids=lambda error: type(error).__name__)
def test_an_error_of_ours_is_a_sentence_for_agents(error, tools, monkeypatch):
    def fail(self: PrivateContextLLM, *_: Any, **__: Any) -> None:
        raise error

    for verb in ("stream", "begin", "run", "count", "tally", "survey"):
        monkeypatch.setattr(PrivateContextLLM, verb, fail)
    llm = PrivateContextLLM(ScriptedModel({"": "Hello."}))
    assert set(tools(llm)) == {(str(error), str(error))}


@pytest.mark.parametrize("error", [DeltaSpentError(), next(every_error(BudgetExceededError))])
def test_a_budget_that_is_spent_is_a_sentence_of_a_server_too(error, tmp_path, monkeypatch):
    def fail(self: PrivateContextLLM, *_: Any, **__: Any) -> None:
        raise error

    for verb in ("stream", "begin"):
        monkeypatch.setattr(PrivateContextLLM, verb, fail)
    for at, ask in enumerate((CHAT, RESPONSES, by_tool("ask"))):
        ledger = Ledger(tmp_path / f"{at}.sqlite")
        model = ScriptedModel({"": "Hello."})
        [found] = ask(Service(model, {"notes": ServedCorpus(UNREAD)}, ledger))
        if at == 2:
            assert (found.isError, found.content[0].text) == (True, str(error))
        else:
            assert (found.status_code, found.json()["error"]["message"]) == (429, str(error))


README = " ".join((Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").split())


@pytest.mark.parametrize("booked", [True, False])
@pytest.mark.parametrize("place", range(4))
def test_the_readme_says_how_many_units_an_answer_needs(
    place, booked, corpus, tiny_model, tmp_path
):
    said = re.search(
        r"about (\d+) at epsilon 8, (\d+) at 4, (\d+) at 2, (\d+) at 1 with a budget, "
        r"and (\d+), (\d+), (\d+), (\d+) without",
        README,
    )
    needed = int(said[1 + place + (0 if booked else 4)])
    epsilon = (8.0, 4.0, 2.0, 1.0)[place]
    words = ["ask", QUESTION, "--corpus", "notes", "--plan", "--json", "--epsilon", str(epsilon)]
    told = json.loads(run_command(*words, *([] if booked else ["--no-ledger"])).stdout)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        llm = PrivateContextLLM(tiny_model, ledger=ledger if booked else None, epsilon=epsilon)
        assert told["units_to_agree"] == llm.plan(corpus).units_to_agree == needed


@pytest.mark.parametrize(
    "sentence",
    [
        # What is read at the doors stands in: test_support, test_five_greetings, the prices above.
        f'"{UNSUPPORTED}" takes its place',
        "Greetings and thanks are free: no document is asked.",
        "`ask --plan` says what one may cost",
    ],
)
def test_the_readme_promises_what_doors_are_tested_for(sentence):
    assert sentence in README


def test_a_question_about_whole_documents_is_answered_in_its_language_at_every_door():
    french = "De quoi parlent les documents ?"
    with an_installation() as installed:
        llm, notes = installed.llm(), installed.corpus
        options = ("--corpus", "notes", "--json", "--quiet")
        with installed.client() as client:
            reply = client.post("/v1/chat/completions", json={"model": "notes", **chat(french)})
        told = [
            llm.ask(french, notes).text,
            langchain.PrivateRetrievalChain(notes, llm=llm).invoke(french),
            str(llm.as_query_engine(notes).query(french)),
            installed.command("ask", french, *options)["stdout"]["text"],
            reply.json()["choices"][0]["message"]["content"],
        ]
    assert reply.json()["question"] == french
    assert all(text.startswith("Environ ") for text in told), told
