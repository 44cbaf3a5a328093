"""Pieces of a private answer as they are drawn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from dataclasses import replace

from dpicl_rag.answering.worker_threads import in_thread
from dpicl_rag.errors import DPICLError, EngineUnavailableError
from dpicl_rag.language_models.tokenizer import Tokenizer
from dpicl_rag.results import PrivateAnswer, StoppedBy


class PrivateStream(Iterator[str], AsyncIterator[str]):
    """Pieces of a private answer, released one by one.

    Iterate to draw, with ``for`` or with ``async for``, which draws in worker threads. Closing
    early, or leaving a ``with`` block, ends the answer: what was released is paid for and the rest
    of the reservation is refunded. Threads may share a stream: closing waits for a draw under way.

    Args:
        tokens: Draws token ids, each paid for before it is yielded.
        tokenizer: Of the model.
        stop: Strings that end the answer; the text ends before them.
        max_tokens: Most tokens of the answer.
        start: Public words that the text begins with.
        question: What is asked, as ``PrivateAnswer`` has it.
        held: Whether the text comes as one piece when it has ended, since it may be replaced.
        close: Releases what the answer holds.
        finish: Makes the answer from text, number of tokens, why it ended, and whether it is
            whole: closed neither by the reader nor by an engine that does not answer.
    """

    def __init__(
        self,
        tokens: Generator[int, None, None],
        tokenizer: Tokenizer,
        *,
        stop: tuple[str, ...],
        max_tokens: int,
        start: str,
        question: str = "",
        held: bool = False,
        close: Callable[[], None],
        finish: Callable[[str, int, StoppedBy, bool], PrivateAnswer],
    ) -> None:
        self.question = question
        self._tokens = tokens
        self._tokenizer = tokenizer
        self._stop = stop
        self._max_tokens = max_tokens
        self._start = start
        self._held = held
        self._release = close
        self._finish = finish
        self._earlier: tuple[PrivateAnswer, ...] = ()
        self._ids: list[int] = []
        self._released = ""
        self._answer: PrivateAnswer | None = None
        self._unavailable = False
        self._pieces = self._draw()
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return "PrivateStream()"

    def __next__(self) -> str:
        while (piece := self.step()) is not None:
            if piece:
                return piece
        raise StopIteration

    def step(self) -> str | None:
        """Draw one token, or one block of them, and no more.

        Returns:
            What can be released now, perhaps nothing; None at the end.
        """
        with self._lock:
            try:
                return next(self._pieces, None)
            except BaseException:  # no `finally` in the generator: the collector would run it
                self._release()
                raise

    async def __anext__(self) -> str:
        piece = await in_thread(next, self, None)
        if piece is None:
            raise StopAsyncIteration
        return piece

    @property
    def answer(self) -> PrivateAnswer:
        """The whole answer, once the stream has ended or was closed.

        Raises:
            DPICLError: The stream is still open.
        """
        if self._answer is None:
            raise DPICLError("the answer is there when the stream has ended; read it to its end")
        return self._answer

    def add_cost(self, earlier: Iterable[PrivateAnswer]) -> None:
        """Charge the answer with those that it builds on, too."""
        self._earlier = tuple(earlier)

    def whole(self) -> PrivateAnswer:
        """Draw to the end; the answer."""
        with self:
            for _ in self:
                pass
            return self.answer

    def close(self) -> None:
        """End the answer here. Waits for a draw in another thread. May be called again."""
        with self._lock:
            try:
                self._pieces.close()
                if self._answer is None:
                    self._end("length", whole=False)
            finally:
                self._release()

    async def aclose(self) -> None:
        """``close`` in a worker thread: it may have to wait for a draw or for the ledger."""
        await in_thread(self.close)

    def __enter__(self) -> PrivateStream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> PrivateStream:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def _draw(self) -> Generator[str]:
        self._released = self._start
        if self._start and not self._held:
            yield self._start
        stopped: StoppedBy = "budget"
        for token in self._available():
            self._ids.append(token)
            if token in self._tokenizer.stop_tokens:
                stopped = "end"
                break
            text, found = self._text()
            piece = text[len(self._released) :] if len(text) > len(self._released) else ""
            self._released += piece
            yield "" if self._held else piece
            if found:
                stopped = "end"
                break
            if len(self._ids) == self._max_tokens:
                stopped = "length"
        if self._unavailable:
            stopped = "unavailable"
        text, _ = self._text(last=True)
        rest = text[len(self._released) :]
        self._released += rest
        if rest and not self._held:
            yield rest
        self._end(stopped, whole=not self._unavailable)
        if self._held or not self._released.strip():  # who reads pieces alone reads it too
            yield self.answer.text

    def _available(self) -> Generator[int]:
        """The tokens, until the engine does not answer."""
        try:
            yield from self._tokens
        except EngineUnavailableError:
            self._unavailable = True

    def _end(self, stopped: StoppedBy, *, whole: bool) -> None:
        self._tokens.close()
        text, tokens = self._released.strip(), len(self._ids)
        try:
            answer = self._finish(text, tokens, stopped, whole)
        except EngineUnavailableError:
            # The engine was asked once more for the support of a whole answer.
            answer = self._finish(text, tokens, "unavailable", False)
        self._answer = replace(answer, question=self.question).after(self._earlier)
        self._release()

    def _text(self, last: bool = False) -> tuple[str, bool]:
        """Text that can be released now, and whether a stop string was met."""
        ids = [token for token in self._ids if token not in self._tokenizer.stop_tokens]
        text = self._start + self._tokenizer.decode(ids)
        cuts = [at for s in self._stop if (at := text.find(s, len(self._start))) >= 0]
        if cuts:
            return text[: min(cuts)], True
        if last:
            return text, False
        # Half a character, or what may be the beginning of a stop string, waits.
        text = text.rstrip("\ufffd")
        held = max(
            (
                size
                for s in self._stop
                for size in range(1, len(s))
                if text.endswith(s[:size]) and len(text) - size >= len(self._start)
            ),
            default=0,
        )
        return text[: len(text) - held], False


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
