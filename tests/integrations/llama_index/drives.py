"""What LlamaIndex alone has: nodes, conversations, tools, workflows, for the leak test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import ChatMessage
from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import QueryEngineTool
from workflows import Workflow, step
from workflows.events import StartEvent, StopEvent

from dpicl_rag.corpora import Corpus
from dpicl_rag.retrieval import PrivateThresholdRetriever
from llama_index_dpicl_rag import (
    PrivateChatEngine,
    PrivateLLM,
    PrivateQueryEngine,
    PrivateSynthesizer,
    PromptContextError,
)
from llama_index_dpicl_rag.vector_indexes import embedder_of
from tests.integrations.leak_probe import TOKENS, Drive, Stage
from tests.integrations.llama_index.support import (
    HashEmbedding,
    chroma_index,
    instrumented,
    nodes_of,
    private_llm,
    simple_index,
)


@contextmanager
def _observed(stage: Stage) -> Iterator[CallbackManager]:
    with instrumented(stage.probe.see) as callbacks:
        yield CallbackManager([callbacks])


@contextmanager
def _language_model(stage: Stage) -> Iterator[PrivateLLM]:
    with _observed(stage) as manager:
        llm = PrivateLLM(
            private_llm(stage.model, max_tokens=TOKENS, randomness=stage.randomness),
            callback_manager=manager,
        )
        stage.object("language model", llm)
        stage.probe.see("dump of language model", [llm.to_dict(), llm.to_payload()])
        yield llm


@contextmanager
def _engine(stage: Stage, index: Any = None, **options: Any) -> Iterator[PrivateQueryEngine]:
    index = index or chroma_index(stage.folder, nodes_of(stage.documents))
    with _observed(stage) as manager:
        engine = PrivateQueryEngine(
            private_llm(stage.model, max_tokens=TOKENS, randomness=stage.randomness),
            index,
            threshold=-1,
            callback_manager=manager,
            **options,
        )
        stage.object("engine", engine)
        yield engine


@contextmanager
def _synthesizer(stage: Stage, **options: Any) -> Iterator[tuple[PrivateSynthesizer, list[Any]]]:
    nodes = [NodeWithScore(node=node, score=0.5) for node in nodes_of(stage.documents)]
    with _observed(stage) as manager:
        synthesizer = PrivateSynthesizer(
            private_llm(stage.model, max_tokens=TOKENS, randomness=stage.randomness),
            unit_field="document",
            callback_manager=manager,
            **options,
        )
        stage.object("synthesizer", synthesizer)
        yield synthesizer, nodes


def _complete_nodes(stage: Stage) -> Any:
    """Documents of LlamaIndex, handed over; one has no unit."""
    nodes = nodes_of(stage.documents, [{"patient": f"p{n}"} for n in range(len(stage.documents))])
    lost = nodes_of(stage.documents[:1])
    with _observed(stage) as manager:
        core = private_llm(
            stage.model, max_tokens=TOKENS, randomness=stage.randomness, privacy_unit="patient"
        )
        llm = PrivateLLM(core, callback_manager=manager)
        scored = [NodeWithScore(node=node, score=0.5) for node in nodes]
        return [
            llm.complete(stage.question, documents=[*nodes, *lost]),
            core.answer(stage.question, [*scored, *lost]),
        ]


def _chat_after_turns(stage: Stage) -> Any:
    before = [
        ChatMessage("Be brief.", role="system"),
        ChatMessage("Who leads?"),
        ChatMessage("Not known.", role="assistant"),
    ]
    with _language_model(stage) as llm:
        return llm.chat([*before, ChatMessage(stage.question)], documents=stage.documents)


def _refused(stage: Stage) -> Any:
    """Calls that fail: the errors must be as silent as the answers."""
    from llama_index.core import PromptTemplate

    template = PromptTemplate("{context_str} {query_str}")
    found: list[BaseException] = []
    with _language_model(stage) as llm:
        calls: list[Callable[[], Any]] = [
            lambda: llm.complete(stage.question, documents=stage.documents, temperature=1.0),
            lambda: llm.complete(stage.question, documents="".join(stage.documents)),
            lambda: llm.complete("", documents=stage.documents),
            lambda: llm.complete("x" * 5000, documents=stage.documents),
            lambda: llm.predict(template, context_str=stage.documents[0], query_str=stage.question),
            lambda: llm.stream(template, context_str=stage.documents[0], query_str=stage.question),
        ]
        for call in calls:
            try:
                call()
            except (ValueError, PromptContextError) as error:
                stage.probe.see_error("refusal", error)
                found.append(error)
    assert len(found) == len(calls)
    return [repr(error) for error in found]


def _query_simple_store(stage: Stage) -> Any:
    with _engine(stage, simple_index(nodes_of(stage.documents))) as engine:
        return engine.query(stage.question)


def _query_by_private_search(stage: Stage) -> Any:
    corpus = Corpus.from_collection(
        chroma_index(stage.folder, nodes_of(stage.documents)).vector_store.client,
        unit_field="document_id",
        embedder=embedder_of(HashEmbedding()),
    )
    retriever = PrivateThresholdRetriever(corpus, 3, sigma=3.0, thresholds=(0.0, -1.0))
    llm = private_llm(stage.model, max_tokens=TOKENS, randomness=stage.randomness)
    with _observed(stage) as manager:
        engine = PrivateQueryEngine(llm, retriever, callback_manager=manager)
        stage.object("engine over a private search", engine)
        completed = PrivateLLM(llm, callback_manager=manager).complete(
            stage.question, documents=retriever
        )
        return [engine.query(stage.question), completed]


def _query_stream(stage: Stage) -> Any:
    with _engine(stage, streaming=True) as engine:
        response = engine.query(stage.question)
        return [*response.response_gen, response]


async def _aquery_stream(stage: Stage) -> Any:
    with _engine(stage, streaming=True) as engine:
        response = await engine.aquery(stage.question)
        return [*[piece async for piece in response.async_response_gen()], response]


@contextmanager
def _conversation(stage: Stage) -> Iterator[PrivateChatEngine]:
    """A second turn leans on the first one."""
    index = chroma_index(stage.folder, nodes_of(stage.documents))
    with _observed(stage) as manager:
        llm = private_llm(stage.model, max_tokens=TOKENS, randomness=stage.randomness)
        turns = [ChatMessage(stage.question), ChatMessage("Nobody knows.", role="assistant")]
        engine = PrivateChatEngine(
            llm, index, threshold=-1, chat_history=turns, callback_manager=manager
        )
        stage.object("chat engine", engine)
        yield engine
        stage.probe.see("turns of a chat", engine.chat_history)


def _converse(stage: Stage) -> Any:
    with _conversation(stage) as engine:
        return engine.chat("And what about it?")


async def _aconverse(stage: Stage) -> Any:
    with _conversation(stage) as engine:
        return await engine.achat("And what about it?")


def _converse_stream(stage: Stage) -> Any:
    with _conversation(stage) as engine:
        response = engine.stream_chat("And what about it?")
        said = list(response.response_gen)
        return [said, response]


async def _aconverse_stream(stage: Stage) -> Any:
    with _conversation(stage) as engine:
        response = await engine.astream_chat("And what about it?")
        said = [piece async for piece in response.async_response_gen()]
        return [said, response]


async def _tool(stage: Stage) -> Any:
    with _engine(stage) as engine:
        tool = QueryEngineTool.from_defaults(engine, name="notes", description="Notes.")
        return [tool.call(stage.question), await tool.acall(stage.question), tool.metadata]


class _Ask(Workflow):
    def __init__(self, engine: PrivateQueryEngine) -> None:
        super().__init__(timeout=60)
        self.engine = engine

    @step
    async def ask(self, event: StartEvent) -> StopEvent:
        return StopEvent(result=await self.engine.aquery(event.question))


async def _workflow(stage: Stage) -> Any:
    with _engine(stage) as engine:
        handler = _Ask(engine).run(question=stage.question, run_id="run")
        shown = [event async for event in handler.stream_events()]
        return [await handler, shown]


def _synthesize(stage: Stage) -> Any:
    with _synthesizer(stage) as (synthesizer, nodes):
        return synthesizer.synthesize(stage.question, nodes, additional_source_nodes=nodes)


async def _asynthesize(stage: Stage) -> Any:
    with _synthesizer(stage) as (synthesizer, nodes):
        return await synthesizer.asynthesize(stage.question, nodes, additional_source_nodes=nodes)


def _synthesize_stream(stage: Stage) -> Any:
    with _synthesizer(stage, streaming=True) as (synthesizer, nodes):
        response = synthesizer.synthesize(stage.question, nodes)
        return [*response.response_gen, response]


async def _asynthesize_stream(stage: Stage) -> Any:
    with _synthesizer(stage, streaming=True) as (synthesizer, nodes):
        response = await synthesizer.asynthesize(stage.question, nodes)
        return [*[piece async for piece in response.async_response_gen()], response]


DRIVES = [
    Drive("language model: documents of LlamaIndex", _complete_nodes),
    Drive("language model: chat after turns", _chat_after_turns),
    Drive("language model: refused calls", _refused, reads=False),
    Drive("query engine: query over a SimpleVectorStore", _query_simple_store),
    Drive("query engine: query by a private search", _query_by_private_search),
    Drive("query engine: streaming query", _query_stream),
    Drive("query engine: streaming aquery", _aquery_stream),
    Drive("chat engine: chat", _converse),
    Drive("chat engine: achat", _aconverse),
    Drive("chat engine: stream_chat", _converse_stream),
    Drive("chat engine: astream_chat", _aconverse_stream),
    Drive("query engine: QueryEngineTool", _tool),
    Drive("query engine: Workflow step", _workflow),
    Drive("synthesizer: synthesize", _synthesize),
    Drive("synthesizer: asynthesize", _asynthesize),
    Drive("synthesizer: streaming synthesize", _synthesize_stream),
    Drive("synthesizer: streaming asynthesize", _asynthesize_stream),
]
