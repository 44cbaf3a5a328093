"""What surrounds every request: limits of size and time, headers, and silence about what failed."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpicl_rag.server.failures import Refusal, refusal

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
"""Names of this machine that nobody else can give to another."""

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

_FORWARDED = ("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP")


class Shell:
    """The outermost layer: no exception passes it, since servers write what they catch to a log.

    Args:
        app: What is inside.
        most_bytes: Of a body, by path.
        told: Told what the request noted in its state, and the status of its answer; 0 if none
            was sent.
        hosts: Names by which the server may be called; None for any. Where no key is asked for, a
            page that the browser of this machine shows could otherwise ask under another name.
    """

    def __init__(
        self,
        app: ASGIApp,
        most_bytes: Callable[[str], int],
        told: Callable[[Mapping[str, Any], int], None],
        hosts: Collection[str] | None = None,
    ) -> None:
        self._app = app
        self._most_bytes = most_bytes
        self._told = told
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
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
            self._require_own(Headers(scope=scope))
            await self._app(scope, limited, sent)
        except Exception as error:
            if not status:
                await refusal(error).response()(scope, receive, sent)
        finally:
            self._told(state, status)

    def _require_own(self, headers: Headers) -> None:
        """Check that the request is meant for this server, and comes from no other's page."""
        if self._hosts is None:
            return
        host, origin = headers.get("Host", ""), headers.get("Origin")
        foreign = origin is not None and origin.partition("://")[2] != host
        # A link to the page may stand anywhere; what another page loads may not come from here.
        foreign |= headers.get("Sec-Fetch-Site") in ("cross-site", "same-site") and (
            headers.get("Sec-Fetch-Mode") != "navigate"
        )
        # A proxy asks under this machine's name for whoever asked it.
        foreign |= any(name in headers for name in _FORWARDED)
        if foreign or _name(host) not in self._hosts:
            raise Refusal(
                403,
                "without keys the server answers to this machine only, under its own name and not "
                "through a proxy; make a key with `dpicl-rag keys add NAME`",
                code="host_not_allowed",
            )


def _name(host: str) -> str:
    """A host without its port."""
    in_brackets = re.match(r"\[([^]]*)\]", host)
    return (in_brackets[1] if in_brackets else host.partition(":")[0]).casefold()
