"""Messages of OpenAI's clients, in and out: the parts that have a meaning here."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from dpicl_rag.answering.answers import PrivateAnswer, StoppedBy
from dpicl_rag.answering.follow_ups import Turn
from dpicl_rag.server.failures import Refusal

Label = tuple[str, str, int]
"""Identifier, model and time, as every message of an answer bears them."""

_REFUSED: Mapping[str, tuple[Any, ...]] = {
    # By field: values that ask for nothing. Any other would need what is private.
    "logprobs": (None, False, 0),
    "top_logprobs": (None, 0),
    "logit_bias": (None, {}),
    "n": (None, 1),
    "best_of": (None, 1),
    "echo": (None, False),
    "tools": (None, []),
    "tool_choice": (None, "none", "auto"),
    "functions": (None, []),
    "function_call": (None, "none", "auto"),
    "response_format": (None, {"type": "text"}),
    "seed": (None,),
    "audio": (None,),
    "prediction": (None,),
    "web_search_options": (None,),
}
_WITHOUT_EFFECT = frozenset(
    {
        *("temperature", "top_p", "frequency_penalty", "presence_penalty", "user", "store"),
        *("metadata", "service_tier", "parallel_tool_calls", "reasoning_effort", "verbosity"),
        *("modalities", "safety_identifier", "prompt_cache_key", "tool_choice", "function_call"),
    }
)
_ROLES = {"user": "User", "assistant": "Assistant", "tool": "Tool", "function": "Tool"}


LONGEST_STOP = 256
"""Letters of a stop string: each is looked for in every piece."""


class TextPart(BaseModel):
    """A part of a message."""

    model_config = ConfigDict(extra="ignore", strict=True)

    type: Literal["text"]
    text: str


class Message(BaseModel):
    """A turn of a conversation. All of it is public."""

    model_config = ConfigDict(extra="ignore", strict=True)

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[TextPart] | None = None

    @property
    def text(self) -> str:
        """Its text."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content or ())


class StreamOptions(BaseModel):
    """See OpenAI's API."""

    model_config = ConfigDict(extra="ignore", strict=True)

    include_usage: bool = False


class Extension(BaseModel):
    """Fields that OpenAI's API lacks: the object ``dpicl`` of a request.

    Attributes:
        fresh: Ask the documents again where the memory has the answer to the same question.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    fresh: bool = False


def _with_other_fields(schema: dict[str, Any]) -> None:
    """Say in the OpenAPI document which fields beside these may be there."""
    known = {name: {"enum": [*values]} for name, values in _REFUSED.items()}
    ignored = {name: {"description": "without effect"} for name in sorted(_WITHOUT_EFFECT)}
    schema["properties"] = {**ignored, **known, **schema["properties"]}
    schema["additionalProperties"] = False


class ChatRequest(BaseModel):
    """The body of ``/v1/chat/completions``."""

    model_config = ConfigDict(extra="allow", strict=True, json_schema_extra=_with_other_fields)

    model: str = Field(min_length=1, max_length=512)
    messages: list[Message] = Field(min_length=1, max_length=256)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    stop: str | list[str] | None = None
    dpicl: Extension = Field(default_factory=Extension)

    @property
    def most_tokens(self) -> int | None:
        """Of the answer, as far as the client says."""
        given = [n for n in (self.max_tokens, self.max_completion_tokens) if n is not None]
        return min(given, default=None)

    @property
    def stops(self) -> tuple[str, ...]:
        """Strings that end the answer."""
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        if len(given) > 4 or not all(0 < len(one) <= LONGEST_STOP for one in given):
            raise Refusal(
                400, f"give up to 4 stop strings of 1 to {LONGEST_STOP} letters", param="stop"
            )
        return tuple(given)

    def ignored(self) -> list[str]:
        """Fields without an effect.

        Raises:
            Refusal: A field asks for what is not given, or is unknown.
        """
        found = []
        for name, value in (self.model_extra or {}).items():
            if name in _REFUSED:
                if value not in _REFUSED[name]:
                    raise Refusal(400, f"private answers have no {name}; leave it out", param=name)
            elif name not in _WITHOUT_EFFECT:
                raise Refusal(
                    400, f"there is no field {name[:64]!r}; leave it out", param=name[:64]
                )
            if value is not None and name in _WITHOUT_EFFECT:
                found.append(name)
        return sorted(found)

    def conversation(self) -> tuple[str | None, tuple[Turn, ...], str]:
        """System instruction, the turns before the question, and the question.

        Raises:
            Refusal: The last turn is not a user's, or says nothing.
        """
        system = [plain(m.text) for m in self.messages if m.role in ("system", "developer")]
        turns = [m for m in self.messages if m.role not in ("system", "developer")]
        question = plain(turns[-1].text) if turns and turns[-1].role == "user" else ""
        if not question.strip():
            raise Refusal(400, "the last message must be a user's question", param="messages")
        before = [(_ROLES[m.role], plain(m.text)) for m in turns[:-1] if m.text.strip()]
        return "\n".join(system) or None, tuple(before), question


def plain(text: str) -> str:
    """Text without control characters, which mark places of a prompt, and without half ones."""
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs"))


def model(name: str) -> dict[str, Any]:
    """A model of the list: a corpus, or the public one."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "dpicl-rag"}


def finish_reason(stopped: StoppedBy) -> str:
    """The end of an answer, in OpenAI's words."""
    return "stop" if stopped == "end" else "length"


def privacy(answer: PrivateAnswer) -> dict[str, Any]:
    """The guarantee that travels with an answer: public numbers."""
    numbers = ("epsilon", "delta", "rho", "agreeing", "agreeing_within")
    words = ("stopped_by", "supported", "from_memory", "by", "released")
    return {name: getattr(answer, name) for name in (*numbers, *words)}


def usage(asked: int, answer: PrivateAnswer) -> dict[str, int]:
    """Tokens of the asker's own text, and released ones."""
    return {
        "prompt_tokens": asked,
        "completion_tokens": answer.tokens,
        "total_tokens": asked + answer.tokens,
    }


def completion(label: Label, asked: int, answer: PrivateAnswer) -> dict[str, Any]:
    """The body of an answer that was not streamed."""
    message = {"role": "assistant", "content": answer.text, "refusal": None}
    choice = _choice("message", message, finish_reason(answer.stopped_by))
    more = {"usage": usage(asked, answer), "privacy": privacy(answer)}
    return _labelled("chat.completion", label, [choice], more)


def chunk(
    label: Label, delta: Mapping[str, Any], finish: str | None = None, **more: Any
) -> dict[str, Any]:
    """One event of a stream."""
    choice = _choice("delta", delta, finish)
    return _labelled("chat.completion.chunk", label, [choice], more)


def usage_chunk(label: Label, usage: Mapping[str, int]) -> dict[str, Any]:
    """The last event of a stream that was asked for usage."""
    return _labelled("chat.completion.chunk", label, [], {"usage": usage})


def _choice(part: str, content: Mapping[str, Any], finish: str | None) -> dict[str, Any]:
    return {"index": 0, part: content, "logprobs": None, "finish_reason": finish}


def _labelled(
    kind: str, label: Label, choices: Sequence[Any], more: Mapping[str, Any]
) -> dict[str, Any]:
    id, model, created = label
    start = {"id": id, "object": kind, "created": created, "model": model}
    return {**start, "choices": choices, **more}
