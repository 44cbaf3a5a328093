"""LlamaIndex's response objects, made from what the private path releases."""

from __future__ import annotations

from collections.abc import Generator

from llama_index.core.base.response.schema import (
    AsyncStreamingResponse,
    Response,
    StreamingResponse,
)

from dpicl_rag.answers import PrivateAnswer
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.retrieval import Documents


def pieces(
    llm: PrivateContextLLM, question: str, documents: Documents
) -> Generator[str, None, None]:
    """Pieces of an answer, as from ``astream``: nothing is reserved before the first is asked for.

    Closing the generator ends the answer and refunds what was not released.
    """
    with llm.stream(question, documents) as stream:
        yield from stream


def respond(
    llm: PrivateContextLLM, question: str, documents: Documents, *, streaming: bool
) -> Response | StreamingResponse:
    """A response without nodes."""
    if streaming:
        return StreamingResponse(pieces(llm, question, documents), source_nodes=[])
    return _response(llm, llm.answer(question, documents))


async def arespond(
    llm: PrivateContextLLM, question: str, documents: Documents, *, streaming: bool
) -> Response | AsyncStreamingResponse:
    """``respond`` without blocking the event loop."""
    if streaming:
        return AsyncStreamingResponse(llm.astream(question, documents), source_nodes=[])
    return _response(llm, await llm.aanswer(question, documents))


def _response(llm: PrivateContextLLM, answer: PrivateAnswer) -> Response:
    return Response(answer.text, source_nodes=[], metadata=llm.public_numbers(answer))
