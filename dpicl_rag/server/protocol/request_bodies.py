"""Bodies of requests: their fields, which are those of `Request`, and conversations in messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, create_model, field_validator

from dpicl_rag.prompts import plain
from dpicl_rag.requests import CONVERSATION, FIELDS, Kind, Request, Turn
from dpicl_rag.server.failures import Refusal

LONGEST_QUESTION = 4096
"""Letters."""

PublicText = Annotated[str, Field(min_length=1, max_length=512)]

RemoteKind = Literal["answer", "label", "count", "tally", "column", "survey", "summary"]
"""Kinds that a client can insist on."""

_LOCAL = frozenset({"method", "vocabulary", "votes", "threshold"})
"""Fields of programs on this machine: what they make a server do has no limit of its own."""

_LIMITED: dict[str, Any] = {
    "question": Annotated[str, Field(min_length=1, max_length=LONGEST_QUESTION)],
    "labels": Annotated[list[PublicText], Field(max_length=256)],
    "column": PublicText,
    "kind": RemoteKind,
}

B = TypeVar("B", bound=BaseModel)


ANY_QUESTION: tuple[Kind, ...] = ("answer", "count", "tally", "survey", "column")
"""Kinds of requests whose fields may stand beside a question."""


def remote_fields(*kinds: Kind) -> list[str]:
    """Fields that requests of some kinds have over a network, beside those of a conversation."""
    every = dict.fromkeys(name for kind in kinds for name in FIELDS[kind])
    return [name for name in every if name not in _LOCAL and name not in CONVERSATION]


def with_fields(name: str, base: type[B], *fields: str, required: Sequence[str] = ()) -> type[B]:
    """A body with fields of `Request`: their help, their ranges and their defaults."""
    made: dict[str, Any] = {}
    for one in fields:
        field = Request.model_fields[one]
        kind: Any = _LIMITED.get(one, field.annotation)
        if one in required:
            made[one] = (kind, Field(description=field.description))
            continue
        if field.default == ():
            made[one] = (kind, Field(default_factory=list, description=field.description))
            continue
        if one in _LIMITED:
            kind = kind | None
        made[one] = (kind, field)
    return create_model(name, __base__=base, __doc__=base.__doc__, **made)


REFUSED: Mapping[str, tuple[Any, ...]] = {
    # Any other value would need what is private.
    "top_logprobs": (None, 0),
    "tools": (None, []),
    "tool_choice": (None, "none", "auto"),
}
"""Fields that are refused in every interface, and the values of them that ask for nothing."""

WITHOUT_EFFECT = frozenset(
    {
        *("temperature", "top_p", "user", "store", "metadata", "service_tier", "tool_choice"),
        *("parallel_tool_calls", "safety_identifier", "prompt_cache_key"),
        *("keep_alive", "chat_id", "session_id"),  # of Open WebUI
    }
)
"""Fields without an effect in every interface."""


class _Extension(BaseModel):
    """Fields that OpenAI's API lacks: the object ``dpicl`` of a request."""

    model_config = ConfigDict(extra="forbid", strict=True)


if TYPE_CHECKING:
    Extension = _Extension
else:
    Extension = with_fields("Extension", _Extension, "kind", *remote_fields(*ANY_QUESTION))


def with_other_fields(
    refused: Mapping[str, tuple[Any, ...]], without_effect: frozenset[str]
) -> ConfigDict:
    """The settings of a body that says in the OpenAPI document which other fields may be there."""

    def extend(schema: dict[str, Any]) -> None:
        known = {name: {"enum": [*values]} for name, values in refused.items()}
        ignored = {name: {"description": "without effect"} for name in sorted(without_effect)}
        schema["properties"] = {**ignored, **known, **schema["properties"]}
        schema["additionalProperties"] = False

    return ConfigDict(extra="allow", strict=True, json_schema_extra=extend)


class Body(BaseModel):
    """Fields of every request for an answer."""

    refused: ClassVar[Mapping[str, tuple[Any, ...]]] = REFUSED
    without_effect: ClassVar[frozenset[str]] = WITHOUT_EFFECT

    model: str = Field(min_length=1, max_length=512)
    stream: bool | None = False
    dpicl: Extension = Field(default_factory=Extension)

    def ignored(self) -> list[str]:
        """Fields without an effect.

        Raises:
            Refusal: A field asks for what is not given, or is unknown.
        """
        found = []
        for name, value in (self.model_extra or {}).items():
            if name in self.refused:
                if value not in self.refused[name]:
                    raise Refusal(400, f"private answers have no {name}; leave it out", param=name)
            elif name not in self.without_effect:
                raise Refusal(
                    400, f"there is no field {name[:64]!r}; leave it out", param=name[:64]
                )
            if value is not None and name in self.without_effect:
                found.append(name)
        return sorted(found)


_SPEAKERS = {"user": "User", "assistant": "Assistant", "tool": "Tool", "function": "Tool"}


_NO_TEXT = ("image_url", "input_image", "image", "input_audio", "audio", "file", "input_file")


class TextPart(BaseModel):
    """A part of a message."""

    model_config = ConfigDict(extra="ignore", strict=True)

    type: Literal["text", "input_text", "output_text"]
    text: str


class Message(BaseModel):
    """A turn of a conversation. All of it is public."""

    model_config = ConfigDict(extra="ignore", strict=True)

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[TextPart] | None = None

    @field_validator("content", mode="before")
    @classmethod
    def _of_text(cls, content: object) -> object:
        parts = content if isinstance(content, list) else ()
        if any(isinstance(part, dict) and part.get("type") in _NO_TEXT for part in parts):
            raise ValueError("answers are from documents and text; leave out images, audio, files")
        return content

    @property
    def text(self) -> str:
        """Its text."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content or ())


def conversation(
    messages: Sequence[Message], param: str = "messages"
) -> tuple[str | None, tuple[Turn, ...], str]:
    """System instruction, the turns before the question, and the question.

    Raises:
        Refusal: The last turn is not a user's, or says nothing.
    """
    system = [plain(m.text) for m in messages if m.role in ("system", "developer")]
    turns = [m for m in messages if m.role not in ("system", "developer")]
    question = plain(turns[-1].text) if turns and turns[-1].role == "user" else ""
    if not question.strip():
        raise Refusal(400, "the last message must be a user's question", param=param)
    before = [(_SPEAKERS[m.role], plain(m.text)) for m in turns[:-1] if m.text.strip()]
    return "\n".join(system) or None, tuple(before), question
