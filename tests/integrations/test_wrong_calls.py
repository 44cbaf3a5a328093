"""Calls that are not ours are told ours, in one sentence and at once, by both frameworks."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document as LangChainDocument
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import Settings
from llama_index.core.chat_engine import CondenseQuestionChatEngine, SimpleChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from pydantic import BaseModel

import langchain_dpicl_rag as langchain
import llama_index_dpicl_rag as llama_index
from dpicl_rag.errors import ConfigurationError, DPICLError, MissingDocumentsError
from tests.integrations.langchain.support import WordEmbeddings
from tests.integrations.llama_index.support import (
    QUESTION,
    TEXTS,
    nodes_of,
    private_llm,
    simple_index,
)

TURNS = [HumanMessage("Who is ill?"), AIMessage("Ann is.")]

# The memory of LlamaIndex's chat engines leaves its database to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("frozen"),
]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    yield
    gc.collect()


class Form(BaseModel):
    """What a structured output is asked for."""

    name: str


def look(name: str) -> str:
    """Look up a name."""
    return name


class Scene:
    """What a user of either framework has made before the wrong call."""

    def __init__(self, model: Any) -> None:
        self.core = private_llm(model, seed=1)
        self.memory = InMemoryVectorStore.from_texts(
            TEXTS, WordEmbeddings(), [{"patient": text} for text in TEXTS]
        )
        self.chain = self.chain_of(llm=self.core)
        self.combine = langchain.PrivateCombineDocuments(self.core, unit_field="document")
        self.chat = langchain.ChatPrivateContext(self.core)
        self.adapter = llama_index.PrivateLLM(self.core)
        self.index = simple_index(nodes_of(TEXTS))

    def chain_of(self, **options: Any) -> Any:
        return langchain.PrivateRetrievalChain(self.memory, unit_field="patient", **options)

    def engine(self, **options: Any) -> Any:
        return self.core.as_query_engine(self.index, **options)

    def chat_engine(self, mode: str, llm: Any) -> Any:
        return self.index.as_chat_engine(chat_mode=mode, llm=llm).chat(QUESTION)


def put_into_settings(scene: Scene) -> None:
    Settings.llm = scene.core


ENGINE = r"llm\.as_query_engine\(index\)"
WRONG: dict[str, tuple[Callable[[Scene], Any], str]] = {
    "LangChain another key": (
        lambda s: s.chain.invoke({"question": "Why?"}),
        "input_key='question'",
    ),
    "LangChain no key": (lambda s: s.chain.invoke({}), "input_key=..."),
    "LangChain two keys": (
        lambda s: s.chain.invoke({"input": "Why?", "user": "ann"}),
        "'user' in the input",
    ),
    "LangChain documents": (
        lambda s: s.combine.invoke({"input": "Why?", "documents": []}),
        "'context'",
    ),
    "LangChain messages": (lambda s: s.chain.invoke(TURNS), "ChatPrivateContext"),
    "LangChain a message": (lambda s: s.chain.invoke(TURNS[1]), r"StrOutputParser\(\)"),
    "LangChain a list": (lambda s: s.chain.invoke({"input": ["Why?"]}), "no question but list"),
    "LangChain argument": (lambda s: s.chain.invoke("Why?", temperature=0), "temperature"),
    "LangChain bound": (lambda s: s.chain.bind(stop=["."]).invoke("Why?"), "stop: not an argument"),
    "LangChain streamed": (
        lambda s: list(s.chain.stream("Why?", top_k=4)),
        "top_k: not an argument",
    ),
    "LangChain prompt": (lambda s: s.chain_of(model=s.core.model, prompt="{q}"), "template="),
    "LangChain prompt beside": (lambda s: s.chain_of(llm=s.core, prompt="{q}"), "template="),
    "LangChain prompt of a chat": (
        lambda s: langchain.ChatPrivateContext(model=s.core.model, prompt="x"),
        "template=",
    ),
    "LangChain k": (lambda s: s.chain_of(model=s.core.model, k=16), "units="),
    "LangChain tools": (lambda s: s.chat.bind_tools([look]), r"as_tool\(\)"),
    "LangChain structure": (lambda s: s.chat.with_structured_output(Form), "classify"),
    "LangChain structure of text": (
        lambda s: langchain.PrivateLLM(s.core).with_structured_output(Form),
        "classify",
    ),
    "LangChain agent": (
        lambda s: create_agent(s.chat, tools=[look]).invoke({"messages": TURNS[:1]}),
        r"as_tool\(\)",
    ),
    "LangChain agent with a form": (
        lambda s: create_agent(s.chat, response_format=Form).invoke({"messages": TURNS[:1]}),
        r"as_tool\(\)",
    ),
    "LlamaIndex engine of an index": (lambda s: s.index.as_query_engine(llm=s.core), ENGINE),
    "LlamaIndex engine around the adapter": (
        lambda s: s.index.as_query_engine(llm=s.adapter).query(QUESTION),
        ENGINE,
    ),
    "LlamaIndex Settings": (put_into_settings, ENGINE),
    "LlamaIndex engine around a retriever": (
        lambda s: RetrieverQueryEngine.from_args(s.index.as_retriever(), llm=s.core),
        ENGINE,
    ),
    "LlamaIndex chat engine of an index": (lambda s: s.chat_engine("context", s.core), ENGINE),
    "LlamaIndex chat engine around the adapter": (
        lambda s: s.chat_engine("context", s.adapter),
        ENGINE,
    ),
    "LlamaIndex chat that condenses": (
        lambda s: s.chat_engine("condense_question", s.adapter),
        ENGINE,
    ),
    "LlamaIndex simple chat engine": (lambda s: SimpleChatEngine.from_defaults(llm=s.core), ENGINE),
    "LlamaIndex simple chat": (
        lambda s: SimpleChatEngine.from_defaults(llm=s.adapter).chat(QUESTION),
        ENGINE,
    ),
    "LlamaIndex similarity_top_k": (lambda s: s.engine(similarity_top_k=5), "top_k=5.*twice"),
    "LlamaIndex response_mode": (
        lambda s: s.engine(response_mode="compact"),
        "an expert of its own",
    ),
    "LlamaIndex node_postprocessors": (lambda s: s.engine(node_postprocessors=[]), "threshold="),
    "LlamaIndex similarity_cutoff": (lambda s: s.engine(similarity_cutoff=0.7), "threshold="),
    "LlamaIndex filters": (lambda s: s.engine(filters=None), "where="),
    "LlamaIndex prompt": (
        lambda s: s.engine(text_qa_template="{context_str}"),
        "template=PromptTemplate",
    ),
    "LlamaIndex search": (lambda s: s.engine(vector_store_query_mode="hybrid"), "exactly"),
    "LlamaIndex structure": (lambda s: s.engine(output_cls=Form), "classify"),
    "LlamaIndex async": (lambda s: s.engine(use_async=True), "aquery"),
    "LlamaIndex setting": (lambda s: s.engine(epsilon=2), r"with_settings\(epsilon=\.\.\.\)"),
    "LlamaIndex chat_mode": (lambda s: s.engine(chat_mode="context"), "there is one"),
    "LlamaIndex typing error": (lambda s: s.engine(treshold=0.2), "did you mean threshold"),
    "LlamaIndex unknown": (lambda s: s.engine(foo=1), "foo: no such option"),
    "LlamaIndex another model": (lambda s: s.engine(llm=MockLLM()), "leave llm out"),
    "LlamaIndex constructor": (
        lambda s: llama_index.PrivateQueryEngine(s.core, s.index, similarity_top_k=5),
        "top_k=5",
    ),
    "LlamaIndex synthesizer": (
        lambda s: llama_index.PrivateSynthesizer(
            s.core, unit_field="document", response_mode="compact"
        ),
        "an expert of its own",
    ),
    "LlamaIndex model by name": (
        lambda s: llama_index.PrivateLLM("gpt-4o-mini"),
        r"PrivateContextLLM\(\.\.\.\)",
    ),
    "LlamaIndex setting of the adapter": (
        lambda s: llama_index.PrivateLLM(s.core, epsilon=2),
        "with_settings",
    ),
    "LlamaIndex sampler of the adapter": (
        lambda s: llama_index.PrivateLLM(s.core, temperature=0),
        "temperature",
    ),
    "LlamaIndex prompt of the adapter": (
        lambda s: llama_index.PrivateLLM(s.core, system_prompt="x"),
        "template=",
    ),
    "LlamaIndex a question as messages": (
        lambda s: s.adapter.chat(QUESTION, documents=[]),
        "complete",
    ),
    "LlamaIndex structured model": (lambda s: s.adapter.as_structured_llm(Form), "classify"),
    "LlamaIndex tools": (lambda s: s.adapter.predict_and_call([], QUESTION), "as_tool"),
    "LlamaIndex an index as documents": (lambda s: s.core.answer(QUESTION, s.index), ENGINE),
    "LlamaIndex a retriever as documents": (
        lambda s: s.core.answer(QUESTION, s.index.as_retriever()),
        ENGINE,
    ),
}
"""Each with words of what it is told."""

ERRORS: dict[str, Any] = {
    "LangChain": ConfigurationError,
    "LlamaIndex": (DPICLError, AttributeError),  # LlamaIndex asks objects what they have
}


@pytest.fixture
def scene(tiny_model) -> Scene:
    return Scene(tiny_model)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_is_told_the_right_one(name: str, scene) -> None:
    call, remedy = WRONG[name]
    with pytest.raises(ERRORS[name.split()[0]], match=remedy) as caught:
        call(scene)
    assert "\n" not in str(caught.value)


async def test_async_calls_too(scene) -> None:
    with pytest.raises(ConfigurationError, match="temperature"):
        await scene.chain.ainvoke("Why?", temperature=0)
    with pytest.raises(ConfigurationError, match="temperature"):
        _ = [piece async for piece in scene.chain.astream("Why?", temperature=0)]
    with pytest.raises(DPICLError, match="as_tool"):
        await scene.adapter.apredict_and_call([], QUESTION)


def test_a_chain_that_writes_documents_into_its_prompt(scene) -> None:
    from langchain_classic.chains.combine_documents import create_stuff_documents_chain

    prompt = ChatPromptTemplate.from_template("{context} {input}")
    stuff = create_stuff_documents_chain(scene.chat, prompt)
    with pytest.raises(MissingDocumentsError, match="PrivateRetrievalChain"):
        stuff.invoke({"input": QUESTION, "context": [LangChainDocument(TEXTS[0])]})


def test_a_chat_of_llama_index_over_a_private_engine(scene) -> None:
    """A public model condenses, ours answers."""
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
