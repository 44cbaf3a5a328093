"""A visit of an agent's client, and what ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, MutableMapping
from typing import Any, TypeVar

from anyio import CancelScope

from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.request_log import Exchange

T = TypeVar("T")


class Visit:
    """One request of a client: it brings one call at most.

    Args:
        caller: Who visits.
        state: Takes the exchange, for the log.
    """

    def __init__(self, caller: Caller, state: MutableMapping[str, Any] | None = None) -> None:
        self.caller = caller
        self._state = {} if state is None else state
        self._left = asyncio.Event()
        self._working: asyncio.Task[Any] | None = None

    async def run(self, work: Callable[[Exchange], Coroutine[Any, Any, T]]) -> T | None:
        """The result of a call, which ends where the client leaves or cancels it.

        Returns:
            None if the client has left.
        """
        exchange = self._state["exchange"] = Exchange(caller=self.caller.name)
        if self._left.is_set():
            return None
        # A task beside those of the SDK. Their cancel scopes cancel again at every step, and
        # would cut short the end that pays and refunds.
        working = self._working = asyncio.create_task(work(exchange))
        leaving = asyncio.create_task(self._left.wait())
        try:
            await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not working.done():
                exchange.left = True
                working.cancel()
                with CancelScope(shield=True):
                    await asyncio.wait([working])
        return None if working.cancelled() else working.result()

    async def left(self) -> None:
        """The client has left, or has its answer. When this returns the call has ended."""
        self._left.set()
        if self._working is not None:
            await asyncio.wait([self._working])
