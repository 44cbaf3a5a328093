"""Calls that show LlamaIndex's handlers the question and the answer, and nothing else."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing, closing
from typing import Any, TypeVar

from llama_index.core.llms import LLM
from llama_index_instrumentation.dispatcher import DISPATCHER_SPAN_DECORATED_ATTR

S = TypeVar("S")
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


class Recorder:
    """Answers questions under one of LlamaIndex's callbacks.

    A callback hands all arguments of the call that it decorates to every handler. So it decorates a
    call that has the question alone; what is private is inside the answer.

    Args:
        callback: ``llm_completion_callback`` or ``llm_chat_callback``.
    """

    def __init__(self, callback: Callable[[], Callable[..., Any]]) -> None:
        self._callback = callback

    def answer(
        self, llm: LLM, question: Any, answer: Callable[[], S], convert: Callable[[S], T]
    ) -> T:
        """Answer a question.

        Args:
            llm: The model that handlers see.
            question: The prompt or the messages that they see.
            answer: Asks with what is private.
            convert: Makes the response, which they see too.
        """

        @self._callback()
        def told(_llm: LLM, _question: Any) -> T:
            return convert(answer())

        response: T = told(llm, question)
        return response

    async def aanswer(
        self, llm: LLM, question: Any, answer: Callable[[], Awaitable[S]], convert: Callable[[S], T]
    ) -> T:
        """``answer`` for async callers."""

        @self._callback()
        async def told(_llm: LLM, _question: Any) -> T:
            return convert(await answer())

        response: T = await told(llm, question)
        return response

    def stream(
        self,
        llm: LLM,
        question: Any,
        stream: Generator[S, None, None],
        convert: Callable[[Generator[S, None, None]], Generator[T, None, None]],
    ) -> Generator[T, None, None]:
        """``answer`` piece by piece; handlers are notified with the first."""
        # The stream is closed here, whatever a handler does with the generator that it sees.
        with closing(stream):
            yield from self.answer(llm, question, lambda: stream, convert)

    async def astream(
        self,
        llm: LLM,
        question: Any,
        stream: AsyncGenerator[S, None],
        convert: Callable[[AsyncGenerator[S, None]], AsyncGenerator[T, None]],
    ) -> AsyncGenerator[T, None]:
        """``stream`` for async callers."""

        @self._callback()
        async def told(_llm: LLM, _question: Any) -> AsyncGenerator[T, None]:
            return convert(stream)

        async with aclosing(stream), aclosing(await told(llm, question)) as responses:
            async for response in responses:
                yield response
