"""Every adapter of both frameworks in every mode, as parameters.

Doors are asked in all the ways that they share. What one framework alone has is in its own table.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import aclosing, closing, contextmanager
from functools import partial
from typing import Any

import pytest
from langchain_core.load import Serializable, dumpd
from llama_index.core.callbacks import CallbackManager

from langchain_dpicl_rag.vector_stores import private_retriever as of_store
from llama_index_dpicl_rag.vector_indexes import private_retriever as of_index
from tests.integrations.doors import DOORS, QUESTION, Door, Listeners
from tests.integrations.langchain import recorders
from tests.integrations.langchain.drives import DRIVES as LANGCHAIN
from tests.integrations.langchain.support import chroma_store, make_llm
from tests.integrations.leak_probe import TOKENS, Drive, Stage
from tests.integrations.llama_index.drives import DRIVES as LLAMA_INDEX
from tests.integrations.llama_index.support import chroma_index, instrumented, nodes_of


def _documents(name: str, stage: Stage) -> Any:
    """What a door is given: a search of a real store, where it searches."""
    if name == "LangChain chain":
        store = chroma_store(stage.folder, stage.documents)
        return of_store(store, unit_field="patient", threshold=-1)
    if name == "LlamaIndex engine":
        return of_index(chroma_index(stage.folder, nodes_of(stage.documents)), threshold=-1)
    return stage.documents


@contextmanager
def _opened(name: str, stage: Stage) -> Iterator[Door]:
    """A door while everything listens that either framework offers."""
    probe = stage.probe
    handlers = recorders.recording_handler(probe), recorders.async_recording_handler(probe)
    documents = _documents(name, stage)
    with recorders.observed(probe), instrumented(probe.see) as callbacks:
        llm = make_llm(stage.model, max_tokens=TOKENS, randomness=stage.randomness)
        listeners = Listeners(handlers, CallbackManager([callbacks]))
        door = DOORS[name](llm, documents, listeners)
        for kind, one in door.held.items():
            stage.object(kind, one)
            for dump in ("model_dump", "to_dict", "to_payload"):
                if hasattr(one, dump):
                    probe.see(f"{dump} of {kind}", getattr(one, dump)())
            if isinstance(one, Serializable):
                probe.see(f"dump of {kind}", dumpd(one))
        yield door


def _answers(found: list[Any]) -> list[Any]:
    for one in found:
        if isinstance(one, Exception):
            raise one
    return found


def _asked(name: str, stage: Stage) -> Any:
    with _opened(name, stage) as door:
        with closing(door.stream()) as stream:
            first = [next(stream, None), next(stream, None)]
        return [*first, repr(stream), door.ask(), *door.stream()]


def _batched(name: str, stage: Stage) -> Any:
    with _opened(name, stage) as door:
        return _answers(door.at_once(3))


async def _awaited(name: str, stage: Stage) -> Any:
    with _opened(name, stage) as door:
        async with aclosing(await door.astream()) as stream:
            first = [await anext(stream, None), await anext(stream, None)]
        pieces = [piece async for piece in await door.astream()]
        return [*first, repr(stream), *pieces, _answers(await door.aat_once(2))]


MODES = {"": _asked, ", at once": _batched, ", async": _awaited}
"""Threads are LangChain's: LlamaIndex's manager traces calls of several in the order of chance."""
TABLES = {
    "": [
        Drive(f"{name}{mode}", partial(drive, name))
        for name in DOORS
        for mode, drive in MODES.items()
        if mode != ", at once" or name.startswith("LangChain")
    ],
    "LangChain ": LANGCHAIN,
    "LlamaIndex ": LLAMA_INDEX,
}
DRIVES = [
    pytest.param(drive, id=f"{framework}{drive.name}")
    for framework, drives in TABLES.items()
    for drive in drives
]


async def watched(drive: Drive, stage: Stage) -> None:
    """Run a drive while its probe listens, and show the probe what it returns."""
    assert stage.question == QUESTION
    with stage.probe.listening():
        output: Any = drive.run(stage)
        if inspect.isawaitable(output):
            output = await output
        stage.probe.see("output", output)
