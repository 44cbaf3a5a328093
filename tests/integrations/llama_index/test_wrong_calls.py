"""Calls of LlamaIndex that are not ours are told ours, in one sentence and at once."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from llama_index.core import Settings
from llama_index.core.chat_engine import CondenseQuestionChatEngine, SimpleChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from pydantic import BaseModel

from dpicl_rag.errors import DPICLError
from llama_index_dpicl_rag import PrivateLLM, PrivateQueryEngine, PrivateSynthesizer
from tests.integrations.llama_index.support import (
    QUESTION,
    TEXTS,
    nodes_of,
    private_llm,
    simple_index,
)

# The memory of LlamaIndex's chat engines leaves its database to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    yield
    gc.collect()


class Form(BaseModel):
    """What a structured output is asked for."""

    name: str


class Scene:
    """What a user has made before the wrong call."""

    def __init__(self, model: Any) -> None:
        self.core = private_llm(model, seed=1)
        self.llm = PrivateLLM(self.core)
        self.index = simple_index(nodes_of(TEXTS))

    def engine(self, **options: Any) -> Any:
        return self.core.as_query_engine(self.index, **options)

    def chat(self, mode: str, llm: Any) -> Any:
        return self.index.as_chat_engine(chat_mode=mode, llm=llm).chat(QUESTION)


def put_into_settings(scene: Scene) -> None:
    Settings.llm = scene.core


ENGINE = r"llm\.as_query_engine\(index\)"
WRONG: dict[str, tuple[Callable[[Scene], Any], str]] = {
    "engine of an index": (lambda s: s.index.as_query_engine(llm=s.core), ENGINE),
    "engine around the adapter": (
        lambda s: s.index.as_query_engine(llm=s.llm).query(QUESTION),
        ENGINE,
    ),
    "Settings": (put_into_settings, ENGINE),
    "engine around a retriever": (
        lambda s: RetrieverQueryEngine.from_args(s.index.as_retriever(), llm=s.core),
        ENGINE,
    ),
    "chat engine of an index": (lambda s: s.chat("context", s.core), ENGINE),
    "chat engine around the adapter": (lambda s: s.chat("context", s.llm), ENGINE),
    "chat that condenses": (lambda s: s.chat("condense_question", s.llm), ENGINE),
    "simple chat engine": (lambda s: SimpleChatEngine.from_defaults(llm=s.core), ENGINE),
    "simple chat": (lambda s: SimpleChatEngine.from_defaults(llm=s.llm).chat(QUESTION), ENGINE),
    "similarity_top_k": (lambda s: s.engine(similarity_top_k=5), "top_k=5.*twice"),
    "response_mode": (lambda s: s.engine(response_mode="compact"), "an expert of its own"),
    "node_postprocessors": (lambda s: s.engine(node_postprocessors=[]), "threshold="),
    "similarity_cutoff": (lambda s: s.engine(similarity_cutoff=0.7), "threshold="),
    "filters": (lambda s: s.engine(filters=None), "where="),
    "prompt": (lambda s: s.engine(text_qa_template="{context_str}"), "template=PromptTemplate"),
    "search": (lambda s: s.engine(vector_store_query_mode="hybrid"), "exactly"),
    "structure": (lambda s: s.engine(output_cls=Form), "classify"),
    "async": (lambda s: s.engine(use_async=True), "aquery"),
    "setting": (lambda s: s.engine(epsilon=2), r"with_settings\(epsilon=\.\.\.\)"),
    "typing error": (lambda s: s.engine(treshold=0.2), "did you mean threshold"),
    "unknown": (lambda s: s.engine(foo=1), "foo: no such option"),
    "another model": (lambda s: s.engine(llm=MockLLM()), "leave llm out"),
    "constructor": (lambda s: PrivateQueryEngine(s.core, s.index, similarity_top_k=5), "top_k=5"),
    "synthesizer": (
        lambda s: PrivateSynthesizer(s.core, unit_field="document", response_mode="compact"),
        "an expert of its own",
    ),
    "model by name": (lambda s: PrivateLLM("gpt-4o-mini"), r"PrivateContextLLM\(\.\.\.\)"),
    "setting of the adapter": (lambda s: PrivateLLM(s.core, epsilon=2), "with_settings"),
    "sampler of the adapter": (lambda s: PrivateLLM(s.core, temperature=0), "temperature"),
    "prompt of the adapter": (lambda s: PrivateLLM(s.core, system_prompt="x"), "template="),
    "a question as messages": (lambda s: s.llm.chat(QUESTION, documents=[]), "complete"),
    "structured model": (lambda s: s.llm.as_structured_llm(Form), "classify"),
    "tools": (lambda s: s.llm.predict_and_call([], QUESTION), "as_tool"),
    "an index as documents": (lambda s: s.core.answer(QUESTION, s.index), ENGINE),
    "a retriever as documents": (
        lambda s: s.core.answer(QUESTION, s.index.as_retriever()),
        ENGINE,
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_is_told_the_right_one(name: str, tiny_model) -> None:
    call, remedy = WRONG[name]
    scene = Scene(tiny_model)
    with pytest.raises((DPICLError, AttributeError), match=remedy) as caught:
        call(scene)
    assert "\n" not in str(caught.value)


async def test_tools_of_async_calls(tiny_model) -> None:
    with pytest.raises(DPICLError, match="as_tool"):
        await Scene(tiny_model).llm.apredict_and_call([], QUESTION)


def test_a_chat_of_llama_index_over_a_private_engine(tiny_model) -> None:
    """A public model condenses, ours answers."""
    scene = Scene(tiny_model)
    engine = scene.engine(threshold=-1)
    chat = CondenseQuestionChatEngine.from_defaults(query_engine=engine, llm=MockLLM(max_tokens=3))
    assert chat.chat(QUESTION).response
    second = chat.chat(QUESTION)
    assert second.response
    assert second.source_nodes == []


def test_the_core_stays_an_ordinary_object(tiny_model) -> None:
    core = private_llm(tiny_model, seed=1)
    assert core == core
    assert core != private_llm(tiny_model, seed=1)
    assert core != "another"
    assert {core: 1}[core] == 1
    assert not hasattr(core, "no_such_name")
    assert not hasattr(core, "__no_such_name__")
