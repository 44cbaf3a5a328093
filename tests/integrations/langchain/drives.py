"""What LangChain alone has: events, content blocks, chains and agents, for the leak test."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

from dpicl_rag.errors import DPICLError
from dpicl_rag.retrieval import PoissonSampledRetriever, PrivateThresholdRetriever
from langchain_dpicl_rag import (
    ChatPrivateContext,
    PrivateCombineDocuments,
    PrivateLLM,
    PrivateRetrievalChain,
)
from langchain_dpicl_rag.vector_stores import private_retriever
from tests.integrations.langchain.recorders import (
    async_recording_handler,
    observed,
    recording_handler,
)
from tests.integrations.langchain.support import WordEmbeddings, chroma_store, make_llm
from tests.integrations.leak_probe import TOKENS, Drive, Stage


class _Adapters:
    """The adapters of one drive, with handlers for its calls."""

    def __init__(self, stage: Stage) -> None:
        self.llm = make_llm(stage.model, max_tokens=TOKENS, randomness=stage.randomness)
        handlers = [recording_handler(stage.probe), async_recording_handler(stage.probe)]
        self.config: Any = {"callbacks": handlers}
        self.texts = stage.documents
        self.documents = [
            Document(text, metadata={"patient": str(number)}, id=str(number))
            for number, text in enumerate(stage.documents)
        ]
        self._stage = stage

    def text(self, privacy_unit: str = "document") -> PrivateLLM:
        return self._shown("llm", PrivateLLM(self.llm.with_settings(privacy_unit=privacy_unit)))

    def chat(self, privacy_unit: str = "document", **options: Any) -> ChatPrivateContext:
        llm = self.llm.with_settings(privacy_unit=privacy_unit)
        return self._shown("chat", ChatPrivateContext(llm, **options))

    def chain(self, store: Any = None, **options: Any) -> PrivateRetrievalChain:
        store = store or chroma_store(self._stage.folder, self.texts)
        options = {"unit_field": "patient", "threshold": -1, **options}
        chain = PrivateRetrievalChain(store, llm=self.llm, **options)
        self._stage.object("retriever", chain.retriever)
        return self._shown("chain", chain)

    def combine(self, **options: Any) -> PrivateCombineDocuments:
        return self._shown("combine", PrivateCombineDocuments(self.llm, **options))

    def _shown(self, name: str, adapter: Any) -> Any:
        self._stage.object(name, adapter)
        self._stage.probe.see(f"dump of {name}", [dumpd(adapter), adapter.model_dump()])
        return adapter


@contextmanager
def _on(stage: Stage) -> Iterator[_Adapters]:
    with observed(stage.probe):
        yield _Adapters(stage)


def _llm_generate(stage: Stage) -> Any:
    with _on(stage) as on:
        return on.text(privacy_unit="patient").generate(
            [stage.question], callbacks=on.config["callbacks"], documents=on.documents
        )


def _chat_streaming(stage: Stage) -> Any:
    with _on(stage) as on:
        return on.chat(streaming=True).invoke(stage.question, on.config, documents=on.texts)


def _chat_bound(stage: Stage) -> Any:
    with _on(stage) as on:
        bound = on.chat(privacy_unit="patient").bind(documents=on.documents)
        stage.object("bound chat", bound)
        stage.probe.see("dump of bound chat", [dumpd(bound), bound.model_dump()])
        chain = ChatPromptTemplate.from_template("{question}") | bound | StrOutputParser()
        stage.object("LCEL chain", chain)
        asked = {"question": stage.question}
        return [chain.invoke(asked, on.config), *chain.stream(asked, on.config)]


def _message(stage: Stage) -> HumanMessage:
    blocks = [{"type": "text-plain", "text": text} for text in stage.documents]
    return HumanMessage(content=[{"type": "text", "text": stage.question}, *blocks])


def _chat_blocks(stage: Stage) -> Any:
    with _on(stage) as on:
        chat = on.chat()
        return [
            chat.invoke([_message(stage)], on.config),
            *chat.stream([_message(stage)], on.config),
            chat.generate([[_message(stage)]], callbacks=on.config["callbacks"]),
        ]


async def _chat_blocks_async(stage: Stage) -> Any:
    with _on(stage) as on:
        chat = on.chat()
        return [
            await chat.ainvoke([_message(stage)], on.config),
            [c async for c in chat.astream([_message(stage)], on.config)],
            await chat.agenerate([[_message(stage)]], callbacks=on.config["callbacks"]),
        ]


def _chat_events(stage: Stage) -> Any:
    with _on(stage) as on, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the third version of events is a beta
        stream = on.chat().stream_events(
            stage.question, on.config, version="v3", documents=on.texts
        )
        return [*stream, stream.output]


def _chat_retry(stage: Stage) -> Any:
    with _on(stage) as on:
        chat = on.chat().bind(documents=on.texts).with_retry(stop_after_attempt=2)
        stage.object("retrying chat", chat)
        return chat.invoke(stage.question, on.config)


async def _chat_events_async(stage: Stage) -> Any:
    with _on(stage) as on:
        chat = on.chat().bind(documents=on.texts)
        stream = chat.astream_events(stage.question, on.config, version="v2")
        return [event async for event in stream]


def _chain_in_memory(stage: Stage) -> Any:
    with _on(stage) as on:
        store = InMemoryVectorStore(WordEmbeddings())
        store.add_documents(on.documents)
        return on.chain(store).invoke(stage.question, on.config)


async def _chain_numbers(stage: Stage) -> Any:
    with _on(stage) as on:
        chain = on.chain(numbers=True)
        return [
            chain.invoke(stage.question, on.config),
            *chain.stream(stage.question, on.config),
            [piece async for piece in chain.astream(stage.question, on.config)],
        ]


def _chain_whole_store(stage: Stage) -> Any:
    with _on(stage) as on:
        chain = on.chain(threshold=None, numbers=True)
        near = "The patient has zingpocket 0."  # near enough for the lowest threshold
        return [chain.invoke(near, on.config), *chain.stream(near, on.config)]


def _chain_lcel(stage: Stage) -> Any:
    with _on(stage) as on:
        chain = {"input": RunnableLambda(str)} | on.chain() | StrOutputParser()
        return [
            chain.invoke(stage.question, on.config),
            *chain.stream(stage.question, on.config),
        ]


async def _chain_events_async(stage: Stage) -> Any:
    with _on(stage) as on:
        stream = on.chain().astream_events({"input": stage.question}, on.config, version="v2")
        return [event async for event in stream]


class _Caller(GenericFakeChatModel):
    """A public model that calls the tool and then repeats what it said."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


