"""Counts, tallies and surveys as tools of LlamaIndex."""

from __future__ import annotations

from llama_index.core.tools import FunctionTool

from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.retrieval.retrievers import Documents
from dpicl_rag.surveys import agent_tools


def counting_tools(llm: PrivateContextLLM, documents: Documents) -> list[FunctionTool]:
    """Tools for agents that count private documents: ``count``, ``tally`` and ``survey``.

    Give them to a public model beside ``llm.as_query_engine(index).as_tool()``, which answers one
    fact. A tool says to the agent when the budget is used up.

    Args:
        llm: Counts, and pays from its ledger.
        documents: A corpus, a Chroma collection, or a list of documents.
    """
    return [
        FunctionTool.from_defaults(
            fn=tool.call, async_fn=tool.acall, name=tool.name, description=tool.description
        )
        for tool in agent_tools.counting_tools(llm, documents)
    ]
