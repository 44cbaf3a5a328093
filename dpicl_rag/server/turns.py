"""Who draws when: answers share one model, token by token, in the order of asking."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from dpicl_rag.server.limits import GOING_DOWN, Limits, Rate, busy, limited

T = TypeVar("T")


class Turns:
    """Places for answers, and one thread in which all of them begin, draw and end.

    The thread does one thing after the other in the order of asking, so answers under way take
    turns, and what ends an answer comes after its last draw, whatever was cancelled meanwhile.

    Args:
        limits: Public.
        clock: Seconds; for tests.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.clock = clock
        self.inside = 0
        self.draining = False
        self._places = asyncio.Semaphore(limits.together)
        self._rate = Rate(limits.a_minute, clock)
        self._of: Counter[str] = Counter()
        self._engine = ThreadPoolExecutor(1, thread_name_prefix="dpicl-engine")
        self._empty = asyncio.Event()
        self._empty.set()

    @asynccontextmanager
    async def place(self, caller: str | None) -> AsyncIterator[None]:
        """Wait for a place and hold it.

        Args:
            caller: Whose limits count; None where no keys are in use.

        Raises:
            Refusal: The caller has too many, too many wait, or the server is going down.
        """
        self._admit(caller)
        self.inside += 1
        self._empty.clear()
        if caller is not None:
            self._of[caller] += 1
        try:
            async with self._places:
                if self.draining:
                    raise busy(GOING_DOWN)
                yield
        finally:
            if caller is not None:
                self._of[caller] -= 1
            self.inside -= 1
            if not self.inside:
                self._empty.set()

    def _admit(self, caller: str | None) -> None:
        if self.draining:
            raise busy(GOING_DOWN)
        if caller is not None and self._of[caller] >= self.limits.each:
            raise limited(
                f"a key has {self.limits.each} questions at a time; wait for one to end", seconds=1
            )
        if self.inside >= self.limits.together + self.limits.waiting:
            raise busy("too many questions are waiting; ask again in a few seconds")
        if caller is not None:
            self._rate.take(caller)

    async def take(self, work: Callable[[], T]) -> T:
        """Run something in the thread. Cancelled before its turn, it does not run."""
        return await asyncio.wrap_future(self._engine.submit(work))

    async def settle(self, work: Callable[[], None]) -> None:
        """Run something in the thread, whatever is cancelled."""
        await asyncio.shield(asyncio.wrap_future(self._engine.submit(work)))

    def drain(self) -> None:
        """Let no more in; answers under way end at their next token."""
        self.draining = True

    async def end(self, last: Callable[[], None]) -> None:
        """Wait until every answer has ended, and do one thing more.

        Args:
            last: Closes what the answers were paid from.
        """
        await self._empty.wait()
        await self.settle(last)
        self._engine.shutdown(wait=False)
