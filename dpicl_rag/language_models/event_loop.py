"""Event loops in threads of their own: only there can a wait be ended whatever a server does."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from dpicl_rag._unobserved import unobserved

T = TypeVar("T")


class EventLoop:
    """A thread that runs coroutines, one in each process. Neither traces nor logs see them.

    Args:
        name: Of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._starting = threading.RLock()  # what collects garbage meanwhile may come in again
        self._process = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work there and wait for it; an interrupt ends the work."""
        future = self.begin(work)
        try:
            return future.result()
        finally:
            future.cancel()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run work there without waiting, as what collects garbage must: it may be that thread."""
        # The work has a copy of this context. Two threads that come first have the same loop.
        with self._starting, unobserved():
            if self._loop is None or self._process != os.getpid():
                # A forked child has not got its parent's thread.
                self._process, self._loop = os.getpid(), asyncio.new_event_loop()
                run = self._loop.run_forever
                threading.Thread(target=run, name=self._name, daemon=True).start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)


SERVERS = EventLoop("dpicl-rag servers")
"""Waits for servers of models, and for whoever is asked as they are."""
