"""Recorders: LlamaIndex's handlers see the question and the answer, and nothing else."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable
from contextlib import aclosing, closing
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)
from llama_index_instrumentation.dispatcher import DISPATCHER_SPAN_DECORATED_ATTR

from dpicl_rag.framework_bridge import PrivateCall
from dpicl_rag.results import PrivateAnswer

M = TypeVar("M")
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
T = TypeVar("T")


class Unrecorded:
    """Base of classes whose methods take private arguments; put it before LlamaIndex's own.

    LlamaIndex wraps every method that a subclass overrides in a span, and a span hands all
    arguments of the call to every span handler. A method that is marked as wrapped is left alone.
    Subclasses of subclasses are covered too.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        for method in vars(cls).values():
            if inspect.isfunction(method):
                setattr(method, DISPATCHER_SPAN_DECORATED_ATTR, True)
        super().__init_subclass__(**kwargs)


class Asked(Protocol[S_co]):
    """A question on its way to an answer, with what is private inside."""

    @property
    def shown(self) -> Any:
        """Prompt or messages, as handlers see them."""

    def answer(self) -> S_co:
        """The whole answer."""

    async def aanswer(self) -> S_co:
        """``answer`` for async callers."""

    def pieces(self) -> Generator[S_co, None, None]:
        """The answer piece by piece."""

    async def apieces(self) -> AsyncGenerator[S_co, None]:
        """``pieces`` for async callers."""


class Recorder(Generic[S, T]):
    """Makes methods of a language model that answer under one of LlamaIndex's callbacks.

    A callback hands all arguments of the call that it decorates to every handler. So it decorates a
    call that has the question alone; what is private is inside the answer. Each method reads its
    arguments first; async ones do so in a worker thread.

    Args:
        callback: ``llm_completion_callback`` or ``llm_chat_callback``.
        whole: Makes the response, which handlers see too.
        pieces: Makes the responses of a stream.
        apieces: ``pieces`` for async callers.
    """

    def __init__(
        self,
        callback: Callable[[], Callable[..., Any]],
        whole: Callable[[S], T],
        pieces: Callable[[Generator[S, None, None]], Generator[T, None, None]],
        apieces: Callable[[AsyncGenerator[S, None]], AsyncGenerator[T, None]],
    ) -> None:
        self._callback, self._whole = callback, whole
        self._pieces, self._apieces = pieces, apieces

    def methods(
        self,
        read: Callable[Concatenate[M, P], Asked[S]],
        async_words: str,
        stream_words: str,
        async_stream_words: str,
    ) -> tuple[
        Callable[Concatenate[M, P], T],
        Callable[Concatenate[M, P], Coroutine[Any, Any, T]],
        Callable[Concatenate[M, P], Generator[T, None, None]],
        Callable[Concatenate[M, P], Coroutine[Any, Any, AsyncGenerator[T, None]]],
    ]:
        """Methods that answer whole and in pieces, each for sync and for async callers.

        Handlers are notified of a stream with its first piece.

        Args:
            read: Reads the methods' arguments; its docstring is that of the first.
            async_words: Docstring of the second.
            stream_words: Docstring of the third.
            async_stream_words: Docstring of the fourth.
        """

        @wraps(read)
        def answer(llm: M, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return self.answer(llm, read(llm, *args, **kwargs))

        async def aanswer(llm: M, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return await self.aanswer(llm, await asyncio.to_thread(read, llm, *args, **kwargs))

        def stream(llm: M, /, *args: P.args, **kwargs: P.kwargs) -> Generator[T, None, None]:
            return self.stream(llm, read(llm, *args, **kwargs))

        async def astream(llm: M, /, *args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T, None]:
            return self.astream(llm, await asyncio.to_thread(read, llm, *args, **kwargs))

        aanswer.__doc__, stream.__doc__ = async_words, stream_words
        astream.__doc__ = async_stream_words
        return answer, aanswer, stream, astream

    def answer(self, llm: Any, asked: Asked[S]) -> T:
        """The answer, under the callback of a language model."""
        return self._told(llm, asked, lambda: self._whole(asked.answer()))

    async def aanswer(self, llm: Any, asked: Asked[S]) -> T:
        """``answer`` for async callers."""

        async def told() -> T:
            return self._whole(await asked.aanswer())

        return await self._atold(llm, asked, told)

    def stream(self, llm: Any, asked: Asked[S]) -> Generator[T, None, None]:
        """``answer`` piece by piece."""
        # The stream is closed here, whatever a handler does with the generator that it sees.
        with closing(asked.pieces()) as stream:
            yield from self._told(llm, asked, lambda: self._pieces(stream))

    async def astream(self, llm: Any, asked: Asked[S]) -> AsyncGenerator[T, None]:
        """``stream`` for async callers."""
        async with aclosing(await asked.apieces()) as stream:

            async def told() -> AsyncGenerator[T, None]:
                return self._apieces(stream)

            async with aclosing(await self._atold(llm, asked, told)) as responses:
                async for response in responses:
                    yield response

    def _told(self, llm: Any, asked: Asked[S], answer: Callable[[], R]) -> R:
        @self._callback()
        def told(_llm: Any, _shown: Any) -> R:
            return answer()

        response: R = told(llm, asked.shown)
        return response

    async def _atold(
        self, llm: Any, asked: Asked[S], answer: Callable[[], Coroutine[Any, Any, R]]
    ) -> R:
        @self._callback()
        async def told(_llm: Any, _shown: Any) -> R:
            return await answer()

        response: R = await told(llm, asked.shown)
        return response


def respond(call: PrivateCall, *, streaming: bool) -> Response | StreamingResponse:
    """A response without nodes. The metadata of a stream is there when it has ended."""
    if streaming:
        numbers: dict[str, Any] = {}
        return StreamingResponse(call.pieces(words(call, numbers)), [], numbers)
    return _response(call, call.answer())


async def arespond(call: PrivateCall, *, streaming: bool) -> Response | AsyncStreamingResponse:
    """``respond`` without blocking the event loop."""
    if streaming:
        numbers: dict[str, Any] = {}
        return AsyncStreamingResponse(call.apieces(words(call, numbers)), [], numbers)
    return _response(call, await call.aanswer())


def words(
    call: PrivateCall, numbers: dict[str, Any]
) -> Callable[[str, PrivateAnswer | None], Iterable[str]]:
    """Pieces as they are; what may stand beside the answer goes to ``numbers`` at its end."""

    def shown(piece: str, answer: PrivateAnswer | None) -> Iterable[str]:
        if answer is None:
            return (piece,)
        numbers.update(call.llm.public_numbers(answer))
        return ()

    return shown


def _response(call: PrivateCall, answer: PrivateAnswer) -> Response:
    return Response(answer.text, source_nodes=[], metadata=call.llm.public_numbers(answer))
