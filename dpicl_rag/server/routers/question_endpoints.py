"""Questions to corpora: chat completions and responses of OpenAI's API, surveys, agents' tools."""

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict

from dpicl_rag.answering.labels import most_label_tokens
from dpicl_rag.answering.plan import Plan
from dpicl_rag.languages.elliptic_questions import filled_in
from dpicl_rag.languages.languages import language_of
from dpicl_rag.languages.small_talk import is_small_talk
from dpicl_rag.prompts import plain
from dpicl_rag.requests import Request as Asked
from dpicl_rag.results import PrivateAnswer, cost_of, within
from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.delivery import GONE, streamed, unless_gone, whole
from dpicl_rag.server.dependencies import Asking, ServerParts, Using
from dpicl_rag.server.failures import Refusal
from dpicl_rag.server.protocol import chat_reply, response_reply
from dpicl_rag.server.protocol.chat_reply import ChatRequest
from dpicl_rag.server.protocol.request_bodies import (
    LONGEST_QUESTION,
    PublicText,
    RemoteKind,
    remote_fields,
    with_fields,
)
from dpicl_rag.server.protocol.response_reply import ResponseRequest
from dpicl_rag.server.request_log import Exchange
from dpicl_rag.server.served_request import ServedRequest

router = APIRouter()

_Question = Annotated[str, Query(min_length=1, max_length=LONGEST_QUESTION)]

_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/json": {}, "text/event-stream": {}}}
}


@router.post("/v1/chat/completions", responses=_STREAMED)
async def completions(
    body: ChatRequest, request: Request, parts: Using, caller: Asking
) -> Response:
    """Ask a corpus."""
    events = partial(chat_reply.events, include_usage=body.include_usage)
    return await _answered(body, request, parts, caller, events, chat_reply.body)


@router.post("/v1/responses", responses=_STREAMED)
async def responses(
    body: ResponseRequest, request: Request, parts: Using, caller: Asking
) -> Response:
    """Ask a corpus."""
    return await _answered(body, request, parts, caller, response_reply.events, response_reply.body)


async def _answered(
    body: ChatRequest | ResponseRequest,
    request: Request,
    parts: ServerParts,
    caller: Caller,
    events: Callable[[ServedRequest], AsyncIterator[str]],
    whole_body: Callable[[ServedRequest, PrivateAnswer], dict[str, Any]],
) -> Response:
    exchange = request.state.exchange = Exchange(caller=caller.name)
    ignored, asked = body.ignored(), body.asked()
    parts.service.corpus(body.model, caller)
    exchange.corpus, exchange.question = body.model, asked.asked()
    answering = ServedRequest(parts.service, parts.admission, body.model, caller, asked, exchange)
    headers = {"X-DPICL-Ignored": ", ".join(ignored)} if ignored else {}
    if body.stream:
        return await streamed(answering, request, headers, events(answering))
    return await whole(answering, request, headers, whole_body)


class _Survey(BaseModel):
    """The body of ``/v1/surveys``. All of it is public."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: PublicText
    kind: Literal["count", "tally", "column", "survey", "summary"]


if TYPE_CHECKING:
    SurveyRequest = _Survey
else:
    SurveyRequest = with_fields(
        "SurveyRequest",
        _Survey,
        "question",
        *remote_fields("count", "tally", "column", "survey", "summary"),
    )


@router.post("/v1/surveys")
async def surveys(body: SurveyRequest, request: Request, parts: Using, caller: Asking) -> Response:
    """Count the units of a corpus that say yes, or each label; or survey what they are about."""
    exchange = request.state.exchange = Exchange(caller=caller.name)
    parts.service.corpus(body.model, caller)
    given = body.model_dump(exclude={"model", "kind"})
    exchange.corpus, exchange.question = body.model, given["question"] or ""
    asked = Asked.of(body.kind, **given)
    counting = ServedRequest(parts.service, parts.admission, body.model, caller, asked, exchange)
    found = await unless_gone(request, counting.counted())
    if found is None:
        return Response(status_code=GONE)
    return JSONResponse({"model": body.model, "kind": body.kind, **found.as_dict()})


@router.get("/v1/surveys")
async def plan(model: PublicText, parts: Using, caller: Asking) -> dict[str, Any]:
    """How small a theme can be seen, how wide intervals will be, how long labels may be; free."""
    parts.service.counted_corpus(model, caller)
    survey = parts.service.plan(model, Asked.of("survey"))
    count = parts.service.plan(model, Asked.of("count"))
    return {
        "smallest": survey.mechanism.smallest(),
        "label_tokens": most_label_tokens(),
        "within": within(count.mechanism.noise),
        **cost_of(survey),
    }


@router.get("/v1/plan")
def plan_of_question(
    model: PublicText,
    question: _Question,
    parts: Using,
    caller: Asking,
    kind: RemoteKind | None = None,
    labels: Annotated[list[PublicText] | None, Query(max_length=256)] = None,
    column: PublicText | None = None,
    before: _Question | None = None,
) -> dict[str, Any]:
    """What is done with a question, and what it costs at most; free, as nothing is searched.

    With ``before``, the whole question before it, a phrase is taken for what follows on that.
    """
    parts.service.counted_corpus(model, caller)
    whole = plain(question)
    if before is not None:
        whole = filled_in(whole, before, language_of(f"{before} {whole}")) or whole
    asked = Asked.of(kind, question=whole, labels=labels or (), column=column).settled()
    if asked.kind == "tally" and len(asked.labels) < 2:
        raise Refusal(400, "give at least two labels, none of them empty", param="labels")
    return {"model": model, **_plan_view(asked, parts.service.plan(model, asked))}


def _plan_view(request: Asked, plan: Plan[Any]) -> dict[str, Any]:
    """What is done with a request, and what it costs at most. Small talk is free."""
    kind, drawn = request.kind, plan.mechanism
    free = kind == "answer" and is_small_talk(request.asked())
    cost = {name: 0.0 if free else getattr(plan, name) for name in ("epsilon", "delta", "rho")}
    return {
        "kind": kind,
        "labels": request.labels,
        **cost,
        "steps": plan.steps,
        "units_to_agree": plan.units_to_agree,
        "within": within(drawn.noise) if kind in ("count", "tally", "column") else None,
        "smallest": drawn.smallest() if kind == "survey" else None,
        "notes": [] if free else plan.notes(),
    }


# The Model Context Protocol over streamable HTTP describes itself. No GET: the server has nothing
# to say between calls.
@router.api_route(
    "/mcp", methods=["POST", "DELETE"], response_class=Response, include_in_schema=False
)
async def tools(request: Request, parts: Using, caller: Asking) -> Response:
    """One message of a client, or the end of its session."""
    origin = request.headers.get("origin", "")
    # What a page on the web sends, also one under a name that leads here (DNS rebinding).
    if origin.startswith(("http:", "https:")) or origin == "null":
        raise Refusal(403, "pages of a browser may not call tools; use a client of MCP")
    return parts.tool_sessions.response(caller)
