"""The tools as a server of the Model Context Protocol, by its official SDK: calls, and pipes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, TextIO, TypeVar

import anyio
from anyio import CancelScope
from fastapi.responses import Response
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import (
    CallToolRequest,
    CallToolResult,
    ListToolsRequest,
    ListToolsResult,
    ServerResult,
)
from sse_starlette.sse import AppStatus
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from dpicl_rag import __version__
from dpicl_rag.answering.worker_threads import one_task
from dpicl_rag.server.admission import Admission, ServerLimits, limited
from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.regular_syncs import RegularSyncs
from dpicl_rag.server.request_log import Exchange
from dpicl_rag.server.service import Service
from dpicl_rag.server.tools import INSTRUCTIONS, ToolCall, Tools

T = TypeVar("T")

_NO_RATE = 10**9  # one caller, whose machine this is


class Visit:
    """One request of a client: it brings one call at most."""

    def __init__(self, caller: Caller, state: MutableMapping[str, Any] | None = None) -> None:
        self.caller = caller
        self._state = {} if state is None else state
        self._left = asyncio.Event()
        self._working: asyncio.Task[Any] | None = None

    async def run(self, work: Callable[[Exchange], Coroutine[Any, Any, T]]) -> T | None:
        """The result of a call, which ends where the client leaves or cancels it.

        Returns:
            None if the client has left.
        """
        exchange = self._state["exchange"] = Exchange(caller=self.caller.name)
        if self._left.is_set():
            return None
        # A task beside those of the SDK. Their cancel scopes cancel again at every step, and
        # would cut short the end that pays and refunds.
        working = self._working = asyncio.create_task(work(exchange))
        leaving = asyncio.create_task(self._left.wait())
        try:
            await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not working.done():
                exchange.left = True
                working.cancel()
                with CancelScope(shield=True):
                    await asyncio.wait([working])
        return None if working.cancelled() else working.result()

    async def left(self) -> None:
        """The client has left, or has its answer. When this returns the call has ended."""
        self._left.set()
        if self._working is not None:
            await asyncio.wait([self._working])


def make_tool_server(tools: Tools, visit_of: Callable[[Any], Visit], **options: Any) -> Server[Any]:
    """A server of tools and of nothing else: there are no resources and no prompts.

    Args:
        tools: What is called.
        visit_of: Who calls, by the request of HTTP, which is None without.
        **options: Of the SDK's server.
    """
    server: Server[Any] = Server("dpicl-rag", __version__, instructions=INSTRUCTIONS, **options)

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


async def serve_tools(
    service: Service, caller: Caller, output: TextIO, syncs: RegularSyncs | None = None
) -> None:
    """Serve over standard input and output, for the program that started this one.

    It ends when standard input ends; then calls under way have ended, and all is closed.

    Args:
        service: What is served. It is closed.
        caller: Whose budget pays, and whose memory it is.
        output: Where the protocol is written.
        syncs: Bring the corpora up to date; None leaves that to others.
    """
    limits = ServerLimits()
    most = limits.together + limits.waiting
    admission = Admission(ServerLimits(each=most, a_minute=_NO_RATE))
    server = make_tool_server(Tools(service, admission), lambda _: Visit(caller))
    try:
        async with AsyncExitStack() as stack:
            if syncs is not None:
                await stack.enter_async_context(one_task(syncs.run(service)))
            pipes = stdio_server(stdout=anyio.wrap_file(output))
            read, write = await stack.enter_async_context(pipes)
            await server.run(read, write, server.create_initialization_options())
    except* (BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # nobody reads any more
    finally:
        admission.drain()
        await admission.end(service.close)


IDLE = 600.0
"""Seconds after which a session ends in which nothing is asked."""

OF_A_KEY = 64
"""Sessions that one key has at once."""

_AT_ONCE = 1024  # of all keys


@dataclass(eq=False, slots=True)
class _Opening:
    """A request that may open a session, and counts as one until then."""

    key: str
    opened: bool = False
    ended: bool = False


_opening: ContextVar[_Opening] = ContextVar("_opening")


class ToolSessions:
    """The tools over streamable HTTP."""

    def __init__(self, tools: Tools) -> None:
        # Answers end by themselves when the server goes down: at their next token, and told.
        AppStatus.enable_automatic_graceful_drain = False
        self._of: Counter[str] = Counter()
        server = make_tool_server(
            tools, lambda request: request.state.visit, lifespan=self._counted
        )
        self._manager = StreamableHTTPSessionManager(
            server, session_idle_timeout=IDLE, max_sessions=_AT_ONCE
        )

    def run(self) -> AbstractAsyncContextManager[None]:
        """Sessions live in this block. Calls under way have ended when it has."""
        return self._manager.run()

    def response(self, caller: Caller) -> Response:
        """Response to a caller; it reads the request that it answers."""
        return _Visited(self, caller)

    async def handle(self, visit: Visit, scope: Scope, receive: Receive, send: Send) -> None:
        """One request.

        Raises:
            Refusal: The key has too many sessions.
        """
        key = visit.caller.id or "run"
        opening = _Opening(key, opened=MCP_SESSION_ID_HEADER in Headers(scope=scope))
        if not opening.opened:
            # Counted before anything is waited for: whoever asks at the same time sees it.
            if self._of[key] >= OF_A_KEY:
                raise limited(f"this key has {OF_A_KEY} sessions; close one, or wait", seconds=60)
            self._of[key] += 1
        _opening.set(opening)
        # The SDK lets nobody else into a session.
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=key, scopes=[]))
        try:
            await self._manager.handle_request(scope, receive, send)
        finally:
            opening.ended = True
            self._of[key] -= not opening.opened
            await visit.left()

    @asynccontextmanager
    async def _counted(self, _: Any) -> AsyncIterator[None]:
        """A session's life: it runs in the context of the request that opened it."""
        opening = _opening.get()
        self._of[opening.key] += opening.ended
        opening.opened = True
        try:
            yield
        finally:
            self._of[opening.key] -= 1


class _Visited(Response):
    """The SDK's response."""

    def __init__(self, sessions: ToolSessions, caller: Caller) -> None:
        super().__init__()
        self._sessions = sessions
        self._caller = caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, by ASGI."""
        state = scope["state"]
        visit = state["visit"] = Visit(self._caller, state)
        await self._sessions.handle(visit, scope, receive, send)
