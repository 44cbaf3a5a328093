"""What surrounds every request: a limit on its size, headers, and silence about what went wrong."""

from __future__ import annotations

from collections.abc import Callable

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpicl_rag.server.failures import refusal

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'",
}


class Shell:
    """The outermost layer: no exception passes it, since servers write what they catch to a log.

    Args:
        app: What is inside.
        most_bytes: Of a body, by path.
        count: Told the path's corpus, if it has one, and the status of every answer.
    """

    def __init__(
        self, app: ASGIApp, most_bytes: Callable[[str], int], count: Callable[[str, int], None]
    ) -> None:
        self._app = app
        self._most_bytes = most_bytes
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = self._most_bytes(scope["path"])
        scope.setdefault("state", {})
        status, read = 0, 0

        async def limited() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > most:
                # FastAPI turns every other exception of a body into a 400.
                raise HTTPException(413)
            return message

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        try:
            await self._app(scope, limited, told)
        except Exception as error:
            if not status:
                await refusal(error).response()(scope, receive, told)
        finally:
            self._count(scope["state"].get("corpus", ""), status)
