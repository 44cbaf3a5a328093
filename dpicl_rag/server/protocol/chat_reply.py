"""Replies of ``/v1/chat/completions``: one body, or events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from dpicl_rag.results import PrivateAnswer, StoppedBy
from dpicl_rag.server.failures import refusal
from dpicl_rag.server.protocol.guarantee import asked, privacy
from dpicl_rag.server.served_answer import ServedAnswer, news


def body(answering: ServedAnswer, answer: PrivateAnswer) -> dict[str, Any]:
    """The body of an answer that was not streamed."""
    message = {"role": "assistant", "content": answer.text, "refusal": None}
    choice = _choice("message", message, _finish_reason(answer.stopped_by))
    more = {"usage": _usage(answering.asked_tokens, answer), "privacy": privacy(answer)}
    return _labelled("chat.completion", answering, [choice], {**asked(answering), **more})


async def events(answering: ServedAnswer, include_usage: bool) -> AsyncIterator[str]:
    """An answer as it is drawn; the first event has the question."""

    def event(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
        choice = _choice("delta", delta, finish)
        found = _labelled("chat.completion.chunk", answering, [choice], more)
        return f"data: {json.dumps(found)}\n\n"

    try:
        yield event({"role": "assistant", "content": ""}, **asked(answering))
        async for found in news(answering):
            # A comment: clients pass over it.
            yield event({"content": found}) if isinstance(found, str) else f": read {found:g}\n\n"
        answer = await answering.ended()
        yield event({}, _finish_reason(answer.stopped_by), privacy=privacy(answer))
        if include_usage:
            usage = {"usage": _usage(answering.asked_tokens, answer)}
            last = _labelled("chat.completion.chunk", answering, [], usage)
            yield f"data: {json.dumps(last)}\n\n"
    except Exception as error:
        yield f"data: {json.dumps(refusal(error).body)}\n\n"
    answering.exchange.left = False
    yield "data: [DONE]\n\n"


def _finish_reason(stopped: StoppedBy) -> str:
    """The end of an answer, in OpenAI's words."""
    return "stop" if stopped == "end" else "length"


def _usage(asked: int, answer: PrivateAnswer) -> dict[str, int]:
    """Tokens of the asker's own text, and released ones."""
    return {
        "prompt_tokens": asked,
        "completion_tokens": answer.tokens,
        "total_tokens": asked + answer.tokens,
    }


def _choice(part: str, content: Mapping[str, Any], finish: str | None) -> dict[str, Any]:
    return {"index": 0, part: content, "logprobs": None, "finish_reason": finish}


def _labelled(
    kind: str, answering: ServedAnswer, choices: Sequence[Any], more: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{answering.id}",
        "object": kind,
        "created": answering.created,
        "model": answering.name,
        "choices": choices,
        **more,
    }
