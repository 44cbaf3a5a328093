"""Counts, tallies and surveys as functions that an agent may call.

An agent chooses by a function's description: a fact is asked, a number is counted. The frameworks
wrap these functions as their tools.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec

from dpicl_rag.errors import DPICLError
from dpicl_rag.retrieval.retrievers import Documents
from dpicl_rag.surveys.counts_units import CountsUnits

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A function for agents.

    Attributes:
        name: For the agent. Public.
        description: For the agent. Public.
        call: Returns text.
        acall: Its async twin.
    """

    name: str
    description: str
    call: Callable[..., str]
    acall: Callable[..., Awaitable[str]]


def counting_tools(llm: CountsUnits, documents: Documents) -> list[AgentTool]:
    """Functions that count private documents.

    Each returns the text of a result. An error of this library is said in its place: what is wrong
    with a call, a budget that is used up, an engine that does not answer.

    Args:
        llm: Counts, and pays from its ledger.
        documents: As in `PrivateContextLLM.count`; a survey needs a corpus, a collection or a list.
    """

    def count(question: str) -> str:
        return llm.count(question, documents).text

    async def acount(question: str) -> str:
        return (await llm.acount(question, documents)).text

    def tally(question: str, labels: list[str]) -> str:
        return llm.tally(question, labels, documents).text

    async def atally(question: str, labels: list[str]) -> str:
        return (await llm.atally(question, labels, documents)).text

    def survey(question: str | None = None) -> str:
        return llm.survey(question, documents).text

    async def asurvey(question: str | None = None) -> str:
        return (await llm.asurvey(question, documents)).text

    return [
        AgentTool(
            "count_private_documents",
            "Counts how many private documents say yes to a question that each answers with yes or "
            "no, with an interval. Not for facts.",
            _told(count),
            _told_later(acount),
        ),
        AgentTool(
            "tally_private_documents",
            "Counts how many private documents say each of several given labels to a question, "
            "with intervals. Not for facts.",
            _told(tally),
            _told_later(atally),
        ),
        AgentTool(
            "survey_private_documents",
            "Tells what private documents are about: themes, and how many documents are of each. "
            "With a question, what they say to it. Not for facts.",
            _told(survey),
            _told_later(asurvey),
        ),
    ]


def _told(function: Callable[P, str]) -> Callable[P, str]:
    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> str:
        try:
            return function(*args, **kwargs)
        except DPICLError as error:
            return str(error)

    return call


def _told_later(function: Callable[P, Awaitable[str]]) -> Callable[P, Awaitable[str]]:
    @wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> str:
        try:
            return await function(*args, **kwargs)
        except DPICLError as error:
            return str(error)

    return call
