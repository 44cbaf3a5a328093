"""The tools as a server of the Model Context Protocol, by its official SDK."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.types import (
    CallToolRequest,
    CallToolResult,
    ListToolsRequest,
    ListToolsResult,
    ServerResult,
)

from dpicl_rag.server.request_log import Exchange
from dpicl_rag.server.tool_visit import Visit
from dpicl_rag.server.tools import INSTRUCTIONS, ToolCall, Tools


def make_tool_server(tools: Tools, visit_of: Callable[[Any], Visit], **options: Any) -> Server[Any]:
    """A server of tools and of nothing else: there are no resources and no prompts.

    Args:
        tools: What is called.
        visit_of: Who calls, by the request of HTTP, which is None without.
        **options: Of the SDK's server.
    """
    server: Server[Any] = Server(
        "dpicl-rag", version("dpicl-rag"), instructions=INSTRUCTIONS, **options
    )

    async def listed(_: ListToolsRequest) -> ServerResult:
        visit = visit_of(server.request_context.request)
        return ServerResult(ListToolsResult(tools=tools.listed(visit.caller)))

    async def called(request: CallToolRequest) -> ServerResult:
        context = server.request_context
        visit = visit_of(context.request)
        token = None if context.meta is None else context.meta.progressToken
        tell = partial(_tell, context.session, token, str(context.request_id))
        name, given = request.params.name, request.params.arguments

        async def work(exchange: Exchange) -> CallToolResult:
            return await tools.called(ToolCall(visit.caller, exchange, tell), name, given)

        # Where the client has left nobody reads it.
        return ServerResult(await visit.run(work) or CallToolResult(isError=True, content=[]))

    # Not by the SDK's decorators: they check arguments by the schema that was listed last, which
    # another caller may have listed, and whose errors name that caller's corpora.
    server.request_handlers[ListToolsRequest] = listed
    server.request_handlers[CallToolRequest] = called
    return server


async def _tell(session: ServerSession, token: str | int | None, request: str, part: float) -> None:
    if token is None:
        return
    # Who has left hears nothing; the call ends with the visit.
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        await session.send_progress_notification(token, part, 1.0, related_request_id=request)
