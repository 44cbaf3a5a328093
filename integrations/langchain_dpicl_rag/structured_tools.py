"""Counts, tallies and surveys as tools of LangChain."""

from __future__ import annotations

from langchain_core.tools import BaseTool, StructuredTool

from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.retrieval.retrievers import Documents
from dpicl_rag.surveys import agent_tools


def counting_tools(llm: PrivateContextLLM, documents: Documents) -> list[BaseTool]:
    """Tools for agents that count private documents: ``count``, ``tally`` and ``survey``.

    Give them to a public model beside ``PrivateRetrievalChain(...).as_tool()``, which answers one
    fact: ``create_agent(model, tools=[chain.as_tool(), *counting_tools(llm, corpus)])``. A tool
    says to the agent when the budget is used up.

    Args:
        llm: Counts, and pays from its ledger.
        documents: A corpus, a Chroma collection, or a list of documents.
    """
    return [
        StructuredTool.from_function(
            func=tool.call,
            coroutine=tool.acall,
            name=tool.name,
            description=tool.description,
        )
        for tool in agent_tools.counting_tools(llm, documents)
    ]
