"""``/v1/chat/completions``: one question, its turns, and how it ends."""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from dpicl_rag.answers import PrivateAnswer, PrivateStream, in_thread
from dpicl_rag.server import protocol
from dpicl_rag.server.failures import refusal
from dpicl_rag.server.house import Ask, House
from dpicl_rag.server.keys import Caller
from dpicl_rag.server.metrics import Metrics
from dpicl_rag.server.turns import Turns

log = logging.getLogger("dpicl_rag.server")


@dataclass
class Answering:
    """One answer on its way to one client.

    Attributes:
        name: The model that was asked: a corpus.
        caller: Who asks.
        asked: The question.
        options: Of the request.
    """

    house: House
    turns: Turns
    metrics: Metrics
    name: str
    caller: Caller
    asked: Ask
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    id: str = field(default_factory=lambda: f"chatcmpl-{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def label(self) -> tuple[str, str, int]:
        """Identifier, model and time, as every message of the answer bears them."""
        return self.id, self.name, self.created

    async def begin(self) -> PrivateStream:
        """Wait for a place, search and reserve; errors come before anything is sent.

        Raises:
            DPICLError: Nothing is spent.
            Refusal: The same.
        """
        await self.stack.enter_async_context(self.turns.place())
        opened: list[PrivateStream] = []

        def start() -> None:
            opened.append(self.house.stream(self.name, self.caller, self.asked))

        try:
            await self.turns.take(start)
        finally:
            for stream in opened:
                # What ends the answer stands ready before anything may cancel it.
                self.stack.push_async_callback(self._ended, stream)
        return opened[0]

    async def pieces(self, stream: PrivateStream) -> AsyncIterator[str]:
        """Text as it is drawn, until the end or until the server goes down."""
        while not self.turns.draining:
            piece = await self.turns.take(lambda: next(stream, None))
            if piece is None:
                return
            yield piece

    async def _ended(self, stream: PrivateStream) -> None:
        await in_thread(stream.close)
        self.metrics.answer(self.name, stream.answer)
        log.info(
            json.dumps(
                {
                    "time": self.created,
                    "caller": self.caller.name,
                    "corpus": self.name,
                    "tokens": stream.answer.tokens,
                    "stopped_by": stream.answer.stopped_by,
                }
            )
        )

    async def close(self) -> None:
        """End the answer wherever it is: what was released is paid for, the rest given back."""
        await self.stack.aclose()


class Streamed(StreamingResponse):
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
        """See ASGI."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._close()


async def whole(answering: Answering, request: Request, headers: dict[str, str]) -> Response:
    """An answer in one body."""
    try:
        stream = await answering.begin()
        async for _ in answering.pieces(stream):
            if await request.is_disconnected():
                break
        await in_thread(stream.close)
        answer = stream.answer
    finally:
        await answering.close()
    body = protocol.completion(*answering.label, _asked_tokens(answering), answer)
    return JSONResponse(body, headers=headers | spent(answer))


async def streamed(answering: Answering, headers: dict[str, str], include_usage: bool) -> Response:
    """An answer as server-sent events."""
    try:
        stream = await answering.begin()
    except BaseException:
        await answering.close()
        raise
    events = _events(answering, stream, include_usage)
    return Streamed(events, answering.close, headers=headers | {"Cache-Control": "no-store"})


async def _events(
    answering: Answering, stream: PrivateStream, include_usage: bool
) -> AsyncIterator[str]:
    def event(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
        found = protocol.chunk(*answering.label, delta, finish, **more)
        return f"data: {json.dumps(found)}\n\n"

    try:
        yield event({"role": "assistant", "content": ""})
        async for piece in answering.pieces(stream):
            yield event({"content": piece})
        await in_thread(stream.close)
        answer = stream.answer
        reason = protocol.finish_reason(answer.stopped_by)
        yield event({}, reason, privacy=protocol.privacy(answer))
        if include_usage:
            usage = protocol.usage(_asked_tokens(answering), answer)
            yield f"data: {json.dumps(protocol.usage_chunk(*answering.label, usage))}\n\n"
    except Exception as error:
        yield f"data: {json.dumps(refusal(error).body)}\n\n"
    yield "data: [DONE]\n\n"


def spent(answer: PrivateAnswer) -> dict[str, str]:
    """The guarantee as headers, for clients that drop unknown fields."""
    return {"X-DPICL-Epsilon": f"{answer.epsilon:g}", "X-DPICL-Delta": f"{answer.delta:g}"}


def _asked_tokens(answering: Answering) -> int:
    return len(answering.house.tokenizer.encode(answering.asked.question))
