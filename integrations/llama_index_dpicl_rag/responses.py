"""LlamaIndex's response objects, made from what the private path releases."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Any

from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)

from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.results import PrivateAnswer
from dpicl_rag.retrieval import Documents


def pieces(
    llm: PrivateContextLLM,
    question: str,
    documents: Documents,
    numbers: dict[str, Any],
    *,
    fresh: bool,
) -> Generator[str, None, None]:
    """Pieces of an answer. Nothing is reserved before the first is asked for.

    Closing the generator ends the answer and refunds what was not released.

    Args:
        llm: Answers.
        question: Public text.
        documents: Private documents.
        numbers: Filled, when the answer has ended, with what may stand beside it.
        fresh: Ask the documents again where the memory has the answer.
    """
    with llm.stream(question, documents, fresh=fresh) as stream:
        yield from stream
        numbers |= llm.public_numbers(stream.answer)


async def apieces(
    llm: PrivateContextLLM,
    question: str,
    documents: Documents,
    numbers: dict[str, Any],
    *,
    fresh: bool,
) -> AsyncGenerator[str, None]:
    """``pieces`` with the search and each draw in a worker thread."""
    async with llm.astream(question, documents, fresh=fresh) as stream:
        async for piece in stream:
            yield piece
        numbers |= llm.public_numbers(stream.answer)


def respond(
    llm: PrivateContextLLM, question: str, documents: Documents, *, streaming: bool, fresh: bool
) -> Response | StreamingResponse:
    """A response without nodes. The metadata of a stream is there when it has ended."""
    if streaming:
        numbers: dict[str, Any] = {}
        stream = pieces(llm, question, documents, numbers, fresh=fresh)
        return StreamingResponse(stream, [], numbers)
    return _response(llm, llm.answer(question, documents, fresh=fresh))


async def arespond(
    llm: PrivateContextLLM, question: str, documents: Documents, *, streaming: bool, fresh: bool
) -> Response | AsyncStreamingResponse:
    """``respond`` without blocking the event loop."""
    if streaming:
        numbers: dict[str, Any] = {}
        stream = apieces(llm, question, documents, numbers, fresh=fresh)
        return AsyncStreamingResponse(stream, [], numbers)
    return _response(llm, await llm.aanswer(question, documents, fresh=fresh))


def _response(llm: PrivateContextLLM, answer: PrivateAnswer) -> Response:
    return Response(answer.text, source_nodes=[], metadata=llm.public_numbers(answer))
