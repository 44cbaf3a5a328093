"""What LlamaIndex's chat messages ask: an instruction, turns, and the question after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock

from dpicl_rag.answering.follow_ups import last_question
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.requests import Turn

_INSTRUCTING = (MessageRole.SYSTEM, MessageRole.DEVELOPER)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question after turns. All of it is public.

    Attributes:
        question: As it was typed.
        turns: Those before it.
        system: Takes the place of the template's instruction.
    """

    question: str
    turns: tuple[Turn, ...] = ()
    system: str | None = None


def asked(messages: Sequence[ChatMessage]) -> Asked:
    """Read the messages of a chat.

    Raises:
        ConfigurationError: They are no messages, or hold more than text.
    """
    if not all(isinstance(message, ChatMessage) for message in messages):
        raise ConfigurationError("chat takes a list of ChatMessage; complete takes a string")
    if not all(isinstance(block, TextBlock) for m in messages for block in m.blocks):
        raise ConfigurationError("messages hold text only; pass documents in documents=")
    system = [one.content for one in messages if one.role in _INSTRUCTING and one.content]
    said = turns_of([one for one in messages if one.role not in _INSTRUCTING])
    question, before = last_question(said)
    return Asked(question, before, "\n".join(system) or None)


def turns_of(messages: Sequence[ChatMessage]) -> list[Turn]:
    """Who says what; nothing of messages without words."""
    return [(one.role.value, one.content) for one in messages if one.content]
