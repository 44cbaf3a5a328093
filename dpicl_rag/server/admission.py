"""Admission of callers: public limits and rates, places for answers, the engine that they share."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from threading import Event
from typing import TypeVar

from dpicl_rag.errors import ConfigurationError, StoppedError
from dpicl_rag.language_models.turns import taking_turns
from dpicl_rag.server.answering_thread import AnsweringThread
from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.failures import Refusal

T = TypeVar("T")


MOST_EPSILON = 1e6
"""Largest epsilon of a budget."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Public limits.

    Attributes:
        together: Answers under way at once. Each holds its documents in memory.
        waiting: Questions that may wait.
        each: Questions of one key, under way or waiting, if the key says nothing else.
        a_minute: Questions of one key a minute, if the key says nothing else; as many may come at
            once after a rest.
        seconds: An answer ends at its next token after that, a count at its next step.

    Raises:
        ConfigurationError: A limit is outside its range.
    """

    together: int = 4
    waiting: int = 32
    each: int = 8
    a_minute: int = 60
    seconds: float = 300.0

    def __post_init__(self) -> None:
        if min(self.together, self.each, self.a_minute) < 1 or self.waiting < 0:
            raise ConfigurationError("limits of the server are 1 or more (waiting: 0 or more)")
        if not self.seconds > 0:
            raise ConfigurationError("the time of an answer must be above 0 seconds")


class Rate:
    """A token bucket for each caller.

    Args:
        clock: Seconds; for tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # by caller: what is left, and when

    def take(self, caller: str, a_minute: int) -> None:
        """Take one question.

        Raises:
            Refusal: There were too many.
        """
        now, a_second = self._clock(), a_minute / 60
        left, then = self._buckets.get(caller, (float(a_minute), now))
        left = min(a_minute, left + (now - then) * a_second)
        if left < 1:
            raise limited(
                f"this key has {a_minute} questions a minute; ask again later",
                seconds=math.ceil((1 - left) / a_second),
            )
        self._buckets[caller] = left - 1, now


def limited(message: str, *, seconds: int) -> Refusal:
    """Too much of one caller. OpenAI's clients ask again after the time that is named."""
    return Refusal(
        429,
        message,
        kind="rate_limit_error",
        code="rate_limit_exceeded",
        headers={"Retry-After": str(seconds)},
    )


def busy(message: str) -> Refusal:
    """Too much of all callers."""
    return Refusal(503, message, kind="server_error", code="busy", headers={"Retry-After": "5"})


class Admission:
    """Places for answers, and one engine in which all of them begin, draw and end.

    The engine does what an answer has to do in its order, so what ends an answer comes after its
    last draw, whatever was cancelled meanwhile.

    Args:
        limits: Public.
        clock: Seconds; for tests.
    """

    def __init__(self, limits: ServerLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.clock = clock
        self.inside = 0
        self.draining = False
        self._places = asyncio.Semaphore(limits.together)
        self._rate = Rate(clock)
        self._of: Counter[str] = Counter()
        self._thread = AnsweringThread()
        self._empty = asyncio.Event()
        self._empty.set()

    @asynccontextmanager
    async def place(self, caller: Caller) -> AsyncIterator[None]:
        """Wait for a place and hold it.

        Args:
            caller: Whose limits count; none do where no keys are in use.

        Raises:
            Refusal: The caller has too many, too many wait, or the server is going down.
        """
        self._admit(caller)
        self.inside += 1
        self._empty.clear()
        if caller.name is not None:
            self._of[caller.name] += 1
        try:
            async with self._places:
                self.check()
                yield
        finally:
            if caller.name is not None:
                self._of[caller.name] -= 1
            self.inside -= 1
            if not self.inside:
                self._empty.set()

    def check(self) -> None:
        """Check that the server takes questions.

        Raises:
            Refusal: It is going down.
        """
        if self.draining:
            raise busy("the server is going down; ask again when it is back")

    def _admit(self, caller: Caller) -> None:
        self.check()
        each = caller.each or self.limits.each
        if caller.name is not None and self._of[caller.name] >= each:
            raise limited(
                f"this key has {each} questions at a time; wait for one to end", seconds=1
            )
        if self.inside >= self.limits.together + self.limits.waiting:
            raise busy("too many questions are waiting; ask again in a few seconds")
        if caller.name is not None:
            self._rate.take(caller.name, caller.a_minute or self.limits.a_minute)

    async def take(self, work: Callable[[], T], *, of: str | None = None, more: bool = False) -> T:
        """Run something in the engine, as ``AnsweringThread.submit`` does."""
        return await asyncio.wrap_future(self._thread.submit(work, of=of, more=more))

    async def settle(self, work: Callable[[], None], *, of: str | None = None) -> None:
        """Run something in the engine, whatever is cancelled."""
        await asyncio.shield(asyncio.wrap_future(self._thread.submit(work, of=of)))

    def wanted(self, until: float, left: Event) -> Callable[[], None]:
        """Ends work between two of its steps (`turns`) when nobody waits for the rest of it."""

        def check() -> None:
            if left.is_set():
                raise StoppedError("whoever asked has gone")
            if self.draining:
                raise StoppedError("the server is going down")
            if self.clock() >= until:
                raise StoppedError(
                    f"it was not read in the {self.limits.seconds:g} seconds that this server "
                    "gives; ask for less, of a count with sample, fewer or shorter labels, or by "
                    "vectors"
                )

        return check

    async def take_steps(self, work: Callable[[], T]) -> T:
        """Run something in the engine that goes in steps: it has ended, however this ends.

        Raises:
            StoppedError: It was ended between two of them, as answers are between two tokens.
        """
        own, left = secrets.token_hex(12), Event()
        wanted = self.wanted(self.clock() + self.limits.seconds, left)

        def run() -> T:
            with taking_turns(wanted):
                return work()

        try:
            return await self.take(run, of=own)
        finally:
            left.set()
            await self.settle(lambda: None, of=own)  # its turn comes after the work

    def drain(self) -> None:
        """Let no more in; answers under way end at their next token, counts at their next step."""
        self.draining = True

    async def end(self, last: Callable[[], None]) -> None:
        """Wait until every answer has ended, and do one thing more."""
        await self._empty.wait()
        await self.settle(last)
        self._thread.shutdown()
