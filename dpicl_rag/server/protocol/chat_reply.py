"""``/v1/chat/completions``: its requests, and replies in one body or as events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from dpicl_rag.requests import Request
from dpicl_rag.results import PrivateAnswer, StoppedBy
from dpicl_rag.server.failures import Refusal, refusal
from dpicl_rag.server.protocol import request_bodies
from dpicl_rag.server.protocol.request_bodies import Message, conversation
from dpicl_rag.server.served_request import ServedRequest, privacy


def body(answering: ServedRequest, answer: PrivateAnswer) -> dict[str, Any]:
    """The body of an answer that was not streamed."""
    message = {"role": "assistant", "content": answer.text, "refusal": None}
    choice = _choice("message", message, _finish_reason(answer.stopped_by))
    more = {"usage": _usage(answering.asked_tokens, answer), "privacy": privacy(answer)}
    return _labelled("chat.completion", answering, [choice], {**answering.shown_question, **more})


async def events(answering: ServedRequest, include_usage: bool) -> AsyncIterator[str]:
    """An answer as it is drawn; the first event has the question."""

    def event(delta: dict[str, Any], finish: str | None = None, **more: Any) -> str:
        choice = _choice("delta", delta, finish)
        found = _labelled("chat.completion.chunk", answering, [choice], more)
        return f"data: {json.dumps(found)}\n\n"

    try:
        yield event({"role": "assistant", "content": ""}, **answering.shown_question)
        async for found in answering.news():
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
    kind: str, answering: ServedRequest, choices: Sequence[Any], more: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{answering.id}",
        "object": kind,
        "created": answering.created,
        "model": answering.name,
        "choices": choices,
        **more,
    }


LONGEST_STOP = 256
"""Letters of a stop string: each is looked for in every piece."""

_REFUSED = {
    **request_bodies.REFUSED,
    "logprobs": (None, False, 0),
    "logit_bias": (None, {}),
    "n": (None, 1),
    "best_of": (None, 1),
    "echo": (None, False),
    "functions": (None, []),
    "function_call": (None, "none", "auto"),
    "response_format": (None, {"type": "text"}),
    "seed": (None,),
    "audio": (None,),
    "prediction": (None,),
    "web_search_options": (None,),
}
_WITHOUT_EFFECT = request_bodies.WITHOUT_EFFECT | {
    *("frequency_penalty", "presence_penalty", "reasoning_effort", "verbosity", "modalities"),
    "function_call",
}


class StreamOptions(BaseModel):
    """See OpenAI's API."""

    model_config = ConfigDict(extra="ignore", strict=True)

    include_usage: bool = False


class ChatRequest(request_bodies.Body):
    """The body of ``/v1/chat/completions``."""

    model_config = request_bodies.with_other_fields(_REFUSED, _WITHOUT_EFFECT)
    refused: ClassVar = _REFUSED
    without_effect: ClassVar = _WITHOUT_EFFECT

    messages: list[Message] = Field(min_length=1, max_length=256)
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    stop: str | list[str] | None = None

    @property
    def include_usage(self) -> bool:
        """True where a stream ends with the usage."""
        return self.stream_options is not None and self.stream_options.include_usage

    def asked(self) -> Request:
        """The question, and how it is asked.

        Raises:
            Refusal: There is none, or more stop strings than are looked for.
        """
        system, turns, question = conversation(self.messages)
        limits = [n for n in (self.max_tokens, self.max_completion_tokens) if n is not None]
        most = min(limits, default=None)
        return Request.in_conversation(
            question=question,
            turns=turns,
            system=system,
            max_tokens=most,
            stop=self._stops(),
            **self.dpicl.model_dump(),
        )

    def _stops(self) -> tuple[str, ...]:
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        if len(given) > 4 or not all(0 < len(one) <= LONGEST_STOP for one in given):
            raise Refusal(
                400, f"give up to 4 stop strings of 1 to {LONGEST_STOP} letters", param="stop"
            )
        return tuple(given)
