"""Who draws when: answers share one model, token by token, in the order of asking."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from dpicl_rag.answers import in_thread
from dpicl_rag.server.failures import Refusal

T = TypeVar("T")


class Turns:
    """A bounded number of answers at a time, a bounded number that wait, one draw at a time.

    Args:
        together: Answers under way at once. Each holds its documents in memory.
        waiting: Requests that may wait for a place. Public.
    """

    def __init__(self, together: int, waiting: int) -> None:
        self._places = asyncio.Semaphore(together)
        self._most = together + waiting
        self._draw = asyncio.Lock()  # first come, first served
        self.inside = 0
        self.draining = False
        self._empty = asyncio.Event()
        self._empty.set()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place and hold it.

        Raises:
            Refusal: Too many wait, or the server is going down.
        """
        if self.draining:
            raise _busy("the server is going down; ask again when it is back")
        if self.inside >= self._most:
            raise _busy("too many questions are waiting; ask again in a few seconds")
        self.inside += 1
        self._empty.clear()
        try:
            async with self._places:
                yield
        finally:
            self.inside -= 1
            if not self.inside:
                self._empty.set()

    async def take(self, work: Callable[[], T]) -> T:
        """Run something that needs the model in a worker thread, when the turn comes."""
        async with self._draw:
            return await in_thread(work)

    def drain(self) -> None:
        """Let no more in; answers under way end at their next token."""
        self.draining = True

    async def empty(self) -> None:
        """Wait until every answer has ended."""
        await self._empty.wait()


def _busy(message: str) -> Refusal:
    return Refusal(503, message, kind="server_error", code="busy", headers={"Retry-After": "5"})
