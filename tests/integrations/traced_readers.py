"""Readers where everything traces: a program that prints, as JSON, what was told of their calls.

It is a process of its own because instrumentations change clients and frameworks for good.
LangSmith is switched on by environment variables; OpenTelemetry by instrumentations and by spans
made by hand; both frameworks by callbacks of models, by global handlers, caches and debug prints.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from langchain_core.tracers import LangChainTracer
from langchain_core.tracers.langchain import wait_for_all_tracers
from langchain_openai import ChatOpenAI
from langsmith.run_trees import get_cached_client
from langsmith.wrappers import wrap_openai
from llama_index.core import Settings
from llama_index.core.callbacks import CallbackManager
from llama_index.llms.openai_like import OpenAILike
from openai import AsyncOpenAI, OpenAI
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dpicl_rag import Document, PrivateContextLLM
from dpicl_rag.auditing.channels import differences
from dpicl_rag.language_models.readers import quiet_calls
from dpicl_rag.mechanisms.randomness import NotPrivateWarning, SeededRandomness
from langchain_dpicl_rag import PrivateRetrievalChain
from llama_index_dpicl_rag import PrivateQueryEngine
from tests.integrations.langchain.recorders import heard, recording_handler
from tests.integrations.langchain.support import chroma_store
from tests.integrations.leak_probe import SECRET, Comparison
from tests.integrations.llama_index.support import Callbacks, instrumented, nodes_of, simple_index
from tests.support.fake_chat import FakeChat
from tests.support.langsmith_endpoint import LangSmithEndpoint
from tests.support.scripted_reader import ScriptedReader

QUESTION = "When is the shuttle?"
SAID = "The shuttle leaves at 6:40."
TEXTS = [f"{SAID} Room {number}." for number in range(24)]
CANARY = f"The patient {SECRET} waits."

NEIGHBOURS = {"says nothing": "NOTHING", "says its secret": CANARY}
"""What the model says of the unit that one corpus has more."""

# Its own time, ids and place in a tree are left out of a run.
_RUN = ("name", "run_type", "inputs", "outputs", "error", "tags")
# How many runs go in one request follows from time.
_BATCHES = ("log langsmith.client", "log urllib3.connectionpool")


def by_chain(llm: Llm, heard_by: Heard, url: str, texts: list[str]) -> Callable[[], object]:
    handlers = [heard_by.handler, LangChainTracer()]
    given = {"model": "tiny", "api_key": "none", "max_retries": 0, "verbose": True}
    reader = ChatOpenAI(base_url=url, callbacks=handlers, cache=True, **given)
    chain = PrivateRetrievalChain(
        chroma_store(heard_by.folder, texts),
        unit_field="document",
        threshold=-1.0,
        llm=llm(reader),
    )
    return lambda: chain.invoke(QUESTION, config={"callbacks": handlers})


def by_engine(llm: Llm, heard_by: Heard, url: str, texts: list[str]) -> Callable[[], object]:
    given = {"model": "tiny", "api_key": "none", "max_retries": 0, "is_chat_model": True}
    manager = CallbackManager([heard_by.callbacks])
    reader = OpenAILike(api_base=url, callback_manager=manager, **given)
    engine = PrivateQueryEngine(llm(reader), simple_index(nodes_of(texts)), threshold=-1.0)
    return lambda: engine.query(QUESTION)


def by_address(llm: Llm, heard_by: Heard, url: str, texts: list[str]) -> Callable[[], object]:
    return _answer(llm(f"chat+{url}#tiny"), texts)


def by_function(llm: Llm, heard_by: Heard, url: str, texts: list[str]) -> Callable[[], object]:
    """LangSmith's wrapper of OpenAI's client, in a span made by hand."""
    return _answer(llm(_traced(url)), texts)


def by_async_function(
    llm: Llm, heard_by: Heard, url: str, texts: list[str]
) -> Callable[[], object]:
    client = wrap_openai(AsyncOpenAI(base_url=url, api_key="none", max_retries=0))

    async def ask(prompt: str) -> Any:
        with trace.get_tracer("own").start_as_current_span("ask", attributes={"prompt": prompt}):
            found = await client.chat.completions.create(model="tiny", messages=_messages(prompt))
            return found.choices[0].message.content

    return _answer(llm(ask), texts)


READERS = {
    "chain of LangChain": by_chain,
    "engine of LlamaIndex": by_engine,
    "address": by_address,
    "traced function": by_function,
    "traced async function": by_async_function,
}

_QUIET = quiet_calls.__name__
_SAMPLED = {f"{_QUIET}.unobserved": nullcontext}
_GOING_ON = {f"{_QUIET}._without_instrumentation": nullcontext}
_TOLD = {
    "LangChain": {f"{_QUIET}._langchain_is_quiet": lambda: False},
    "LlamaIndex": {f"{_QUIET}._llama_index_is_quiet": lambda: False},
}
FAULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "LangChain is told": ("chain of LangChain", _TOLD["LangChain"]),
    "LlamaIndex is told": ("engine of LlamaIndex", _TOLD["LlamaIndex"]),
    "LangSmith is told": ("traced function", {f"{_QUIET}._without_langsmith": nullcontext}),
    "spans are sampled": ("traced async function", _SAMPLED),
    "instrumentations go on": ("address", _GOING_ON),
    "both": ("traced function", {**_SAMPLED, **_GOING_ON}),
    "logs are written": ("traced function", {f"{_QUIET}._QuietCalls.filter": lambda *_: True}),
}
"""Silences that are switched off, each with a reader in which that is seen."""

Llm = Callable[[Any], PrivateContextLLM]


@dataclasses.dataclass
class Heard:
    """Who listens in both frameworks, for readers to be made with."""

    handler: Any
    callbacks: Any
    folder: Path


class Telemetry:
    """OpenTelemetry's spans and metrics of this process."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._spans))
        trace.set_tracer_provider(provider)
        delta = AggregationTemporality.DELTA
        self._metrics = InMemoryMetricReader(
            preferred_temporality={Counter: delta, Histogram: delta}
        )
        metrics.set_meter_provider(MeterProvider([self._metrics]))
        _instrument()

    def show(self, probe: Comparison) -> None:
        """Show a probe what was recorded since the last time."""
        for span in self._spans.get_finished_spans():
            told = [dict(span.attributes or {}), [dict(e.attributes or {}) for e in span.events]]
            probe.see(f"span {span.name}", json.dumps(told, sort_keys=True, default=str))
        self._spans.clear()
        data = self._metrics.get_metrics_data()
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        told = [
                            sorted((point.attributes or {}).items()),
                            getattr(point, "count", 0),
                        ]
                        probe.see(f"metric {metric.name}", repr(told))


