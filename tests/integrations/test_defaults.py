"""Where nobody sets anything, every door asks with the settings of ``PrivacyConfig()``."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import typer
from fastapi.testclient import TestClient
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import QueryEngineTool
from typer.testing import CliRunner

import langchain_dpicl_rag as langchain
import llama_index_dpicl_rag as llama_index
from dpicl_rag import Corpus, Document, PrivateContextLLM
from dpicl_rag.answering.asks_units import AsksUnits
from dpicl_rag.cli import app, data_folder, option_groups
from dpicl_rag.cli import serve as serve_room
from dpicl_rag.cli import serve_tools as mcp_room
from dpicl_rag.configuration import PrivacyConfig, Settings
from dpicl_rag.errors import DPICLError
from dpicl_rag.retrieval import retriever_over
from dpicl_rag.server.admission import Admission
from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.app import create_app
from dpicl_rag.server.limits import Limits
from dpicl_rag.server.protocol.chat_request import ChatRequest
from dpicl_rag.server.protocol.fields import Extension
from dpicl_rag.server.protocol.response_request import ResponseRequest
from dpicl_rag.server.request_log import Exchange
from dpicl_rag.server.routers.survey_endpoints import SurveyRequest
from dpicl_rag.server.tool_arguments import Arguments
from dpicl_rag.server.tools import ToolCall, Tools
from langchain_dpicl_rag.private_model import LLMArguments
from tests.support.bucket_embedder import BucketEmbedder

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

    def stop(self: AsksUnits, *_: Any, **__: Any) -> None:
        found.append(self.config)
        raise EnoughError("seen")

    for verb in ("stream", "classify", "count", "tally", "survey"):
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
        CliRunner().invoke(app, [*words, "--corpus", corpus.name, "--quiet"])

    return run


@contextmanager
def catalogue(room: Any, *words: str) -> Iterator[Any]:
    """What a command serves, stopped before it listens."""
    made: list[Any] = []
    real = room.open_catalogue
    with pytest.MonkeyPatch.context() as patch:

        def keep(*given: Any, **named: Any) -> Any:
            made.append(real(*given, **named))
            raise KeyboardInterrupt

        patch.setattr(room, "open_catalogue", keep)
        done = CliRunner().invoke(app, list(words))
    assert made, done.output
    with ExitStack() as stack:
        stack.callback(made[0].close)
        yield made[0]


def over_http(path: str, **body: Any) -> Callable[..., None]:
    """A request that gives nothing but a question, to whatever is served."""

    def run(served: Any) -> None:
        made = create_app(served)
        headers = {"Authorization": f"Bearer {made.state.services.run_key.text}"}
        with TestClient(made, headers=headers, raise_server_exceptions=False) as client:
            client.post(path, json={"model": "notes", **body})

    return run


def called(name: str, **arguments: Any) -> Callable[..., None]:
    """A call of an agent's tool that gives nothing but a question."""

    async def tell(part: float) -> None:
        """Nobody listens."""

    async def call(served: Any) -> None:
        admission = Admission(Limits())
        visit = ToolCall(Caller(None), Exchange(), tell)
        await Tools(served, admission).called(visit, name, {"corpus": "notes", **arguments})
        await admission.end(lambda: None)

    return lambda served: asyncio.run(call(served))


CHAT = over_http("/v1/chat/completions", messages=[{"role": "user", "content": QUESTION}])
STREAM = over_http(
    "/v1/chat/completions", messages=[{"role": "user", "content": QUESTION}], stream=True
)
RESPONSES = over_http("/v1/responses", input=QUESTION)
COUNTS = over_http("/v1/surveys", kind="count", question=QUESTION)


def served(ask: Callable[..., None], how: str = "--corpus", room: Any = serve_room) -> Any:
    """A server's door, by each way to say what is served."""
    name = "serve" if room is serve_room else "mcp"

    def run(model: Any, corpus: Corpus) -> None:
        file = Path(data_folder.default_ledger()).with_name("served.toml")
        words = [name, "--corpus", "notes"]
        if how == "--config":
            file.write_text("[notes]\n")
            words = [name, "--config", str(file)]
        elif how == "settings file":
            file.write_text("[corpora.notes]\n")
            words = ["--config", str(file), name]
        with catalogue(room, *words) as made:
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
            "tools": called("ask", question=QUESTION),
        }.items()
    },
    **{
        f"mcp, {how}: {name}": (served(called(name, question=QUESTION), how, mcp_room), SENTENCE)
        for how in ("--corpus", "--config")
        for name in ("ask", "count")
    },
}


@pytest.mark.parametrize("name", DOORS)
def test_a_door_that_is_given_nothing_asks_with_the_defaults(name, tiny_model, corpus, seen):
    ask, expected = DOORS[name]
    with suppress(EnoughError):
        ask(tiny_model, corpus)
    assert [config.model_dump() for config in seen] == [expected]


@pytest.mark.parametrize("name", OWNERS)
def test_an_option_has_the_default_of_its_setting_or_none(name):
    command = typer.main.get_command(app).commands[name]
    given = {one.name: one.default for one in command.params if one.name in MARKED}
    if name == "audit":
        del given["units"]  # of its sample
    assert {"epsilon", "delta"} <= set(given)
    assert {**MARKED, **{one: value for one, value in given.items() if value is not None}} == MARKED


@pytest.mark.parametrize("name", ["serve", "mcp"])
def test_who_serves_does_not_choose_for_people_who_read_the_text_alone(name):
    command = typer.main.get_command(app).commands[name]
    [unsupported] = [one for one in command.params if one.name == "unsupported"]
    assert unsupported.default is None


def test_a_group_of_options_says_nothing_of_what_nobody_set():
    made = option_groups.AnswerSettings().made()
    assert {**MARKED, **made} == MARKED
    assert not {"unsupported", "agreement", "utility", "accounting"} & set(made)


@pytest.mark.parametrize(
    "body",
    [ChatRequest, ResponseRequest, Extension, SurveyRequest, *Arguments.__subclasses__()],
    ids=lambda body: body.__name__,
)
def test_a_request_names_a_setting_only_where_it_leaves_it_alone(body):
    named = {name: field.default for name, field in body.model_fields.items() if name in MARKED}
    assert set(named.values()) <= {None}


def test_the_keywords_of_langchain_are_those_of_the_core():
    assert set(Settings.__annotations__) == set(MARKED)
    taken = inspect.signature(PrivateContextLLM).parameters.keys() - {"settings", "form"}
    assert set(LLMArguments.__annotations__) | set(MARKED) == taken | set(MARKED)
