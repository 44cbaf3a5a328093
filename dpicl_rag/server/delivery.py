"""Delivery of an answer to its client, in one body or as events, while the client is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, TypeVar

from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from dpicl_rag.answering.worker_threads import one_task
from dpicl_rag.results import PrivateAnswer
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
    """An answer in one body."""

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
    """An answer as server-sent events."""
    stack = AsyncExitStack()

    async def begin() -> bool:
        await stack.enter_async_context(answering.begun())
        return True

    if await unless_gone(request, begin()) is None:
        await stack.aclose()
        return Response(status_code=GONE)
    answering.exchange.left = True  # until the events have ended
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
