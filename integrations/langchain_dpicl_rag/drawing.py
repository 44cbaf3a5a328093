"""Drawing an answer piece by piece."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import aclosing, closing
from typing import TypeVar, cast

from dpicl_rag.answers import PrivateAnswer
from dpicl_rag.private_stream import PrivateStream

T = TypeVar("T")


def ended(pieces: Iterator[T]) -> closing[Generator[T]]:
    """Closes a generator that LangChain calls an iterator."""
    return closing(cast("Generator[T]", pieces))


def aended(pieces: AsyncIterator[T]) -> aclosing[AsyncGenerator[T]]:
    """Closes an async generator that LangChain calls an iterator."""
    return aclosing(cast("AsyncGenerator[T]", pieces))


class Drawing(Iterator[str]):
    """An answer being drawn, which another thread may close: it then waits for the draw.

    Async streams need it. The task that is cancelled leaves a draw running in a worker thread, and
    the event loop may close a generator while its owner closes the answer.

    Args:
        stream: The answer.
    """

    def __init__(self, stream: PrivateStream) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def __next__(self) -> str:
        with self._lock:
            return next(self._stream)

    @property
    def answer(self) -> PrivateAnswer:
        """The whole answer, once the stream has ended or was closed."""
        return self._stream.answer

    def close(self) -> None:
        """End the answer. May be called again."""
        with self._lock:
            self._stream.close()

    async def pieces(self) -> AsyncIterator[str]:
        """The pieces, each drawn in a worker thread; the answer is closed at the end."""
        try:
            while (piece := await asyncio.to_thread(next, self, None)) is not None:
                yield piece
        finally:
            await asyncio.to_thread(self.close)
