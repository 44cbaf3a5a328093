"""One thread that waits for servers: only there can a wait be ended whatever a server does."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")
_starting = threading.RLock()  # what collects garbage meanwhile may come in again


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run work in the thread of this process and wait for it; an interrupt ends the work.

    Args:
        work: What is awaited.
    """
    future = begin(work)
    try:
        return future.result()
    finally:
        future.cancel()


def begin(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Run work there without waiting, as what collects garbage must: it may be that thread."""
    with _starting:  # two threads that come first at once have the same loop
        loop = _loop(os.getpid())
    return asyncio.run_coroutine_threadsafe(work, loop)


@lru_cache(maxsize=1)
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """The loop of a process: a forked child has not got its parent's thread."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="dpicl-rag servers", daemon=True).start()
    return loop
