"""Drawing the pieces of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import aclosing, closing
from typing import Any, TypeVar, cast

from dpicl_rag.private_stream import PrivateStream
from langchain_dpicl_rag.documents import SealedDocuments

T = TypeVar("T")


def ended(pieces: Iterator[T]) -> closing[Generator[T]]:
    """Closes a generator that LangChain calls an iterator."""
    return closing(cast("Generator[T]", pieces))


def aended(pieces: AsyncIterator[T]) -> aclosing[AsyncGenerator[T]]:
    """Closes an async generator that LangChain calls an iterator."""
    return aclosing(cast("AsyncGenerator[T]", pieces))


def drawn(stream: PrivateStream, box: Any = None) -> Iterator[str]:
    """Pieces of an answer; the stream is closed at the end.

    Args:
        stream: The answer.
        box: Sealed documents whose owner closes the stream, should this generator be left behind.
    """
    if isinstance(box, SealedDocuments):
        box.keep(stream)
    with stream:
        yield from stream


async def adrawn(stream: PrivateStream, box: Any = None) -> AsyncIterator[str]:
    """``drawn`` with each draw in a worker thread.

    A draw cannot be interrupted, so a cancelled caller waits for the one in progress.
    """
    if isinstance(box, SealedDocuments):
        box.keep(stream)
    try:
        while True:
            draw = asyncio.ensure_future(asyncio.to_thread(next, stream, None))
            try:
                piece = await asyncio.shield(draw)
            except asyncio.CancelledError:
                await asyncio.wait([draw])
                raise
            if piece is None:
                return
            yield piece
    finally:
        await asyncio.to_thread(stream.close)
