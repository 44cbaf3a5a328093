"""A LlamaIndex response synthesizer, for engines that retrieve by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llama_index.core.base.response.schema import RESPONSE_TYPE
from llama_index.core.callbacks import CallbackManager
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.instrumentation.events.synthesis import (
    SynthesizeEndEvent,
    SynthesizeStartEvent,
)
from llama_index.core.prompts.mixin import PromptDictType
from llama_index.core.response_synthesizers import BaseSynthesizer
from llama_index.core.schema import NodeWithScore, QueryType
from llama_index.core.types import RESPONSE_TEXT_TYPE
from llama_index_instrumentation import get_dispatcher

from dpicl_rag.accounting import Stability
from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.framework_bridge import PrivateCall, split_fields
from dpicl_rag.loaders.framework_documents import as_library_documents
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.retrieval import GivenDocuments, stability_of_list
from llama_index_dpicl_rag.llm import PrivateLLM, llm_from, refuse_arguments
from llama_index_dpicl_rag.recorder import Unrecorded, arespond, respond, words
from llama_index_dpicl_rag.refused_options import options_of, refuse_options, refuse_prompts

_dispatcher = get_dispatcher(__name__)


class PrivateSynthesizer(Unrecorded, BaseSynthesizer):
    """Takes the place of the response synthesizer in a ``RetrieverQueryEngine``.

    The synthesizer records nothing private, returns no source nodes, and answers zero nodes like
    any other. **The engine around it still exposes the documents**: its retriever passes nodes
    with text and scores to span handlers, event handlers (``RetrievalEndEvent``), callbacks
    (``RETRIEVE``) and debug logs, ``engine.retrieve`` returns them, and node postprocessors see
    them. Its search is approximate in most stores, which no stability covers, so the guarantee is
    about the nodes that it hands over. Use ``PrivateQueryEngine``, which has none of this, unless
    an engine must retrieve by itself.

    Args:
        llm: The private language model: ``dpicl_rag.PrivateContextLLM``, or a ``PrivateLLM``.
        unit_field: Metadata field of the nodes that holds the privacy unit. ``"document_id"`` is
            the source document of a node, ``"document"`` makes each node a unit of its own.
        stability: How many of the retrieved units one unit's arrival adds and changes. Under
            ``unit_field="document"`` the default is that of the k nearest nodes, where one comes
            and one goes. By any other field a unit may have several nodes, and its arrival can
            displace as many others: say ``Stability(added=0, changed=k)``.
        **fields: These, ``streaming`` and ``callback_manager`` are as for ``PrivateQueryEngine``.

    Raises:
        ConfigurationError: The llm's ``privacy_unit`` is not ``unit_field``, or units may have
            several nodes and ``stability`` is not said.
    """

    def __init__(
        self,
        llm: PrivateContextLLM | PrivateLLM,
        *,
        unit_field: str,
        stability: Stability | None = None,
        streaming: bool = False,
        callback_manager: CallbackManager | None = None,
        **fields: Any,
    ) -> None:
        self._fields, unknown = split_fields(fields)
        refuse_options(unknown, options_of(PrivateSynthesizer))
        self._private_llm = llm_from(llm, unit_field)
        # Without one the base class would look for the global model.
        shown = llm if isinstance(llm, PrivateLLM) else PrivateLLM(llm)
        super().__init__(llm=shown, callback_manager=callback_manager, streaming=streaming)
        self._unit_field = unit_field
        self._stability = stability_of_list(stability, unit_field)

    def _get_prompts(self) -> PromptDictType:
        return {}

    _update_prompts = refuse_prompts

    def synthesize(
        self,
        query: QueryType,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
        **response_kwargs: Any,
    ) -> RESPONSE_TYPE:
        """Answer from nodes; ``additional_source_nodes`` are neither read nor returned.

        Raises:
            ConfigurationError: There are further arguments.
        """
        found = self._retrieved(nodes, response_kwargs)
        with self._recorded(query) as (question, end):
            return end(respond(self._call(question, found), streaming=self._streaming))

    async def asynthesize(
        self,
        query: QueryType,
        nodes: list[NodeWithScore],
        additional_source_nodes: Sequence[NodeWithScore] | None = None,
        **response_kwargs: Any,
    ) -> RESPONSE_TYPE:
        """``synthesize`` without blocking the event loop."""
        found = self._retrieved(nodes, response_kwargs)
        with self._recorded(query) as (question, end):
            return end(await arespond(self._call(question, found), streaming=self._streaming))

    def get_response(
        self,
        query_str: str,
        text_chunks: Sequence[str],
        *,
        units: Sequence[str] | None = None,
        **response_kwargs: Any,
    ) -> RESPONSE_TEXT_TYPE:
        """Answer from texts.

        Args:
            query_str: The question.
            text_chunks: Private texts.
            units: Privacy unit of each text. Without it all texts are one unit, so one expert
                reads them all: texts alone do not say which of them belong together.
            **response_kwargs: None are known.

        Raises:
            ConfigurationError: There is not one unit per text, or there are further arguments.
        """
        call = self._call(query_str, self._chunks(text_chunks, units, response_kwargs))
        return call.pieces(words(call, {})) if self._streaming else call.answer().text

    async def aget_response(
        self,
        query_str: str,
        text_chunks: Sequence[str],
        *,
        units: Sequence[str] | None = None,
        **response_kwargs: Any,
    ) -> RESPONSE_TEXT_TYPE:
        """``get_response`` without blocking the event loop."""
        call = self._call(query_str, self._chunks(text_chunks, units, response_kwargs))
        return call.apieces(words(call, {})) if self._streaming else (await call.aanswer()).text

    def _prepare_response_output(
        self, response_str: RESPONSE_TEXT_TYPE | None, source_nodes: list[NodeWithScore]
    ) -> RESPONSE_TYPE:
        return super()._prepare_response_output(response_str, [])

    @contextmanager
    def _recorded(
        self, query: QueryType
    ) -> Iterator[tuple[str, Callable[[RESPONSE_TYPE], RESPONSE_TYPE]]]:
        """Give handlers the question now and the response when it is handed in."""
        question = query if isinstance(query, str) else query.query_str
        _dispatcher.event(SynthesizeStartEvent(query=query))
        with self._callback_manager.event(
            CBEventType.SYNTHESIZE, payload={EventPayload.QUERY_STR: question}
        ) as event:

            def end(response: RESPONSE_TYPE) -> RESPONSE_TYPE:
                event.on_end(payload={EventPayload.RESPONSE: response})
                _dispatcher.event(SynthesizeEndEvent(query=query, response=response))
                return response

            yield question, end

    def _call(self, question: str, found: GivenDocuments) -> PrivateCall:
        return PrivateCall(self._private_llm, question, found, self._fields)

    def _retrieved(self, nodes: Sequence[NodeWithScore], unknown: dict[str, Any]) -> GivenDocuments:
        refuse_arguments(unknown)
        return GivenDocuments(list(as_library_documents(nodes, self._unit_field)), self._stability)

    def _chunks(
        self, texts: Sequence[str], units: Sequence[str] | None, unknown: dict[str, Any]
    ) -> GivenDocuments:
        refuse_arguments(unknown)
        units = ["all"] * len(texts) if units is None else units
        if len(units) != len(texts):
            raise ConfigurationError("units needs one unit per text")
        documents = [Document(text, unit) for text, unit in zip(texts, units, strict=True)]
        return GivenDocuments(documents, self._stability)
