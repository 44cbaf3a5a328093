"""A conversation in messages: the instruction, the turns before the question, and the question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from dpicl_rag.prompts import plain
from dpicl_rag.requests import Turn
from dpicl_rag.server.failures import Refusal

_SPEAKERS = {"user": "User", "assistant": "Assistant", "tool": "Tool", "function": "Tool"}


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

    Args:
        messages: In their order.
        param: The field that they stand in.

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
