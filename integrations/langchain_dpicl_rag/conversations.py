"""Conversations: the question and the documents in messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage

from dpicl_rag.answering.follow_ups import last_question
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.requests import Turn
from langchain_dpicl_rag.sealed_documents import SealedDocuments, unseal

_DOCUMENT_BLOCK = "text-plain"
_SPEAKERS = {"human": "User", "ai": "Assistant", "tool": "Tool"}


def seal_blocks(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages with all their ``text-plain`` blocks in one, at the end, sealed.

    How many there were, and in which messages, does not show. That there are any does. The messages
    given stay as they are.
    """
    documents = [block for message in messages for block in _blocks(message) if _is_document(block)]
    if not documents:
        return list(messages)
    found: list[str] = []
    for block in documents:
        found += _document_texts(block)
    sealed = {"type": _DOCUMENT_BLOCK, "text": SealedDocuments(found)}
    kept = [(one, [b for b in _blocks(one) if not _is_document(b)]) for one in messages]
    # A message of documents alone would be counted too.
    *before, (last, blocks) = [pair for pair in kept if pair[1]] or [(HumanMessage([]), [])]
    return [
        *(one.model_copy(update={"content": public}) for one, public in before),
        last.model_copy(update={"content": [*blocks, sealed]}),
    ]


@dataclass(frozen=True, slots=True, repr=False)
class Conversation:
    """A question, with the turns before it and its documents.

    Attributes:
        question: What the documents are searched for. Public, as all the rest but ``documents``.
        turns: Those before it.
        system: Takes the place of the template's instruction.
        documents: Texts of the ``text-plain`` blocks. Private.
    """

    question: str
    turns: tuple[Turn, ...] = ()
    system: str | None = None
    documents: list[str] = field(default_factory=list)


def read(messages: Sequence[BaseMessage]) -> Conversation:
    """The question of messages, after the turns before it; see `last_question`.

    Raises:
        ConfigurationError: A block is neither text nor a document with text.
    """
    system, turns, documents = _turns(messages)
    question, before = last_question(turns)
    return Conversation(question, before, system, documents)


def after(history: Sequence[BaseMessage], question: str) -> Conversation:
    """A question after turns that were taken.

    Raises:
        ConfigurationError: As for `read`.
    """
    system, turns, documents = _turns(history)
    return Conversation(question, tuple(turns), system, documents)


def _turns(messages: Sequence[BaseMessage]) -> tuple[str | None, list[Turn], list[str]]:
    """The system's instruction, who says what, and the documents."""
    system: list[str] = []
    turns: list[Turn] = []
    documents: list[str] = []
    for message in messages:
        text = "".join(_texts(message, documents))
        if message.type == "system":
            system.append(text)
        elif text:
            turns.append((_SPEAKERS.get(message.type, "User"), text))
    return "\n".join(system) or None, turns, documents


def _texts(message: BaseMessage, documents: list[str]) -> Iterator[str]:
    """Public text of a message; its documents go to the list."""
    for block in _blocks(message):
        if isinstance(block, str):
            yield block
        elif _is_document(block):
            documents += _document_texts(block)
        elif block.get("type") == "text":
            yield block["text"]
        elif message.type != "ai":  # what another model thought or called says nothing here
            raise ConfigurationError(
                f"a message holds a block of type {block.get('type')!r}; the private path reads "
                "text, and documents as text-plain blocks"
            )


def _is_document(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == _DOCUMENT_BLOCK


def _document_texts(block: Any) -> list[str]:
    """The text of a block, or the texts of a sealed one."""
    text = unseal(block.get("text"))
    texts = text if isinstance(text, list) else [text]
    if not all(isinstance(one, str) for one in texts):
        raise ConfigurationError("a text-plain block needs its text in the field 'text'")
    return texts


def _blocks(message: BaseMessage) -> list[Any]:
    content = message.content
    return [content] if isinstance(content, str) else content
