"""Every LangChain adapter in every mode, for the leak test."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import aclosing, closing, contextmanager
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
from langchain_dpicl_rag.store_retrievers import private_retriever
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


def _llm_invoke(stage: Stage) -> Any:
    with _on(stage) as on:
        return on.text().invoke(stage.question, on.config, documents=on.texts)


def _llm_bound(stage: Stage) -> Any:
    with _on(stage) as on:
        bound = on.text().bind(documents=on.texts)
        stage.object("bound llm", bound)
        stage.probe.see("dump of bound llm", [dumpd(bound), bound.model_dump()])
        return [bound.invoke(stage.question, on.config), *bound.stream(stage.question, on.config)]


def _llm_generate(stage: Stage) -> Any:
    with _on(stage) as on:
        return on.text(privacy_unit="patient").generate(
            [stage.question], callbacks=on.config["callbacks"], documents=on.documents
        )


def _llm_stream(stage: Stage) -> Any:
    with _on(stage) as on:
        return list(on.text().stream(stage.question, on.config, documents=on.texts))


def _llm_batch(stage: Stage) -> Any:
    with _on(stage) as on:
        return on.text().batch([stage.question] * 3, on.config, documents=on.texts)


async def _llm_async(stage: Stage) -> Any:
    with _on(stage) as on:
        llm = on.text()
        return [
            await llm.ainvoke(stage.question, on.config, documents=on.texts),
            [p async for p in llm.astream(stage.question, on.config, documents=on.texts)],
            await llm.abatch([stage.question] * 2, on.config, documents=on.texts),
        ]


def _chat_invoke(stage: Stage) -> Any:
    with _on(stage) as on:
        return on.chat().invoke(stage.question, on.config, documents=on.texts)


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


def _chat_stream(stage: Stage) -> Any:
    with _on(stage) as on:
        return list(on.chat().stream(stage.question, on.config, documents=on.texts))


def _chat_closed_early(stage: Stage) -> Any:
    with (
        _on(stage) as on,
        closing(on.chat().stream(stage.question, on.config, documents=on.texts)) as stream,
    ):
        return [next(stream), next(stream)]


def _chat_events(stage: Stage) -> Any:
    with _on(stage) as on, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the third version of events is a beta
        stream = on.chat().stream_events(
            stage.question, on.config, version="v3", documents=on.texts
        )
        return [*stream, stream.output]


def _chat_batch(stage: Stage) -> Any:
    with _on(stage) as on:
        return on.chat().batch([stage.question] * 3, on.config, documents=on.texts)


def _chat_retry(stage: Stage) -> Any:
    with _on(stage) as on:
        chat = on.chat().bind(documents=on.texts).with_retry(stop_after_attempt=2)
        stage.object("retrying chat", chat)
        return chat.invoke(stage.question, on.config)


async def _chat_async(stage: Stage) -> Any:
    with _on(stage) as on:
        chat = on.chat()
        async with aclosing(chat.astream(stage.question, on.config, documents=on.texts)) as stream:
            first = [await anext(stream), await anext(stream)]
        return [
            first,
            await chat.ainvoke(stage.question, on.config, documents=on.texts),
            [c async for c in chat.astream(stage.question, on.config, documents=on.texts)],
            await chat.abatch([stage.question] * 2, on.config, documents=on.texts),
            [
                event
                async for event in chat.bind(documents=on.texts).astream_events(
                    stage.question, on.config, version="v2"
                )
            ],
        ]


def _chain_invoke(stage: Stage) -> Any:
    with _on(stage) as on:
        chain = on.chain()
        return [
            chain.invoke(stage.question, on.config),
            chain.invoke({"input": stage.question}, on.config),
        ]


def _chain_in_memory(stage: Stage) -> Any:
    with _on(stage) as on:
        store = InMemoryVectorStore(WordEmbeddings())
        store.add_documents(on.documents)
        return on.chain(store).invoke(stage.question, on.config)


def _chain_stream(stage: Stage) -> Any:
    with _on(stage) as on:
        chain = on.chain()
        with closing(chain.stream(stage.question, on.config)) as stream:
            first = [next(stream), next(stream)]
        return [*first, *chain.stream({"input": stage.question}, on.config)]


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


def _chain_batch(stage: Stage) -> Any:
    with _on(stage) as on:
        return on.chain().batch([stage.question] * 3, on.config)


def _chain_lcel(stage: Stage) -> Any:
    with _on(stage) as on:
        chain = {"input": RunnableLambda(str)} | on.chain() | StrOutputParser()
        return [
            chain.invoke(stage.question, on.config),
            *chain.stream(stage.question, on.config),
        ]


async def _chain_async(stage: Stage) -> Any:
    with _on(stage) as on:
        chain = on.chain()
        async with aclosing(chain.astream(stage.question, on.config)) as stream:
            first = [await anext(stream), await anext(stream)]
        return [
            first,
            await chain.ainvoke(stage.question, on.config),
            [piece async for piece in chain.astream({"input": stage.question}, on.config)],
            await chain.abatch([stage.question] * 2, on.config),
            [e async for e in chain.astream_events(stage.question, on.config, version="v2")],
            await asyncio.gather(*(chain.ainvoke(stage.question) for _ in range(2))),
        ]


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


def _combine(stage: Stage) -> Any:
    # Invoked from outside any chain: around it, create_retrieval_chain shows the documents.
    with _on(stage) as on:
        combine = on.combine(unit_field="document")
        asked = {"input": stage.question, "context": on.documents}
        return [
            combine.invoke(asked, on.config),
            *combine.stream(asked, on.config),
            combine.batch([asked] * 2, on.config),
        ]


async def _combine_async(stage: Stage) -> Any:
    with _on(stage) as on:
        combine = on.combine(unit_field="document")
        asked = {"input": stage.question, "context": on.documents}
        return [
            await combine.ainvoke(asked, on.config),
            [piece async for piece in combine.astream(asked, on.config)],
            await combine.abatch([asked] * 2, on.config),
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
    Drive("llm: invoke", _llm_invoke),
    Drive("llm: bound documents", _llm_bound),
    Drive("llm: generate", _llm_generate),
    Drive("llm: stream", _llm_stream),
    Drive("llm: batch", _llm_batch),
    Drive("llm: async", _llm_async),
    Drive("chat: invoke", _chat_invoke),
    Drive("chat: streaming invoke", _chat_streaming),
    Drive("chat: bound documents in LCEL", _chat_bound),
    Drive("chat: documents as content blocks", _chat_blocks),
    Drive("chat: documents as content blocks, async", _chat_blocks_async),
    Drive("chat: stream", _chat_stream),
    Drive("chat: stream closed early", _chat_closed_early),
    Drive("chat: stream_events", _chat_events),
    Drive("chat: batch", _chat_batch),
    Drive("chat: with_retry", _chat_retry),
    Drive("chat: async", _chat_async),
    Drive("chain: invoke", _chain_invoke),
    Drive("chain: InMemoryVectorStore", _chain_in_memory),
    Drive("chain: stream", _chain_stream),
    Drive("chain: with numbers", _chain_numbers),
    Drive("chain: no search chosen", _chain_whole_store),
    Drive("chain: batch", _chain_batch),
    Drive("chain: LCEL", _chain_lcel),
    Drive("chain: async", _chain_async),
    Drive("chain: agent tool", _agent_tool),
    Drive("chain: agent tool, async", _agent_tool_async),
    Drive("private retriever, everywhere", _private_retriever),
    Drive("combine: invoke, stream, batch", _combine),
    Drive("combine: async", _combine_async),
    Drive("refused calls", _refused, reads=False),
]
