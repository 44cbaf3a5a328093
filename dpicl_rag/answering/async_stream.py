"""The async twin of a stream: it searches and draws in worker threads, and has the whole answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from dpicl_rag.answering.private_stream import PrivateStream
from dpicl_rag.answering.worker_threads import in_thread
from dpicl_rag.errors import DPICLError
from dpicl_rag.results import PrivateAnswer


class AsyncPrivateStream(AsyncIterator[str]):
    """Pieces of a private answer for ``async for``; made by ``PrivateContextLLM.astream``.

    The search begins with the first piece, or where an ``async with`` block is entered. A task that
    is cancelled, an error, ``aclose`` and the block's end all end the answer: what was released is
    paid for and the rest of the reservation is refunded.

    Args:
        begin: Searches, and makes the stream. Called once, in a worker thread.
    """

    def __init__(self, begin: Callable[[], PrivateStream]) -> None:
        self._begin = begin
        self._beginning = asyncio.Lock()
        self._stream: PrivateStream | None = None
        self._closed = False

    def __repr__(self) -> str:
        return "AsyncPrivateStream()"

    async def __anext__(self) -> str:
        if self._closed:
            raise StopAsyncIteration
        try:
            stream = await self._begun()
            return await stream.__anext__()
        except StopAsyncIteration:
            raise
        except BaseException:
            await self.aclose()
            raise

    @property
    def answer(self) -> PrivateAnswer:
        """The whole answer, once the stream has ended or was closed.

        Raises:
            DPICLError: The stream is still open, or was never begun.
        """
        if self._stream is None:
            raise DPICLError("the answer is there when the stream has ended; read it to its end")
        return self._stream.answer

    async def aclose(self) -> None:
        """End the answer here. May be called again."""
        self._closed = True
        if self._stream is not None:
            await self._stream.aclose()

    async def __aenter__(self) -> AsyncPrivateStream:
        try:
            await self._begun()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def _begun(self) -> PrivateStream:
        async with self._beginning:
            if self._stream is None:
                # Kept in the thread: a task that is cancelled meanwhile still closes it.
                await in_thread(self._start)
        assert self._stream is not None
        return self._stream

    def _start(self) -> None:
        self._stream = self._begin()
