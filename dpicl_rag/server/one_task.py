"""One task that ends with a block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

T = TypeVar("T")


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
