"""Sessions of agents' clients over HTTP: each belongs to the key that opened it."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from sse_starlette.sse import AppStatus
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from dpicl_rag.server.admission import limited
from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.tool_server import Visit, make_tool_server
from dpicl_rag.server.tools import Tools

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
        server = make_tool_server(tools, _visit_of, lifespan=self._counted)
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


def _visit_of(request: Request) -> Visit:
    found: Visit = request.state.visit
    return found
