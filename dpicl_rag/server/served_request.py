"""One request on its way to one client: its admission, and its answer in pieces or its count."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from dpicl_rag.answering.private_stream import PrivateStream
from dpicl_rag.answering.worker_threads import one_task
from dpicl_rag.errors import DPICLError
from dpicl_rag.language_models.turns import taking_turns
from dpicl_rag.requests import Request
from dpicl_rag.results import PrivateAnswer
from dpicl_rag.server.admission import Admission
from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.request_log import Exchange
from dpicl_rag.server.service import PUBLIC, Service
from dpicl_rag.surveys.releases import in_words
from dpicl_rag.surveys.survey_results import ReleasedNumbers

TELLING = 0.5
"""Seconds between two words on how far reading has come, before the first word of an answer."""

_PARTS = 10  # a finer part would tell how many documents are read


@dataclass
class ServedRequest:
    """One request on its way to one client, the same over HTTP and for agents.

    Attributes:
        service: Answers.
        admission: Lets in.
        name: The model that was asked: a corpus.
        caller: Who asks.
        request: What is asked.
        exchange: Takes the answer when it has ended.
        asked_tokens: Of the question, once its answer has begun.
        id: Names it.
        created: When, in seconds since 1970.
    """

    service: Service
    admission: Admission
    name: str
    caller: Caller
    request: Request
    exchange: Exchange
    asked_tokens: int = 0
    id: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))
    _stream: PrivateStream | None = None
    _until: float = 0.0
    _left: Event = field(default_factory=Event)
    _read: float = 0.0

    @property
    def part_read(self) -> float:
        """The part of the documents that is read, in tenths. Public, and no count."""
        return math.floor(_PARTS * self._read) / _PARTS

    @property
    def question(self) -> str:
        """The question, in whole words where it followed on others."""
        return self.request.asked() if self._stream is None else self._stream.question

    @property
    def shown_question(self) -> dict[str, str]:
        """The question as documents are asked; nothing where none are."""
        return {} if self.name == PUBLIC else {"question": self.question}

    async def counted(self) -> ReleasedNumbers:
        """The count, tally or survey that is asked for, drawn whole.

        Raises:
            DPICLError: Nothing is spent.
            Refusal: The same.
        """

        def count() -> ReleasedNumbers:
            found = self.service.run(self.name, self.caller, self.request)
            self.exchange.answer = in_words(found, self.request.kind or "count", self.name)
            return found

        async with self.admission.place(self.caller):
            return await self.admission.take_steps(count)

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
                self._left.set()
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

    async def news(self) -> AsyncIterator[str | float]:
        """Pieces as they are drawn, and before the first the part of the documents that is read."""
        pieces, told = self.pieces(), 0.0
        while True:
            async with one_task(anext(pieces, None)) as drawing:
                while not (await asyncio.wait([drawing], timeout=TELLING))[0]:
                    if told < self.part_read:
                        told = self.part_read
                        yield told
            piece = drawing.result()
            if piece is None:
                return
            told = 1.0
            yield piece

    async def ended(self) -> PrivateAnswer:
        """The answer, which ends here."""

        def end() -> PrivateAnswer:
            if self._stream is None:
                raise DPICLError("the answer has not begun")
            self._stream.close()
            return self.service.answer(self.name, self._stream)

        return await self.admission.take(end, of=self.id)

    def _begin(self) -> None:
        # A reader is waited for here.
        with taking_turns(self.admission.wanted(self._until, self._left)):
            self._stream = self.service.stream(self.name, self.caller, self.request, self._reading)
        self.asked_tokens = len(self.service.tokenizer.encode(self.request.asked()))

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
            self.exchange.answer = self.service.answer(self.name, self._stream)


def privacy(answer: PrivateAnswer) -> dict[str, Any]:
    """The guarantee of an answer: public numbers, its kind and its parts, and what was reworded."""
    numbers = ("epsilon", "delta", "rho", "agreeing", "agreeing_within")
    words = ("stopped_by", "supported", "from_memory", "by", "released", "kind", "numbers")
    found = {name: getattr(answer, name) for name in (*numbers, *words)}
    return {**found, "parts": answer.parts_as_dicts()}
