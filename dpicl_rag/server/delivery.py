"""Delivery of an answer to its client, in one body or as events, while the client is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, TypeVar

import h11
from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpicl_rag.results import PrivateAnswer
from dpicl_rag.server.admission import busy
from dpicl_rag.server.failures import Refusal
from dpicl_rag.server.one_task import one_task
from dpicl_rag.server.served_request import ServedRequest

T = TypeVar("T")

GONE = 499
"""Status of a request whose client hung up. It reads nothing; logs and metrics do."""


class _Streamed(StreamingResponse):
    """Events that end their answer, also where the client went before the first."""

    def __init__(
        self,
        events: AsyncIterator[str],
        close: Callable[[], Coroutine[Any, Any, None]],
        **more: Any,
    ) -> None:
        super().__init__(events, media_type="text/event-stream", **more)
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them, by ASGI."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._close()


async def whole(
    answering: ServedRequest,
    request: Request,
    headers: Mapping[str, str],
    body: Callable[[ServedRequest, PrivateAnswer], dict[str, Any]],
) -> Response:
    """An answer in one body.

    Args:
        answering: The answer.
        request: Of its client.
        headers: Sent along.
        body: Makes the body when it has ended.
    """

    async def drawn() -> PrivateAnswer:
        async with answering.begun():
            async for _ in answering.pieces():
                pass
            return await answering.ended()

    answer = await unless_gone(request, drawn())
    if answer is None:
        return Response(status_code=GONE)
    return JSONResponse(body(answering, answer), headers={**headers, **spent(answer)})


async def streamed(
    answering: ServedRequest,
    request: Request,
    headers: Mapping[str, str],
    events: AsyncIterator[str],
) -> Response:
    """An answer as server-sent events.

    Args:
        answering: The answer.
        request: Of its client.
        headers: Sent along.
        events: Of the answer, once it has begun.
    """
    stack = AsyncExitStack()
    answering.exchange.left = True  # until the events have ended

    async def begin() -> bool:
        await stack.enter_async_context(answering.begun())
        return True

    if await unless_gone(request, begin()) is None:
        await stack.aclose()
        return Response(status_code=GONE)
    return _Streamed(events, stack.aclose, headers={**headers, "Cache-Control": "no-store"})


async def unless_gone(request: Request, work: Awaitable[T]) -> T | None:
    """The result of the work; None if the client hangs up before, which ends the work."""
    async with one_task(work) as working, one_task(_hung_up(request)) as leaving:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        done = working.done()
    return working.result() if done else None


async def _hung_up(request: Request) -> None:
    with suppress(Exception):
        while (await request.receive())["type"] != "http.disconnect":
            pass


def spent(answer: PrivateAnswer) -> dict[str, str]:
    """The guarantee as headers, for clients that drop unknown fields."""
    return {"X-DPICL-Epsilon": f"{answer.epsilon:g}", "X-DPICL-Delta": f"{answer.delta:g}"}


SECONDS = 20.0
"""For a client to send a request, from when it may."""


MOST = 2048
"""Connections at once."""

_CROWDED = busy("too many connections are open; ask again in a few seconds").response()


class Connection(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, which waits for half a header for ever."""

    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Read on, or refuse where too many connections are open."""
        crowded = len(self.connections) > MOST
        self.app = _CROWDED if crowded else self.config.loaded_app
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, error: Exception | None) -> None:
        """Wait no more."""
        self._stop()
        super().connection_lost(error)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, in the form of the other errors."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE) or (
            self.cycle is not None and self.cycle.response_started
        ):
            self.transport.close()
            return
        response = Refusal(400, "this is not a request of HTTP/1.1").response()
        headers = [*response.raw_headers, (b"connection", b"close")]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=bytes(response.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _watch(self) -> None:
        """The clock runs while it is the client's turn; what comes bit by bit does not stop it."""
        answered = self.cycle is None or self.cycle.response_complete
        theirs = answered and self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if not theirs:
            self._stop()
        elif self._clock is None and not self.transport.is_closing():
            self._clock = self.loop.call_later(SECONDS, self.transport.abort)

    def _stop(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