def _instrument() -> None:
    from openinference.instrumentation import langchain, llama_index
    from openinference.instrumentation import openai as openinference_openai
    from opentelemetry.instrumentation import httpx
    from opentelemetry.instrumentation import langchain as traceloop_langchain
    from opentelemetry.instrumentation import openai as traceloop_openai

    httpx.HTTPXClientInstrumentor().instrument()
    traceloop_openai.OpenAIInstrumentor().instrument()
    openinference_openai.OpenAIInstrumentor().instrument()
    traceloop_langchain.LangchainInstrumentor().instrument()
    langchain.LangChainInstrumentor().instrument()
    llama_index.LlamaIndexInstrumentor().instrument()


def _messages(prompt: str) -> Any:
    return [{"role": "user", "content": prompt}]


def _traced(url: str) -> Callable[[str], Any]:
    client = wrap_openai(OpenAI(base_url=url, api_key="none", max_retries=0))

    def ask(prompt: str) -> Any:
        with trace.get_tracer("own").start_as_current_span("ask", attributes={"prompt": prompt}):
            found = client.chat.completions.create(model="tiny", messages=_messages(prompt))
            return found.choices[0].message.content

    return ask


def _answer(llm: PrivateContextLLM, texts: list[str]) -> Callable[[], object]:
    documents = [Document(text, f"u{number}") for number, text in enumerate(texts)]
    return lambda: llm.answer(QUESTION, documents)


