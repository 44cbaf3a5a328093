"""LlamaIndex's response objects, made from what the private path releases."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing
from typing import Any, cast

from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)

from dpicl_rag.answers import PrivateAnswer
from dpicl_rag.gathering import Documents
from dpicl_rag.private_context_llm import PrivateContextLLM as Core


def public_numbers(core: Core, answer: PrivateAnswer) -> dict[str, Any]:
    """What may stand beside an answer: public numbers, none of which counts inputs."""
    return {
        "epsilon": answer.epsilon,
        "delta": answer.delta,
        "budget_left": core.budget_left(),
        "output_tokens": answer.tokens,
        "stopped_by": answer.stopped_by,
    }


def pieces(core: Core, question: str, documents: Documents) -> Generator[str, None, None]:
    """Pieces of an answer. Nothing is reserved before the first is asked for.

    Closing the generator ends the answer and refunds what was not released.
    """
    with core.stream(question, documents) as stream:
        yield from stream


async def apieces(core: Core, question: str, documents: Documents) -> AsyncGenerator[str, None]:
    """``pieces``, each drawn in a worker thread."""
    async with aclosing(_stream(core, question, documents)) as stream:
        async for piece in stream:
            yield piece


def respond(
    core: Core, question: str, documents: Documents, *, streaming: bool
) -> Response | StreamingResponse:
    """A response without nodes."""
    if streaming:
        return StreamingResponse(pieces(core, question, documents), source_nodes=[])
    answer = core.answer(question, documents)
    return Response(answer.text, source_nodes=[], metadata=public_numbers(core, answer))


async def arespond(
    core: Core, question: str, documents: Documents, *, streaming: bool
) -> Response | AsyncStreamingResponse:
    """``respond`` without blocking the event loop."""
    if streaming:
        return AsyncStreamingResponse(apieces(core, question, documents), source_nodes=[])
    answer = await core.aanswer(question, documents)
    return Response(answer.text, source_nodes=[], metadata=public_numbers(core, answer))


def _stream(core: Core, question: str, documents: Documents) -> AsyncGenerator[str, None]:
    # It is an async generator, so that it can be closed; the core promises an iterator only.
    return cast(AsyncGenerator[str, None], core.astream(question, documents))
