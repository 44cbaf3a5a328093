"""Messages: what is the question, and what is a document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from dpicl_rag.errors import ConfigurationError
from langchain_dpicl_rag.documents import SealedDocuments, unseal

_DOCUMENT_BLOCK = "text-plain"
_SPEAKERS = {"human": "User", "ai": "Assistant", "tool": "Tool"}


def seal_blocks(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages with the text of their ``text-plain`` blocks sealed.

    The messages given stay as they are.
    """
    return [_sealed(message) for message in messages]


def read(messages: Sequence[BaseMessage]) -> tuple[str | None, str, list[str]]:
    """System instruction, question and documents of a conversation.

    One turn is the question as it stands; of several, each says who speaks.

    Raises:
        ConfigurationError: A block is neither text nor a document with text.
    """
    system: list[str] = []
    turns: list[tuple[str, str]] = []
    documents: list[str] = []
    for message in messages:
        text = "".join(_texts(message, documents))
        if message.type == "system":
            system.append(text)
        elif text:
            turns.append((_SPEAKERS.get(message.type, "User"), text))
    question = (
        turns[0][1] if len(turns) == 1 else "\n".join(f"{who}: {text}" for who, text in turns)
    )
    return "\n".join(system) or None, question, documents


def _sealed(message: BaseMessage) -> BaseMessage:
    if isinstance(message.content, str) or not any(map(_is_document, message.content)):
        return message
    content = [
        {"type": _DOCUMENT_BLOCK, "text": SealedDocuments(_document_text(block))}
        if _is_document(block)
        else block
        for block in message.content
    ]
    return message.model_copy(update={"content": content})


def _texts(message: BaseMessage, documents: list[str]) -> Iterator[str]:
    """Public text of a message; its documents go to the list."""
    blocks: list[Any] = [message.content] if isinstance(message.content, str) else message.content
    for block in blocks:
        if isinstance(block, str):
            yield block
        elif _is_document(block):
            documents.append(_document_text(block))
        elif block.get("type") == "text":
            yield block["text"]
        elif message.type != "ai":  # what another model thought or called says nothing here
            raise ConfigurationError(
                f"a message holds a block of type {block.get('type')!r}; the private path reads "
                "text, and documents as text-plain blocks"
            )


def _is_document(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == _DOCUMENT_BLOCK


def _document_text(block: Any) -> str:
    text = unseal(block.get("text"))
    if not isinstance(text, str):
        raise ConfigurationError("a text-plain block needs its text in the field 'text'")
    return text
