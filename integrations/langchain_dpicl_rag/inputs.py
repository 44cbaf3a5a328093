"""Inputs of a chain: the question, and the turns before it."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage, convert_to_messages
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables.utils import AddableDict

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.requests import Turn
from langchain_dpicl_rag.conversations import Conversation, after

ChainInput: TypeAlias = str | dict[str, Any]
"""A question, or a dict that holds it under the chain's ``input_key``, and perhaps the turns before
it under ``chat_history``."""

_SPEAKER = re.compile(r"^(\w+): ", re.MULTILINE)

HISTORY = "chat_history"
"""The key of the turns before the question: messages as LangChain takes them, or their words."""


def asked(input: Any, input_key: str, *beside: str) -> Conversation:
    """Read the input of a chain. All of it is public.

    Args:
        input: A `Question`.
        input_key: Of the question in a dict.
        beside: Other keys that the chain reads.

    Raises:
        ConfigurationError: It holds no question, or something that no chain reads.
    """
    if isinstance(input, str):
        return Conversation(input)
    if not isinstance(input, dict):
        raise ConfigurationError(
            f"the input must be a question, or a dict with one under {input_key!r}, "
            f"not {type(input).__name__}{_way_out(input)}"
        )
    known = (input_key, HISTORY, *beside)
    others = [key for key in input if key not in known]
    named = ", ".join(map(repr, others))
    if input_key not in input:
        texts = [key for key in others if isinstance(input[key], str)]
        key = repr(texts[0]) if len(texts) == 1 else "..."
        raise ConfigurationError(
            f"the input has no {input_key!r}, where the question stands"
            + (f", but {named}" if others else "")
            + "".join({_way_out(input[key]): None for key in others})
            + f"; another key is named where the chain is made: input_key={key}"
        )
    if others:
        raise ConfigurationError(
            f"{named} in the input would be without effect: the chain reads "
            f"{', '.join(map(repr, known))}; leave the others out, or pick what it reads: "
            f"RunnablePick({list(known)}) | chain"
        )
    question = input[input_key]
    if not isinstance(question, str):
        raise ConfigurationError(
            f"under {input_key!r} stands no question but {type(question).__name__}"
            f"{_way_out(question)}"
        )
    return _after(input.get(HISTORY), question)


def refuse_arguments(arguments: dict[str, Any]) -> None:
    """Refuse keyword arguments of a call that would be without effect.

    Raises:
        ConfigurationError: There are any.
    """
    if arguments:
        raise ConfigurationError(
            f"{', '.join(sorted(arguments))}: not an argument of a private call; settings are "
            "given when the chain is made"
        )


def joined(parts: list[ChainInput]) -> Any:
    """Input that came in parts, as LangChain streams it."""
    whole: Any = None
    for part in parts:
        part = AddableDict(part) if isinstance(part, dict) else part
        whole = part if whole is None else whole + part
    return whole


def _after(history: Any, question: str) -> Conversation:
    """A question after turns that were taken."""
    if not history:
        return Conversation(question)
    if isinstance(history, str):
        return Conversation(question, _spoken(history))
    try:
        messages = convert_to_messages(history)
    except (NotImplementedError, TypeError, ValueError):
        # Without a cause, which would quote the history.
        raise ConfigurationError(
            f"{HISTORY!r} must hold the turns before the question: text, or messages such as "
            "('human', '...') and ('ai', '...')"
        ) from None
    conversation = after(messages, question)
    if conversation.documents:
        raise ConfigurationError(
            f"{HISTORY!r} holds text-plain blocks: a chain has its documents from its retriever"
        )
    return conversation


def _spoken(words: str) -> tuple[Turn, ...]:
    """Turns of a conversation in words, as memories of LangChain give it: ``Human: ...``."""
    first, *rest = _SPEAKER.split(words)
    return (("", first), *zip(rest[::2], rest[1::2], strict=True))


def _way_out(given: Any) -> str:
    if isinstance(given, BaseMessage):
        return "; put StrOutputParser() before the chain"
    if isinstance(given, PromptValue) or (
        isinstance(given, list) and any(isinstance(one, BaseMessage) for one in given)
    ):
        return (
            "; ChatPrivateContext takes messages, a chain has those before the question under "
            f"{HISTORY!r}"
        )
    return ""
