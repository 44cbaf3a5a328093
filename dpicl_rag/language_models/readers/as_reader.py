"""Readers from anything that reads prompts, and a probe that their calls are independent."""

from __future__ import annotations

import asyncio
import inspect
import random
import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from dpicl_rag.errors import ConfigurationError, ModelError
from dpicl_rag.language_models.base import Progress
from dpicl_rag.language_models.openai_compatible.http_client import run_in_loop
from dpicl_rag.language_models.readers.base import Reader
from dpicl_rag.language_models.readers.chat_endpoint import chat_endpoint
from dpicl_rag.language_models.readers.concurrent_reader import (
    DEADLINE,
    ConcurrentReader,
    call_limit,
)
from dpicl_rag.language_models.readers.framework_readers import (
    is_llama_index,
    is_runnable,
    langchain_reader,
    llama_index_reader,
)
from dpicl_rag.language_models.readers.notes import Passages, notes
from dpicl_rag.language_models.readers.reply_cache import ReplyCache

CALLS = 64
"""Calls of a probe, by default."""

FEWEST = 32
"""Calls of a probe, at least."""

_ROUNDS = 4
_QUESTION = "What is the code of the room?"
_ALONE = "The code of the room is 4071."
_MORE = "The key hangs beside the door, and the porter has another one."


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
        return run_in_loop(_in_time(found)) if inspect.isawaitable(found) else found

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


def independent(reader: Reader, *, calls: int = CALLS, on_progress: Progress | None = None) -> bool:
    """True of a reader that gave the same notes among any others, of public documents.

    Four times, a made-up document is read alone, and then among others of other lengths, which
    answer the question differently, in another order each time. Every document must have the same
    note each time. The calls of a crowd run together as those of an answer do, as many at once as
    the reader makes.

    Equal notes are evidence and no proof: a provider may move a reply rarely, under another load,
    or only where documents look otherwise. Notes that differ say that a reply follows from other
    calls (a batch, a history), or that the reader draws its replies; ask at temperature 0.

    No answer asks for this: it costs as many calls as are named here, and one where the reader is
    new.

    Args:
        reader: What is tried; see `as_reader`.
        calls: Calls in all, at most; 32 or more.
        on_progress: Called with the rounds that are done, and how many there are.

    Raises:
        ConfigurationError: Fewer calls.
        EngineUnavailableError: The provider does not answer.
        ModelError: It refuses whoever asks, or the reader says nothing of such a document; then
            there is nothing to compare.
    """
    if calls < FEWEST:
        raise ConfigurationError(f"a probe takes {FEWEST} calls or more")
    if isinstance(reader, ConcurrentReader):
        reader = reader.with_cache(None)  # every call is made
    read = notes(reader, _QUESTION)
    crowd = [_ALONE, *map(_other, range(calls // _ROUNDS - 2))]
    order = random.Random(0)  # noqa: S311 - public
    found: dict[str, set[Passages]] = defaultdict(set)
    for done in range(_ROUNDS):
        for texts in ([_ALONE], order.sample(crowd, len(crowd))):
            for text, note in zip(texts, read([(text,) for text in texts], None), strict=True):
                found[text].add(note)
        if on_progress is not None:
            on_progress(done + 1, _ROUNDS)
    if found[_ALONE] == {()}:
        raise ModelError(
            "the reader says nothing of a document that answers the question; try another model"
        )
    return all(len(said) == 1 for said in found.values())


def _other(number: int) -> str:
    """A document with a code of its own, of up to some hundred words."""
    return " ".join([f"The code of the room is {5000 + number}.", *[_MORE] * (number % 16)])
