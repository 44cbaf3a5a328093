"""An answer while it is being drawn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from types import TracebackType

from dpicl_rag.answers import PrivateAnswer, StoppedBy
from dpicl_rag.errors import DPICLError


class PrivateStream(Iterator[str]):
    """Pieces of a private answer, released one by one.

    Iterate to draw. Closing early, or leaving a ``with`` block, ends the answer: what was
    released is paid for and the rest of the reservation is refunded.

    Args:
        tokens: Draws token ids, each paid for before it is yielded.
        decode: Text of token ids.
        stop_tokens: Tokens that end the answer.
        stop: Strings that end the answer; the text ends before them.
        max_tokens: Most tokens of the answer.
        start: Public words that the text begins with.
        finish: Releases what the answer holds.
        settle: Makes the answer from text, number of tokens and why it ended.
    """

    def __init__(
        self,
        tokens: Iterator[int],
        *,
        decode: Callable[[list[int]], str],
        stop_tokens: frozenset[int],
        stop: tuple[str, ...],
        max_tokens: int,
        start: str,
        finish: Callable[[], None],
        settle: Callable[[str, int, StoppedBy], PrivateAnswer],
    ) -> None:
        self._tokens = tokens
        self._decode = decode
        self._stop_tokens = stop_tokens
        self._stop = stop
        self._max_tokens = max_tokens
        self._start = start
        self._finish = finish
        self._settle = settle
        self._ids: list[int] = []
        self._released = ""
        self._answer: PrivateAnswer | None = None
        self._pieces = self._draw()
        self._lock = threading.RLock()

    def __next__(self) -> str:
        with self._lock:
            return next(self._pieces)

    @property
    def answer(self) -> PrivateAnswer:
        """The whole answer, once the stream has ended or was closed.

        Raises:
            DPICLError: The stream is still open.
        """
        if self._answer is None:
            raise DPICLError("the answer is there when the stream has ended; read it to its end")
        return self._answer

    def close(self) -> None:
        """End the answer here. Waits for a draw in another thread. May be called again."""
        with self._lock:
            self._pieces.close()
            if self._answer is None:
                self._end("length")

    def __enter__(self) -> PrivateStream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return "PrivateStream()"

    def _draw(self) -> Generator[str]:
        try:
            if self._start:
                self._released = self._start
                yield self._start
            stopped: StoppedBy = "budget"
            for token in self._tokens:
                self._ids.append(token)
                if token in self._stop_tokens:
                    stopped = "end"
                    break
                text, found = self._text()
                piece = text[len(self._released) :] if len(text) > len(self._released) else ""
                self._released += piece
                if piece:
                    yield piece
                if found:
                    stopped = "end"
                    break
                if len(self._ids) == self._max_tokens:
                    stopped = "length"
            text, _ = self._text(last=True)
            rest = text[len(self._released) :]
            self._released += rest
            if rest:
                yield rest
            self._end(stopped)
        finally:
            self._finish()

    def _end(self, stopped: StoppedBy) -> None:
        self._finish()
        self._answer = self._settle(self._released.strip(), len(self._ids), stopped)

    def _text(self, last: bool = False) -> tuple[str, bool]:
        """Text that can be released now, and whether a stop string was met."""
        ids = [token for token in self._ids if token not in self._stop_tokens]
        text = self._start + self._decode(ids)
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
