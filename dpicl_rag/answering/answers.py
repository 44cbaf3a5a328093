"""Results of the private path: a DP output and public numbers, nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from dpicl_rag.answering.notebook_table import notebook_table, privacy_rows
from dpicl_rag.errors import DPICLError, EngineUnavailableError, StoppedError
from dpicl_rag.language_models.tokenizer import Tokenizer
from dpicl_rag.language_models.turns import taking_turns

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

StoppedBy = Literal["end", "length", "budget", "unavailable"]
"""The end of an answer: the model's end token or a stop string, ``max_tokens``, the budget, or an
engine that did not answer. What was released until then is paid for, and the rest refunded."""


ReleasedBy = Literal["agreement", "tokens", "memory", "public"]
"""How an answer came about: experts said the same, tokens were drawn, public knowledge had it (the
same question was answered before, or documents confirmed what the model knew from there), or the
public model replied by itself to small talk, about which no document is asked."""


@dataclass(frozen=True, slots=True)
class PrivateAnswer:
    """A private answer.

    Attributes:
        text: The released text.
        epsilon: The answer as a whole is (epsilon, delta)-DP for every privacy unit.
        delta: See ``epsilon``.
        rho: zCDP rho charged for the answer. Under individual accounting it is a bound that
            holds for every unit (its worst cost per token, up to the answer's budget), not what
            any unit has spent.
        tokens: Number of released tokens, the end token included.
        stopped_by: Why it ended.
        corpus: Name under which a ledger books it.
        supported: Whether enough documents support it, by a noisy count; None where that was not
            asked, or the answer was closed early or ended by an engine that did not answer.
        from_memory: Whether it was released before, and so costs nothing now.
        recalled: Number of public texts that informed the public row.
        by: How it came about; None where nothing was released.
        agreeing: About how many documents say so, by a noisy count; None where none was taken.
        agreeing_within: That number is nearer than this to the true one, 95 times in 100.
        question: What was asked, in whole words where it followed on others.
        released: What was released, where ``text`` is that in a reader's words (``polish``); it is
            what documents support. None where ``text`` is what was released.
    """

    text: str
    epsilon: float
    delta: float
    rho: float
    tokens: int
    stopped_by: StoppedBy
    corpus: str
    supported: bool | None = None
    from_memory: bool = False
    recalled: int = 0
    by: ReleasedBy | None = None
    agreeing: int | None = None
    agreeing_within: int | None = None
    released: str | None = None
    question: str = ""

    def polished(self, polish: Callable[[str], str]) -> PrivateAnswer:
        """The same in other words, with what was released beside them.

        Args:
            polish: From the released text to another; it sees nothing else that is private.
        """
        text = polish(self.text)
        return self if text == self.text else replace(self, text=text, released=self.text)

    def public_numbers(self) -> dict[str, Any]:
        """Public numbers that may stand beside the text, none of which counts inputs.

        With the question, and ``released`` where there is one.
        """
        numbers = {
            "question": self.question,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "output_tokens": self.tokens,
            "stopped_by": self.stopped_by,
            "supported": self.supported,
            "from_memory": self.from_memory,
            "by": self.by,
            "agreeing": self.agreeing,
            "agreeing_within": self.agreeing_within,
        }
        return numbers if self.released is None else {**numbers, "released": self.released}

    def _repr_html_(self) -> str:
        said = {True: "by the documents", False: "not by the documents", None: "not asked"}
        grounds = "answered before" if self.from_memory else said[self.supported]
        if self.by == "public":
            grounds = "small talk: no document was asked"
        rows = [("supported", grounds)]
        if self.agreeing is not None:
            rows.append(("agreeing", f"about {self.agreeing} (\u00b1{self.agreeing_within})"))
        if self.released is not None:
            rows.append(("released", self.released))
        rows += privacy_rows(self.epsilon, self.delta, self.rho)
        return notebook_table(self.text, [*rows, ("ended by", self.stopped_by)])


@dataclass(frozen=True, slots=True)
class PrivateLabel:
    """A private choice among labels.

    Attributes:
        label: The label drawn, as it was given.
        epsilon: The choice is (epsilon, delta)-DP for every privacy unit.
        delta: Zero, as one draw over labels is purely DP; but for ``votes-gaussian``, and where
            the search for documents was charged too.
        rho: zCDP rho charged for it.
    """

    label: str
    epsilon: float
    delta: float
    rho: float

    def _repr_html_(self) -> str:
        return notebook_table(self.label, privacy_rows(self.epsilon, self.delta, self.rho))


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
        finish: Releases what the answer holds.
        settle: Makes the answer from text, number of tokens, why it ended, and whether it is
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
        finish: Callable[[], None],
        settle: Callable[[str, int, StoppedBy, bool], PrivateAnswer],
    ) -> None:
        self.question = question
        self._tokens = tokens
        self._tokenizer = tokenizer
        self._stop = stop
        self._max_tokens = max_tokens
        self._start = start
        self._held = held
        self._finish = finish
        self._settle = settle
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
            return next(self._pieces, None)

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

    def close(self) -> None:
        """End the answer here. Waits for a draw in another thread. May be called again."""
        with self._lock:
            self._pieces.close()
            if self._answer is None:
                self._end("length", whole=False)

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
        try:
            if self._start:
                self._released = self._start
                if not self._held:
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
            if self._held:
                yield self.answer.text
        finally:
            self._finish()

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
            try:
                answer = self._settle(text, tokens, stopped, whole)
            except EngineUnavailableError:
                # The engine was asked once more for the support of a whole answer.
                answer = self._settle(text, tokens, "unavailable", False)
            self._answer = replace(answer, question=self.question)
        finally:
            self._finish()

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


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run in a worker thread; whoever is cancelled meanwhile waits for it to end.

    Otherwise a stream would be closed beside a draw that still runs, and keep its reservation.
    """
    task = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def in_worker(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The async twin of a method: the same call in a worker thread.

    Where whoever asks is cancelled, what goes in steps ends at the next one.
    """

    async def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        # By name, so that a subclass's own method is called.
        own: Callable[P, T] = getattr(self, method.__name__)
        left = threading.Event()

        def wanted() -> None:
            if left.is_set():
                raise StoppedError("whoever asked has gone")

        def call() -> T:
            with taking_turns(wanted):
                return own(*args, **kwargs)

        try:
            return await asyncio.to_thread(call)
        finally:
            left.set()

    twin.__doc__ = f"``{method.__name__}`` in a worker thread."
    return twin
