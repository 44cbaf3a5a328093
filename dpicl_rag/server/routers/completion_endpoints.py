"""Completions: a question to a corpus."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from dpicl_rag.server import chat
from dpicl_rag.server.catalogue import Ask
from dpicl_rag.server.protocol import ChatRequest
from dpicl_rag.server.request_log import Exchange
from dpicl_rag.server.services import Asking, Using

router = APIRouter()


@router.post(
    "/v1/chat/completions",
    responses={200: {"content": {"application/json": {}, "text/event-stream": {}}}},
)
async def completions(
    body: ChatRequest, request: Request, services: Using, caller: Asking
) -> Response:
    """Ask a corpus."""
    exchange = request.state.exchange = Exchange(caller=caller.name)
    ignored = body.ignored()
    system, turns, question = body.conversation()
    asked = Ask(question, turns, system, body.most_tokens, body.stops, fresh=body.dpicl.fresh)
    services.catalogue.served(body.model, caller)
    exchange.corpus, exchange.question = body.model, question
    headers = {"X-DPICL-Ignored": ", ".join(ignored)} if ignored else {}
    answering = chat.Answering(
        services.catalogue, services.admission, body.model, caller, asked, exchange
    )
    if body.stream:
        usage = body.stream_options is not None and body.stream_options.include_usage
        return await chat.streamed(answering, request, headers, usage)
    return await chat.whole(answering, request, headers)
