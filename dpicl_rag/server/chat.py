"""``/v1/chat/completions``: one question, its admission, and its end."""

from __future__ import annotations

import asyncio
import json
import math
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from dpicl_rag.answering.answers import PrivateAnswer, PrivateStream
from dpicl_rag.errors import DPICLError
from dpicl_rag.server import protocol
from dpicl_rag.server.admission import Admission
from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.catalogue import Ask, Catalogue
from dpicl_rag.server.failures import refusal
from dpicl_rag.server.one_task import one_task
from dpicl_rag.server.request_log import Exchange

T = TypeVar("T")

GONE = 499
"""Status of a request whose client hung up. It reads nothing; logs and metrics do."""

TELLING = 0.5
"""Seconds between two words on how far reading has come, before the first word of an answer."""

_PARTS = 10  # a finer part would tell how many documents are read


@dataclass
class Answering:
    """One answer on its way to one client.

    Attributes:
        name: The model that was asked: a corpus.
        caller: Who asks.
        asked: The question.
        exchange: Takes the answer when it has ended.
    """

    catalogue: Catalogue
    admission: Admission
    name: str
    caller: Caller
    asked: Ask
    exchange: Exchange
    asked_tokens: int = 0
    id: str = field(default_factory=lambda: f"chatcmpl-{secrets.token_hex(12)}")
    created: int = field(default_factory=lambda: int(time.time()))
    _stream: PrivateStream | None = None
    _until: float = 0.0
    _read: float = 0.0

    @property
    def part_read(self) -> float:
        """The part of the documents that is read, in tenths. Public, and no count."""
        return math.floor(_PARTS * self._read) / _PARTS

    @property
    def label(self) -> protocol.Label:
        """See ``Label``."""
        return self.id, self.name, self.created

    @asynccontextmanager
    async def begun(self) -> AsyncIterator[None]:
        """Wait for a place, search and reserve; errors come before anything is sent.

        However the block ends, the answer ends with it: what was released is paid for, and the
        rest given back.

        Raises:
            DPICLError: Nothing is spent.
            Refusal: The same.
        """
        async with self.admission.place(self.caller):
            self._until = self.admission.clock() + self.admission.limits.seconds
            try:
                await self.admission.take(self._begin, of=self.id, more=True)
                yield
            finally:
                # In the answer's order it comes after a beginning that nobody waited for.
                await self.admission.settle(self._close, of=self.id)

    async def pieces(self) -> AsyncGenerator[str, None]:
        """Text as it is drawn, until the end, the limit of time, or the server's going down."""
        while not self.admission.draining and self.admission.clock() < self._until:
            piece = await self.admission.take(self._step, of=self.id, more=True)
            if piece is None:
                return
            if piece:
                yield piece

    async def ended(self) -> PrivateAnswer:
        """The answer, which ends here."""

        def end() -> PrivateAnswer:
            if self._stream is None:
                raise DPICLError("the answer has not begun")
            self._stream.close()
            return self.catalogue.answer(self.name, self._stream)

        return await self.admission.take(end, of=self.id)

    def _begin(self) -> None:
        self._stream = self.catalogue.stream(self.name, self.caller, self.asked, self._reading)
        self.asked_tokens = len(self.catalogue.tokenizer.encode(self.asked.question))

    def _reading(self, part: float, _: float | None) -> None:
        self._read = part

    def _step(self) -> str | None:
        return None if self._stream is None else self._stream.step()

    def _close(self) -> None:
        if self._stream is None:
            return
        # What cannot be written now is settled when the ledger is opened again.
        with suppress(Exception):
            self._stream.close()
            self.exchange.answer = self.catalogue.answer(self.name, self._stream)


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

    async def drawn() -> PrivateAnswer:
        async with answering.begun():
            async for _ in answering.pieces():
                pass
            return await answering.ended()

    answer = await _unless_gone(request, drawn())
    if answer is None:
        return Response(status_code=GONE)
    body = protocol.completion(answering.label, answering.asked_tokens, answer)
    return JSONResponse(body, headers=headers | spent(answer))


async def streamed(
    answering: Answering, request: Request, headers: dict[str, str], include_usage: bool
) -> Response:
    """An answer as server-sent events."""
    stack = AsyncExitStack()
    answering.exchange.left = True  # until all is drawn

    async def begin() -> bool:
        await stack.enter_async_context(answering.begun())
        return True

    if await _unless_gone(request, begin()) is None:
        await stack.aclose()
        return Response(status_code=GONE)
    events = _events(answering, include_usage)
    return Streamed(events, stack.aclose, headers=headers | {"Cache-Control": "no-store"})


async def _unless_gone(request: Request, work: Awaitable[T]) -> T | None:
    """The result of the work; None if the client hangs up before, which ends the work."""
    async with one_task(work) as working, one_task(_hung_up(request)) as leaving:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        done = working.done()
    return working.result() if done else None


async def _hung_up(request: Request) -> None:
    with suppress(Exception):
        while (await request.receive())["type"] != "http.disconnect":
            pass


async def _events(answering: Answering, include_usage: bool) -> AsyncIterator[str]:
    def event(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
        found = protocol.chunk(answering.label, delta, finish, **more)
        return f"data: {json.dumps(found)}\n\n"

    try:
        yield event({"role": "assistant", "content": ""})
        async for found in news(answering):
            # A comment: clients pass over it.
            yield event({"content": found}) if isinstance(found, str) else f": read {found:g}\n\n"
        answer = await answering.ended()
        reason = protocol.finish_reason(answer.stopped_by)
        yield event({}, reason, privacy=protocol.privacy(answer))
        if include_usage:
            usage = protocol.usage(answering.asked_tokens, answer)
            yield f"data: {json.dumps(protocol.usage_chunk(answering.label, usage))}\n\n"
    except Exception as error:
        yield f"data: {json.dumps(refusal(error).body)}\n\n"
    answering.exchange.left = False
    yield "data: [DONE]\n\n"


async def news(answering: Answering) -> AsyncIterator[str | float]:
    """Pieces of an answer, and before the first of them the part of the documents that is read."""
    pieces, told = answering.pieces(), 0.0
    while True:
        async with one_task(anext(pieces, None)) as drawing:
            while not (await asyncio.wait([drawing], timeout=TELLING))[0]:
                if told < answering.part_read:
                    told = answering.part_read
                    yield told
        piece = drawing.result()
        if piece is None:
            return
        told = 1.0
        yield piece


def spent(answer: PrivateAnswer) -> dict[str, str]:
    """The guarantee as headers, for clients that drop unknown fields."""
    return {"X-DPICL-Epsilon": f"{answer.epsilon:g}", "X-DPICL-Delta": f"{answer.delta:g}"}
