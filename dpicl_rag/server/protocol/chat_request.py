"""Requests to ``/v1/chat/completions``."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from dpicl_rag.requests import Request
from dpicl_rag.server.failures import Refusal
from dpicl_rag.server.protocol import fields
from dpicl_rag.server.protocol.conversation import Message, conversation

LONGEST_STOP = 256
"""Letters of a stop string: each is looked for in every piece."""

_REFUSED = {
    **fields.REFUSED,
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
_WITHOUT_EFFECT = fields.WITHOUT_EFFECT | {
    *("frequency_penalty", "presence_penalty", "reasoning_effort", "verbosity", "modalities"),
    "function_call",
}


class StreamOptions(BaseModel):
    """See OpenAI's API."""

    model_config = ConfigDict(extra="ignore", strict=True)

    include_usage: bool = False


class ChatRequest(fields.Body):
    """The body of ``/v1/chat/completions``."""

    model_config = fields.with_other_fields(_REFUSED, _WITHOUT_EFFECT)
    refused: ClassVar = _REFUSED
    without_effect: ClassVar = _WITHOUT_EFFECT

    messages: list[Message] = Field(min_length=1, max_length=256)
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    stop: str | list[str] | None = None

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return self.stream_options is not None and self.stream_options.include_usage

    def asked(self) -> Request:
        """The question, and how it is asked.

        Raises:
            Refusal: There is none, or more stop strings than are looked for.
        """
        system, turns, question = conversation(self.messages)
        limits = [n for n in (self.max_tokens, self.max_completion_tokens) if n is not None]
        most = min(limits, default=None)
        return Request.of(
            "answer",
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
