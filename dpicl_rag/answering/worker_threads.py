"""Worker threads and tasks: the async twins of what computes, and work that ends with a block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Concatenate, ParamSpec, TypeVar

from dpicl_rag.errors import StoppedError
from dpicl_rag.language_models.turns import taking_turns

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run in a worker thread; whoever is cancelled meanwhile, however often, waits for its end.

    Otherwise a stream would be closed beside a draw that still runs, and keep its reservation.
    """
    task = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        raise


async def in_steps(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run in a worker thread; where whoever asks is cancelled, what goes in steps ends at the next.

    Raises:
        StoppedError: In the thread, where it ends so.
    """
    left = threading.Event()

    def wanted() -> None:
        if left.is_set():
            raise StoppedError("whoever asked has gone")

    def call() -> T:
        with taking_turns(wanted):
            return function(*args, **kwargs)

    try:
        return await asyncio.to_thread(call)
    finally:
        left.set()


def in_worker(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The async twin of a method: the same call by `in_steps`."""

    async def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        # By name, so that a subclass's own method is called.
        own: Callable[P, T] = getattr(self, method.__name__)
        return await in_steps(own, *args, **kwargs)

    twin.__doc__ = f"``{method.__name__}`` in a worker thread."
    return twin


@asynccontextmanager
async def one_task(work: Awaitable[T]) -> AsyncIterator[asyncio.Task[T]]:
    """Work under way, which has ended when the block has.

    So it has where the task of the block is cancelled. Nothing that it raises reaches a log.
    """
    working = asyncio.ensure_future(work)
    try:
        yield working
    finally:
        if not working.done():
            working.cancel()
            await asyncio.wait([working])
        if not working.cancelled():
            working.exception()  # seen