def _agent(stage: Stage, chain: PrivateRetrievalChain) -> Any:
    tool = chain.as_tool(name="notes", description="Notes.")
    stage.object("tool", tool)
    call = {"name": "notes", "args": {"question": stage.question}, "id": "1"}
    model = _Caller(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("done")]))
    return create_agent(model, [tool])


def _agent_tool(stage: Stage) -> Any:
    with _on(stage) as on:
        agent = _agent(stage, on.chain())
        return agent.invoke({"messages": [("user", stage.question)]}, on.config)


async def _agent_tool_async(stage: Stage) -> Any:
    with _on(stage) as on:
        agent = _agent(stage, on.chain())
        asked = {"messages": [("user", stage.question)]}
        return [step async for step in agent.astream(asked, on.config, stream_mode="values")]


def _private_retriever(stage: Stage) -> Any:
    with _on(stage) as on:
        store = chroma_store(stage.folder, stage.documents)
        vectors = private_retriever(store, unit_field="patient").source
        search = PrivateThresholdRetriever(vectors, 3, sigma=3.0, thresholds=(-1,))
        retriever = PoissonSampledRetriever(search, 1.0)
        stage.object("private retriever", retriever)
        chain = PrivateRetrievalChain(retriever, llm=on.llm)
        stage.object("chain over a private retriever", chain)
        bound = on.chat().bind(documents=retriever)
        stage.object("chat bound to a private retriever", bound)
        asked = {"input": stage.question, "context": retriever}
        return [
            chain.invoke(stage.question, on.config),
            *chain.stream(stage.question, on.config),
            chain.as_tool().invoke({"question": stage.question}, on.config),
            on.text().invoke(stage.question, on.config, documents=retriever),
            *bound.stream(stage.question, on.config),
            on.combine().invoke(asked, on.config),
        ]


def _refused(stage: Stage) -> Any:
    """Calls that fail: the errors must be as silent as the answers."""
    with _on(stage) as on:
        llm, chat, combine = on.text(), on.chat(), on.combine()
        whole = "".join(on.texts)
        calls: list[Callable[[], Any]] = [
            lambda: llm.invoke(stage.question, on.config, documents=whole),
            lambda: llm.invoke(stage.question, on.config, documents=on.texts, temperature=1),
            lambda: llm.invoke(stage.question, on.config, documents=[{"text": whole}]),
            lambda: llm.invoke(" ", on.config, documents=on.texts),
            lambda: list(llm.stream("x" * 5000, on.config, documents=on.texts)),
            lambda: chat.invoke(stage.question, on.config, documents={"text": whole}.values),
            lambda: chat.invoke(stage.question, on.config, documents=on.texts, tools=[]),
            lambda: chat.invoke([_message(stage)], on.config, documents=on.texts),
            lambda: list(chat.stream([_message(stage)], on.config, documents=on.texts)),
            lambda: combine.invoke({"context": on.documents}, on.config),
            lambda: combine.invoke({"input": stage.question, "context": whole}, on.config),
            lambda: PrivateLLM(llm=whole),
        ]
        errors = []
        for call in calls:
            try:
                call()
            except (ValueError, DPICLError) as error:
                stage.probe.see_error("refusal", error)
                errors.append(error)
        assert len(errors) == len(calls)
        return json.dumps([repr(error) for error in errors])


DRIVES = [
    Drive("llm: generate", _llm_generate),
    Drive("chat: streaming invoke", _chat_streaming),
    Drive("chat: bound documents in LCEL", _chat_bound),
    Drive("chat: documents as content blocks", _chat_blocks),
    Drive("chat: documents as content blocks, async", _chat_blocks_async),
    Drive("chat: stream_events", _chat_events),
    Drive("chat: with_retry", _chat_retry),
    Drive("chat: astream_events", _chat_events_async),
    Drive("chain: InMemoryVectorStore", _chain_in_memory),
    Drive("chain: with numbers", _chain_numbers),
    Drive("chain: no search chosen", _chain_whole_store),
    Drive("chain: LCEL", _chain_lcel),
    Drive("chain: astream_events", _chain_events_async),
    Drive("chain: agent tool", _agent_tool),
    Drive("chain: agent tool, async", _agent_tool_async),
    Drive("private retriever, everywhere", _private_retriever),
    Drive("refused calls", _refused, reads=False),
]
