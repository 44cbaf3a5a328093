"""Answers in many threads at the same time: each is what it is alone, whatever engine reads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from dpicl_rag import PrivateContextLLM, PromptTemplate
from dpicl_rag.answering.sentence_votes import VoteReader
from dpicl_rag.answering.whole_answers import WholeAnswer
from dpicl_rag.language_models.openai_compatible.openai_model import OpenAICompatibleModel
from dpicl_rag.language_models.ray import RayModel
from langchain_dpicl_rag import ChatPrivateContext
from tests.support import fake_ray
from tests.support.at_once import at_once, hurried
from tests.support.fake_chat import FakeChat
from tests.support.fake_server import FakeServer
from tests.support.scripted_reader import document_of
from tests.support.tiny_model import build_tiny_tokenizer

QUESTIONS = [f"When do the {kind} leave?" for kind in ("ferries", "coaches", "trams", "shuttles")]
QUESTIONS += [question.replace("leave", "arrive") for question in QUESTIONS]
WORDS = ("relationally", "dependencies", "generalisations", "happiest", "operators", "hopefully")
DOCUMENTS = [
    f"{word.title()}, ferries and coaches leaving at 6:4{at}, trams arriving."
    for at, word in enumerate(WORDS)
]
SETTINGS: dict[str, Any] = {"max_tokens": 4, "agreement": "only", "sentences": 1, "epsilon": 8.0}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, Any]]:
    """What was counted of each question: what experts said, read and voted. Emptied when read."""
    found: dict[str, list[Any]] = {}
    lock = threading.Lock()

    def note(question: str, *what: Any) -> None:
        with lock:
            found.setdefault(question, []).append(what)

    votes, count = VoteReader.votes, WholeAnswer._count

    def noted_votes(self: Any, before: Any, said: Any) -> Any:
        cast = votes(self, before, said)
        note(self._question, "said", tuple(said), self._documents, self._about, cast)
        return cast

    def noted_count(self: Any, cast: Any) -> Any:
        note(self._show.args[0].text, "counted", list(cast))
        return count(self, cast)

    monkeypatch.setattr(VoteReader, "votes", noted_votes)
    monkeypatch.setattr(WholeAnswer, "_count", noted_count)

    def taken() -> dict[str, Any]:
        taken = dict(found)
        found.clear()
        return taken

    return taken


def transformers(stack: ExitStack, tiny_model: Any, monkeypatch: Any) -> dict[str, Any]:
    return {"model": tiny_model}


def server(stack: ExitStack, tiny_model: Any, monkeypatch: Any) -> dict[str, Any]:
    load = "transformers.AutoTokenizer.from_pretrained"
    monkeypatch.setattr(load, lambda name: build_tiny_tokenizer())
    monkeypatch.setattr("transformers.GenerationConfig.from_pretrained", {}.__getitem__)
    monkeypatch.setattr("dpicl_rag.weights.answers_for", lambda name: True)
    fake = stack.enter_context(FakeServer(tiny_model))
    return {"model": OpenAICompatibleModel(fake.address())}


def ray(stack: ExitStack, tiny_model: Any, monkeypatch: Any) -> dict[str, Any]:
    fake_ray.install(monkeypatch)
    return {"model": RayModel(lambda: tiny_model, 2)}


def reader(stack: ExitStack, tiny_model: Any, monkeypatch: Any) -> dict[str, Any]:
    def say(prompt: str) -> str:
        return document_of(prompt) if "Document:" in prompt else "OK"

    return {"reader": stack.enter_context(FakeChat(say)).address()}


@pytest.fixture(params=[transformers, server, ray, reader], ids=lambda engine: engine.__name__)
def llm(request: Any, tiny_model: Any, monkeypatch: Any) -> Iterator[PrivateContextLLM]:
    template = PromptTemplate(system="", examples=())
    with ExitStack() as stack:
        engine = request.param(stack, tiny_model, monkeypatch)
        yield PrivateContextLLM(template=template, **engine, **SETTINGS)


def in_threads(llm: PrivateContextLLM) -> None:
    at_once([partial(llm.answer, question, DOCUMENTS) for question in QUESTIONS])


def in_tasks(llm: PrivateContextLLM) -> None:
    async def gathered() -> None:
        await asyncio.gather(*(llm.aanswer(question, DOCUMENTS) for question in QUESTIONS))

    asyncio.run(gathered())


def in_a_batch(llm: PrivateContextLLM) -> None:
    ChatPrivateContext(llm).batch(QUESTIONS, documents=DOCUMENTS)


def in_an_async_batch(llm: PrivateContextLLM) -> None:
    asyncio.run(ChatPrivateContext(llm).abatch(QUESTIONS, documents=DOCUMENTS))


@pytest.mark.one_in(4)
@pytest.mark.heavy
@pytest.mark.guard
def test_what_is_counted_beside_seven_others_is_what_is_counted_alone(
    llm: PrivateContextLLM, counted: Callable[[], dict[str, Any]]
) -> None:
    for question in QUESTIONS:
        llm.answer(question, DOCUMENTS)
    alone = counted()
    assert alone.keys() == set(QUESTIONS)
    for run in (in_threads, in_tasks, in_a_batch, in_an_async_batch):
        with hurried():
            run(llm)
        assert counted() == alone, run.__name__
