"""A LlamaIndex query engine that owns retrieval."""

from __future__ import annotations

from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.response.schema import RESPONSE_TYPE
from llama_index.core.callbacks import CallbackManager
from llama_index.core.prompts.mixin import PromptMixinType
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import QueryEngineTool, ToolMetadata, ToolOutput

from dpicl_rag.errors import DPICLError
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.retrieval import Retriever
from dpicl_rag.retrieval.vectors import VectorSource, Where
from llama_index_dpicl_rag.index_retriever import private_retriever
from llama_index_dpicl_rag.llm import PrivateLLM, llm_from
from llama_index_dpicl_rag.refused_options import refuse_options
from llama_index_dpicl_rag.responses import arespond, respond

OPTIONS = (
    *("unit_field", "threshold", "top_k", "where", "reader", "streaming", "fresh"),
    "callback_manager",
)


class PrivateQueryEngine(BaseQueryEngine):
    """Answers queries about private documents; nodes never cross a LlamaIndex edge.

    Retrieval scans the vectors exactly, inside the guarantee. Responses have no source nodes, and
    an index without a match is asked like any other, so the answer does not tell. Give agents
    ``as_tool()``, or call it in a Workflow step. ``retrieve`` raises NotImplementedError.

    An answer that the documents do not support is replaced by a fixed sentence, as people print a
    response and its text does not say it; ``unsupported="mark"`` in the llm's settings keeps the
    answer, and streams as it is drawn. ``response.metadata`` says ``supported`` in any case.

    The question is public: what LlamaIndex embeds and records of it is its text. Only
    ``query_str`` of a ``QueryBundle`` is used.

    Args:
        llm: The private language model: ``dpicl_rag.PrivateContextLLM``, or a ``PrivateLLM``.
        retriever: Any retriever of ``dpicl_rag.retrieval``, a ``dpicl_rag.Corpus``, or a
            ``VectorStoreIndex`` on a ``ChromaVectorStore`` or a ``SimpleVectorStore``. Over a
            corpus or an index about as many of the closest units are read as the llm's setting
            ``units`` says, by a private search that the answer's epsilon pays for. LlamaIndex's own
            retrievers are refused: their search is approximate, or cut to the nearest nodes.
        unit_field: For an index: metadata field of the nodes that holds the privacy unit; by
            default the source document of the node (nodes without one are a single unit).
            ``"document"`` makes each node a unit of its own; only right where no document was cut
            into several nodes.
        threshold: In place of that search: least cosine of a unit's best node with the question.
        top_k: In place of that search: the nearest units. Costs twice as much, and individual
            accounting does not apply.
        where: On Chroma: filter on metadata, for example ``{"owner": "ann"}``.
        reader: A chat model that reads each unit in the llm's place, such as ``OpenAI(...)``; see
            ``PrivateContextLLM``.
        streaming: Respond with ``StreamingResponse``, or ``AsyncStreamingResponse`` to ``aquery``.
            The answer begins, and budgets are asked, with the first piece.
        fresh: Ask the documents again where the memory has the answer to the same question.
        callback_manager: LlamaIndex's callbacks.
        **unknown: Refused; the message names what stands in the place of LlamaIndex's options.

    Raises:
        ConfigurationError: The retriever is refused, or an option does not go with it, or the
            llm's ``privacy_unit`` is not ``unit_field``.
    """

    def __init__(
        self,
        llm: PrivateContextLLM | PrivateLLM,
        retriever: Retriever | VectorSource | VectorStoreIndex,
        *,
        unit_field: str | None = None,
        threshold: float | None = None,
        top_k: int | None = None,
        where: Where | None = None,
        reader: Any = None,
        streaming: bool = False,
        fresh: bool = False,
        callback_manager: CallbackManager | None = None,
        **unknown: Any,
    ) -> None:
        refuse_options(unknown, OPTIONS)
        super().__init__(callback_manager)
        self._llm = llm_from(llm, unit_field).with_settings(reader=reader)
        self._streaming, self._fresh = streaming, fresh
        self._retriever = private_retriever(
            retriever,
            unit_field=unit_field,
            threshold=threshold,
            top_k=top_k,
            where=where,
            units=self._llm.config.units,
        )

    def as_tool(
        self, *, name: str = "ask_private_documents", description: str | None = None
    ) -> QueryEngineTool:
        """A tool for agents. An error of this library is said to the agent in place of an answer.

        Args:
            name: Name of the tool.
            description: For the agent. Public.
        """
        said = description or "Answers one self-contained question from private documents."
        return _PrivateTool(self, ToolMetadata(name=name, description=said))

    @property
    def llm(self) -> PrivateContextLLM:
        """The private language model, as this engine asks it."""
        return self._llm

    def _get_prompt_modules(self) -> PromptMixinType:
        return {}

    def _query(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        question = query_bundle.query_str
        return respond(
            self._llm, question, self._retriever, streaming=self._streaming, fresh=self._fresh
        )

    async def _aquery(self, query_bundle: QueryBundle) -> RESPONSE_TYPE:
        question = query_bundle.query_str
        return await arespond(
            self._llm, question, self._retriever, streaming=self._streaming, fresh=self._fresh
        )


class _PrivateTool(QueryEngineTool):
    """A query engine as a tool whose errors are sentences."""

    def call(self, *args: Any, **kwargs: Any) -> ToolOutput:
        try:
            return super().call(*args, **kwargs)
        except DPICLError as error:
            return self._told(error, *args, **kwargs)

    async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
        try:
            return await super().acall(*args, **kwargs)
        except DPICLError as error:
            return self._told(error, *args, **kwargs)

    def _told(self, error: DPICLError, *args: Any, **kwargs: Any) -> ToolOutput:
        return ToolOutput(
            content=str(error),
            tool_name=self.metadata.get_name(),
            raw_input={"input": self._get_query_str(*args, **kwargs)},
            raw_output=str(error),
            is_error=True,
        )