class Told:
    """Runs readers where everything listens, and keeps what was told."""

    def __init__(self, folder: Path, runs: LangSmithEndpoint, telemetry: Telemetry) -> None:
        self._folder, self._runs, self._telemetry = folder, runs, telemetry

    def of(self, name: str, said: str = "", seed: int = 0) -> tuple[Comparison, int]:
        """What is told of an answer, and how many documents the model was sent.

        Args:
            name: Of a reader.
            said: What the model says of the unit that is there too, if it says anything.
            seed: Of the answer's coins.
        """
        with FakeChat(partial(_said, said)) as chat, self._heard() as (probe, heard_by):
            texts = [*TEXTS, CANARY] if said else TEXTS
            ask = READERS[name](partial(_llm, seed), heard_by, chat.url, texts)
            self._tell(probe)
            probe.told.clear()  # an index is made where all may listen
            with probe.listening():
                answer = ask()
            self._tell(probe)
        probe.see("output", answer)
        return probe, sum("Document:" in prompt for prompt in chat.prompts)

    def aloud(self) -> Comparison:
        """What is told where clients are used outside of readers."""
        given = {"model": "tiny", "api_key": "none"}
        with FakeChat() as chat, self._heard() as (probe, heard_by):
            chat_model = ChatOpenAI(base_url=chat.url, callbacks=[heard_by.handler], **given)
            with probe.listening():
                chat_model.invoke(CANARY)
                OpenAILike(api_base=chat.url, is_chat_model=True, **given).complete(CANARY)
                _traced(chat.url)(CANARY)
            self._tell(probe)
        return probe

    @contextmanager
    def _heard(self) -> Iterator[tuple[Comparison, Heard]]:
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        store = folder / "store"
        store.mkdir(mode=0o700)
        probe = Comparison(folder)
        with instrumented(probe.see) as callbacks, heard(probe):
            everywhere = type("Everywhere", (Callbacks,), {})(probe.see)
            with mock.patch("llama_index.core.global_handler", everywhere):
                Settings.callback_manager = CallbackManager([callbacks])
                yield probe, Heard(recording_handler(probe), callbacks, store)

    def _tell(self, probe: Comparison) -> None:
        """Show the probe what tracers have sent since the last time."""
        wait_for_all_tracers()
        get_cached_client().flush()
        for run in list(self._runs.runs.values()):
            probe.see("LangSmith run", json.dumps([run.get(name) for name in _RUN]))
        self._runs.runs.clear()
        self._telemetry.show(probe)


def _llm(seed: int, reader: Any) -> PrivateContextLLM:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        coins = SeededRandomness(seed)
    return PrivateContextLLM(reader=reader, epsilon=8.0, agreement="only", randomness=coins)


def _said(of_canary: str, prompt: str) -> str:
    return of_canary if CANARY in prompt else SAID


def same_answer(said: str) -> int:
    """A seed under which a corpus with one unit more has the answer of the other one."""

    def answer(seed: int, *more: str) -> object:
        reader = ScriptedReader(partial(_said, said))
        return _answer(_llm(seed, reader), [*TEXTS, *more])()

    expected = answer(0)
    return next(seed for seed in range(1000) if answer(seed, CANARY) == expected)


def compared(told: Told, name: str, base: Comparison, few: int, said: str, seed: int) -> Any:
    """What differs in a neighbour, and where the secret shows."""
    other, more = told.of(name, said, seed)
    differ = [place for place in differences(base, other) if place not in _BATCHES]
    return {"differ": differ, "show": shows(other), "calls": [few, more]}


def shows(probe: Comparison) -> list[str]:
    """Places that the secret came to."""
    return sorted(
        place for place, told in probe.told.items() if any(SECRET in text for text in told)
    )


def main() -> None:
    """Print what is told aloud, by every reader, and by one for each planted fault."""
    gc.freeze()  # else each comparison walks all that imports made
    seeds = {said: same_answer(said) for said in NEIGHBOURS.values()}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        runs = stack.enter_context(LangSmithEndpoint())
        os.environ.update(runs.environment)
        told = Told(folder, runs, Telemetry())
        aloud = told.aloud()
        found: dict[str, Any] = {"aloud": {"told": sorted(aloud.told), "show": shows(aloud)}}
        for name in READERS:
            told.of(name)  # what is told only once
            base, few = told.of(name)
            found[name] = {
                kind: compared(told, name, base, few, said, seeds[said])
                for kind, said in NEIGHBOURS.items()
            }
            found[name]["told"] = sorted(base.told)
            found[name]["output"] = str(list(base.told["output"]))
        for fault, (name, patches) in FAULTS.items():
            with ExitStack() as planted:
                for place, value in patches.items():
                    planted.enter_context(mock.patch(place, value))
                base, few = told.of(name)
                said = NEIGHBOURS["says nothing"]
                found[fault] = compared(told, name, base, few, said, seeds[said])
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
