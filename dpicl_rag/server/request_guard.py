"""The guard around every request: limits of size and time, headers, silence about failures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpicl_rag.server.failures import refusal

PATIENCE = 30.0
"""Seconds for a body to come, and for a client to take what it is sent."""

_BYTES_A_SECOND = 16 * 1024  # of a body: a large one may take longer

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'",
}


class RequestGuard:
    """The outermost layer: no exception passes it, since servers write what they catch to a log.

    Args:
        app: What is inside.
        most_bytes: Of a body, by path.
        told: Called with what the request noted in its state, and the answer's status; 0 if none
            was sent.
    """

    def __init__(
        self,
        app: ASGIApp,
        most_bytes: Callable[[str], int],
        told: Callable[[Mapping[str, Any], int], None],
    ) -> None:
        self._app = app
        self._most_bytes = most_bytes
        self._told = told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, by ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = self._most_bytes(scope["path"])
        state = scope.setdefault("state", {})
        begin = time.monotonic()
        status, read, whole = 0, 0, False

        async def limited() -> Message:
            nonlocal read, whole
            if whole:  # what comes now is that the client hangs up, whenever it likes
                return await receive()
            left = begin + PATIENCE + read / _BYTES_A_SECOND - time.monotonic()
            try:
                async with asyncio.timeout(left):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, headers={"Connection": "close"}) from None
            read += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if read > most:
                # FastAPI turns every other exception of a body into a 400.
                raise HTTPException(413)
            return message

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            async with asyncio.timeout(PATIENCE):
                await send(message)

        try:
            await self._app(scope, limited, sent)
        except Exception as error:
            if not status:
                await refusal(error).response()(scope, receive, sent)
        finally:
            self._told(state, status)
