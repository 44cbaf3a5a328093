"""What the LlamaIndex tests share: an embedding model, indexes, and handlers that see all."""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.vector_stores.chroma import ChromaVectorStore
from llama_index_instrumentation import root_dispatcher
from llama_index_instrumentation.event_handlers import BaseEventHandler
from llama_index_instrumentation.span import SimpleSpan
from llama_index_instrumentation.span_handlers import BaseSpanHandler
from pydantic import PrivateAttr

from dpicl_rag.mechanisms.randomness import NotPrivateWarning
from dpicl_rag.private_context_llm import PrivateContextLLM
from tests.support.around import Around

QUESTION = "Where is the office?"
TEXTS = [f"The office is in {street} Street." for street in ("Elm", "Oak", "Ash", "Yew")]

# With these a token costs exactly (strength * clip)^2 / 8 = 1/8 of rho, twice squared under top-k,
# and nothing is paid beside tokens.
FIXED = {
    "accounting": "fixed",
    "utility": "log_prob",
    "clip": 4.0,
    "strength": 0.25,
    "unsupported": "ignore",
}
TOKEN_RHO = 0.125

See = Callable[[str, Any], None]


class Reader(Around):
    """A language model that remembers which documents it has read.

    Args:
        model: The model that does the work.
    """

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.rows: list[str] = []

    @property
    def documents(self) -> list[str]:
        """What the experts have read, sorted. The public row comes first, and is left out."""
        return sorted(self.rows[1:])

    def read(self, prefix: Any, inputs: Any, **options: Any) -> Any:
        # The bare model is read by itself, and later.
        if len(inputs) > 1 or not self.rows:
            self.rows = [self._model.tokenizer.decode(list(one)) for one in inputs]
        return self._model.read(prefix, inputs, **options)


class HashEmbedding(BaseEmbedding):
    """Vectors that depend on nothing but the text."""

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        return np.random.default_rng(seed).normal(size=16).tolist()


def private_llm(model: Any, **settings: Any) -> PrivateContextLLM:
    """A private language model that shows its answers as they are drawn; seeds do not warn here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        return PrivateContextLLM(model, **{"max_tokens": 6, "unsupported": "mark", **settings})


def nodes_of(texts: Sequence[str], fields: Sequence[dict[str, Any]] = ()) -> list[TextNode]:
    """Nodes, each from a source document of its own, without going through a node parser."""
    return [
        TextNode(
            id_=f"node-{number}",
            text=text,
            metadata=dict(fields[number]) if fields else {},
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"source-{number}")},
        )
        for number, text in enumerate(texts)
    ]


def chroma_index(folder: Path, nodes: Sequence[TextNode], embed_model: Any = None) -> Any:
    """A ``VectorStoreIndex`` on a real Chroma collection; making it logs nothing."""
    with _silent():
        client = chromadb.PersistentClient(str(folder))
        collection = client.get_or_create_collection("notes")
        storage = StorageContext.from_defaults(
            vector_store=ChromaVectorStore(chroma_collection=collection)
        )
        return VectorStoreIndex(
            nodes=list(nodes), storage_context=storage, embed_model=embed_model or HashEmbedding()
        )


def simple_index(nodes: Sequence[TextNode]) -> VectorStoreIndex:
    """A ``VectorStoreIndex`` in memory."""
    with _silent():
        return VectorStoreIndex(nodes=list(nodes), embed_model=HashEmbedding())


@contextmanager
def instrumented(see: See) -> Iterator[Callbacks]:
    """Show everything that LlamaIndex tells its observers.

    Args:
        see: Called with the name of the place and what was told there.

    Returns:
        A handler for LlamaIndex's older callbacks.
    """
    events, spans = Events(), Spans()
    events._see, spans._see = see, see
    root_dispatcher.add_event_handler(events)
    root_dispatcher.add_span_handler(spans)
    try:
        yield Callbacks(see)
    finally:
        root_dispatcher.event_handlers = [
            handler for handler in root_dispatcher.event_handlers if handler is not events
        ]
        root_dispatcher.span_handlers = [
            handler for handler in root_dispatcher.span_handlers if handler is not spans
        ]


class Events(BaseEventHandler):
    """Shows every event."""

    _see: See = PrivateAttr()

    def handle(self, event: Any, **kwargs: Any) -> None:
        self._see(f"event {type(event).__name__}", [event, kwargs])


class Spans(BaseSpanHandler[SimpleSpan]):
    """Shows the arguments, the object and the result or error of every span."""

    _see: See = PrivateAttr()

    def new_span(self, id_: str, bound_args: Any, instance: Any = None, **kwargs: Any) -> Any:
        self._see(f"span {id_.split('-')[0]}", [dict(bound_args.arguments), repr(instance)])
        return SimpleSpan(id_=id_)

    def prepare_to_exit_span(
        self, id_: str, bound_args: Any, instance: Any = None, result: Any = None, **kwargs: Any
    ) -> Any:
        self._see(f"end of span {id_.split('-')[0]}", [dict(bound_args.arguments), result])
        return self.open_spans[id_]

    def prepare_to_drop_span(
        self, id_: str, bound_args: Any, instance: Any = None, err: Any = None, **kwargs: Any
    ) -> Any:
        self._see(f"error in span {id_.split('-')[0]}", [dict(bound_args.arguments), repr(err)])
        return self.open_spans[id_]


class Callbacks(BaseCallbackHandler):
    """Shows every payload of the older callbacks."""

    def __init__(self, see: See) -> None:
        super().__init__([], [])
        self._see = see

    def on_event_start(
        self, event_type: Any, payload: Any = None, event_id: str = "", **kwargs: Any
    ) -> str:
        self._see(f"callback {event_type.value}", payload)
        return event_id

    def on_event_end(
        self, event_type: Any, payload: Any = None, event_id: str = "", **kwargs: Any
    ) -> None:
        self._see(f"end of callback {event_type.value}", payload)

    def start_trace(self, trace_id: str | None = None) -> None:
        self._see("trace", trace_id)

    def end_trace(self, trace_id: str | None = None, trace_map: Any = None) -> None:
        self._see("end of trace", [trace_id, trace_map])


@contextmanager
def _silent() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
