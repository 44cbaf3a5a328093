"""Tools that agents call over MCP: questions, numbers and budgets of corpora.

They are the endpoints of the server again: the same service answers, the same admission lets
in, and the same sentences refuse.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mcp.types import CallToolResult, TextContent, Tool, ToolAnnotations

from dpicl_rag.requests import Kind
from dpicl_rag.server import served_request
from dpicl_rag.server.admission import Admission
from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.failures import Refusal, refusal
from dpicl_rag.server.request_log import Exchange
from dpicl_rag.server.served_request import ServedRequest
from dpicl_rag.server.service import Service
from dpicl_rag.server.tool_schemas import (
    ARGUMENTS,
    AnswerResult,
    Arguments,
    BudgetResult,
    CountResult,
    SurveyResult,
    TallyResult,
    ToolResult,
)

INSTRUCTIONS = (
    "Private documents, asked under differential privacy. An answer or a number spends a budget "
    "that does not come back: ask what many documents state, or how many, in one whole question, "
    "and see `budget` before a series. The same question again is free. No tool shows a document."
)

_SPENDS = ToolAnnotations(
    readOnlyHint=False,  # a budget is smaller afterwards,
    destructiveHint=True,  # and what is spent does not come back
    idempotentHint=False,  # nor does memory have every answer
    openWorldHint=False,
)
_LOOKS = ToolAnnotations(
    readOnlyHint=True, destructiveHint=False, idempotentHint=True, openWorldHint=False
)

Tell = Callable[[float], Awaitable[None]]
"""Takes the part of the documents that is read, in tenths."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call on its way."""

    caller: Caller
    exchange: Exchange
    tell: Tell


class Tools:
    """Tools as they are listed and called."""

    def __init__(self, service: Service, admission: Admission) -> None:
        self._service = service
        self._admission = admission

    def listed(self, caller: Caller) -> list[Tool]:
        """Tools for a caller: none where no corpus may be asked."""
        corpora = self._service.open_to(caller)
        return [kind.described(corpora) for kind in _KINDS.values()] if corpora else []

    async def called(
        self, call: ToolCall, name: str, given: dict[str, Any] | None
    ) -> CallToolResult:
        """The result of a call. What goes wrong is a result too: one sentence."""
        try:
            if name not in _KINDS:
                raise Refusal(404, f"there is no such tool; there are {', '.join(_KINDS)}")
            kind = _KINDS[name]
            arguments = kind.arguments.of(given)
            corpora = self._service.open_to(call.caller)
            if not arguments.corpus and len(corpora) == 1:
                arguments.corpus = corpora[0]
            if not arguments.corpus:
                raise Refusal(
                    400, "corpus: name one of those in this tool's schema", param="corpus"
                )
            if arguments.corpus not in corpora:
                raise Refusal(
                    404,
                    "there is no such corpus here; the schema of this tool lists those you may ask",
                    param="corpus",
                )
            call.exchange.corpus = arguments.corpus
            call.exchange.question = getattr(arguments, "question", None) or ""
            found = await kind.run(self, call, arguments)
            result = kind.result.model_validate(found)
        except Exception as error:
            refused = refusal(error)
            call.exchange.refused = refused.status
            return CallToolResult(
                isError=True, content=[TextContent(type="text", text=refused.message)]
            )
        # In both forms, as the protocol asks for: many clients read text alone.
        return CallToolResult(
            content=[TextContent(type="text", text=result.model_dump_json())],
            structuredContent=result.model_dump(mode="json"),
        )

    def _served(self, kind: Kind | None, call: ToolCall, given: Arguments) -> ServedRequest:
        request, exchange = given.request(kind), call.exchange
        return ServedRequest(
            self._service, self._admission, given.corpus, call.caller, request, exchange
        )

    async def _ask(self, call: ToolCall, given: Arguments) -> dict[str, Any]:
        answering = self._served(None, call, given)
        async with answering.begun():
            async for piece in answering.news():
                if isinstance(piece, float):
                    await call.tell(piece)
            answer = await answering.ended()
        return {"text": answer.text, **served_request.privacy(answer)}

    async def _count(self, kind: Kind, call: ToolCall, given: Arguments) -> dict[str, Any]:
        return (await self._served(kind, call, given).counted()).as_dict()

    async def _budget(self, call: ToolCall, given: Arguments) -> dict[str, Any]:
        return await asyncio.to_thread(self._service.budget, given.corpus, call.caller)


@dataclass(frozen=True, slots=True)
class _Kind:
    """A tool."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    result: type[ToolResult]
    annotations: ToolAnnotations
    run: Callable[..., Awaitable[dict[str, Any]]]

    def described(self, corpora: list[str]) -> Tool:
        """As clients list it."""
        return Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            inputSchema=self.arguments.schema_for(corpora),
            outputSchema=self.result.model_json_schema(),
            annotations=self.annotations,
        )


_KINDS = {
    kind.name: kind
    for kind in (
        _Kind(
            "ask",
            "Ask private documents",
            "Answers any question: with a fact that many private documents state, how many say "
            "something, which of several, or what they are about; it is seen in the question. "
            "Spends budget.",
            ARGUMENTS["answer"],
            AnswerResult,
            _SPENDS,
            Tools._ask,
        ),
        _Kind(
            "count",
            "Count private documents",
            "Counts how many private documents say yes to a question that each answers with yes "
            "or no, with an interval. Spends budget. Not for facts: ask.",
            ARGUMENTS["count"],
            CountResult,
            _SPENDS,
            lambda tools, *given: tools._count("count", *given),
        ),
        _Kind(
            "tally",
            "Tally labels of private documents",
            "Counts how many private documents say each of several given labels to a question, "
            "with intervals. Spends budget. Not for facts: ask.",
            ARGUMENTS["tally"],
            TallyResult,
            _SPENDS,
            lambda tools, *given: tools._count("tally", *given),
        ),
        _Kind(
            "survey",
            "Survey private documents",
            "Tells what private documents are about: themes, and how many documents are of each. "
            "With a question, what they say to it. Spends budget. Not for facts: ask.",
            ARGUMENTS["survey"],
            SurveyResult,
            _SPENDS,
            lambda tools, *given: tools._count("survey", *given),
        ),
        _Kind(
            "budget",
            "Look at the budget",
            "Tells what an answer costs and how many answers the budget still pays for. Free.",
            Arguments,
            BudgetResult,
            _LOOKS,
            Tools._budget,
        ),
    )
}
