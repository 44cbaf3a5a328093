"""Whatever reads prompts as a reader."""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.openai_compatible import event_loop
from dpicl_rag.language_models.readers.base import Reader
from dpicl_rag.language_models.readers.chat_endpoint import chat_endpoint
from dpicl_rag.language_models.readers.concurrent_reader import (
    DEADLINE,
    ConcurrentReader,
    call_limit,
)
from dpicl_rag.language_models.readers.langchain_reader import is_runnable, langchain_reader
from dpicl_rag.language_models.readers.llama_index_reader import (
    is_llama_index,
    llama_index_reader,
)
from dpicl_rag.language_models.readers.reply_cache import ReplyCache


def as_reader(given: object, cache: ReplyCache | None = None) -> Reader:
    """A reader from anything that reads prompts.

    Args:
        given: A `Reader`; an address, see `chat_endpoint`; a ``Runnable`` of LangChain; an ``LLM``
            of LlamaIndex; a function from a prompt to a text, sync or async. An async one runs in
            the library's own event loop, always the same, and must not block it.
        cache: Where its replies are kept; in memory by default.

    Raises:
        ConfigurationError: It is none of these, or a `Reader` of somebody's own, which keeps
            replies as it likes.
        ModelError: As in `chat_endpoint`.
    """
    found = _made(given)
    if cache is None:
        return found
    if not isinstance(found, ConcurrentReader):
        raise ConfigurationError(
            "a Reader of your own keeps its replies itself; leave reply_cache out"
        )
    return found.with_cache(cache)


def _made(given: object) -> Reader:
    if isinstance(given, str):
        return chat_endpoint(given)
    if is_runnable(given):
        return langchain_reader(given)
    if is_llama_index(given):
        return llama_index_reader(given)
    if not isinstance(given, type):
        if isinstance(given, Reader):
            return given
        if callable(given):
            return ConcurrentReader(_waited_for(given), _fingerprint(given))
    raise ConfigurationError(
        "a reader is an address such as chat+http://HOST:PORT/v1#MODEL, a model or chain of "
        "LangChain, an LLM of LlamaIndex, a function from a prompt to a text, or a Reader"
    )


def _waited_for(call: Callable[[str], Any]) -> Callable[[str], object]:
    def waited_for(prompt: str) -> object:
        found = call(prompt)
        # Always in one loop: clients keep connections, which belong to the loop that opened them.
        return event_loop.run(_in_time(found)) if inspect.isawaitable(found) else found

    return waited_for


async def _in_time(found: Awaitable[object]) -> object:
    async with asyncio.timeout(call_limit(DEADLINE)):  # nobody waits longer for it
        return await found


def _fingerprint(call: object) -> str:
    """The name that a function gives itself; without one, a name that no other will ever have."""
    own = getattr(call, "fingerprint", None)
    if isinstance(own, str) and own:
        return own
    name = getattr(call, "__qualname__", type(call).__qualname__)
    return f"function {name} {secrets.token_hex(8)}"
