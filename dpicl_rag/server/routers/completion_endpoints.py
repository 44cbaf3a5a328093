"""Answers as OpenAI's clients ask for them: chat completions, and responses."""

from collections.abc import Mapping

from fastapi import APIRouter, Request
from fastapi.responses import Response

from dpicl_rag.server.delivery import streamed, whole
from dpicl_rag.server.protocol import chat_reply, response_reply
from dpicl_rag.server.protocol.chat_reply import ChatRequest
from dpicl_rag.server.protocol.response_reply import ResponseRequest
from dpicl_rag.server.request_log import Exchange
from dpicl_rag.server.served_answer import ServedAnswer
from dpicl_rag.server.services import Asking, Services, Using

router = APIRouter(responses={200: {"content": {"application/json": {}, "text/event-stream": {}}}})


@router.post("/v1/chat/completions")
async def completions(
    body: ChatRequest, request: Request, services: Using, caller: Asking
) -> Response:
    """Ask a corpus."""
    answering, headers = _asked(body, request, services, caller)
    if body.stream:
        events = chat_reply.events(answering, body.include_usage)
        return await streamed(answering, request, headers, events)
    return await whole(answering, request, headers, chat_reply.body)


@router.post("/v1/responses")
async def responses(
    body: ResponseRequest, request: Request, services: Using, caller: Asking
) -> Response:
    """Ask a corpus."""
    answering, headers = _asked(body, request, services, caller)
    if body.stream:
        return await streamed(answering, request, headers, response_reply.events(answering))
    return await whole(answering, request, headers, response_reply.body)


def _asked(
    body: ChatRequest | ResponseRequest, request: Request, services: Services, caller: Asking
) -> tuple[ServedAnswer, Mapping[str, str]]:
    """An answer that has not begun, and headers that go with it."""
    exchange = request.state.exchange = Exchange(caller=caller.name)
    ignored, asked = body.ignored(), body.asked()
    services.catalogue.served(body.model, caller)
    exchange.corpus, exchange.question = body.model, asked.asked()
    answering = ServedAnswer(
        services.catalogue, services.admission, body.model, caller, asked, exchange
    )
    return answering, {"X-DPICL-Ignored": ", ".join(ignored)} if ignored else {}
