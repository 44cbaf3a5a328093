"""The interface of a reader, and the causes of a call that failed."""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import socket
import ssl
from collections.abc import Sequence
from enum import Enum
from typing import Protocol, runtime_checkable

import httpx

from dpicl_rag.language_models.base import Progress


@runtime_checkable
class Reader(Protocol):
    """A model that replies to prompts, each in a conversation of its own.

    A reply may depend on its own prompt and on coins of its own call, and on nothing else: not on
    how many prompts there are, and not on the others. Where calls fail for reasons that are not a
    prompt's own (a time-out, a rate limit, a server that is down), all of them fail together.
    """

    @property
    def fingerprint(self) -> str:
        """Names the model and its settings, for caches. Public."""
        ...

    def replies(self, prompts: Sequence[str], on_progress: Progress | None = None) -> list[str]:
        """One reply for each prompt, in their order; ``""`` where a prompt's own content got none.

        Args:
            prompts: Whole prompts. Private.
            on_progress: Called with the part that is read, 0 to 1.

        Raises:
            EngineUnavailableError: The provider does not answer, for whatever prompt.
            ModelError: The provider refuses whoever asks: a wrong key, an unknown model.
        """
        ...


class CallFailure(Enum):
    """Why a call gave no reply."""

    OWN = "own"
    """The prompt's own content, as far as one can tell."""
    PASSING = "passing"
    """Trouble around the prompt; a later try may go well."""
    REFUSED = "refused"
    """Whoever asks is refused: a wrong key, an unknown model, an account that cannot pay."""


_OWN = {400, 413, 422}
_PASSING = {408, 409, 425, 429}  # and all from 500
_TYPES = (
    *(TimeoutError, ConnectionError, socket.gaierror, ssl.SSLError, httpx.TransportError),
    *(asyncio.CancelledError, concurrent.futures.CancelledError),
    MemoryError,  # how much there is follows from all that runs
)
# Of clients that are not imported here: openai, anthropic, requests, aiohttp, urllib3.
_NAMES = {
    *("APIConnectionError", "APITimeoutError", "RateLimitError", "InternalServerError"),
    *("ServiceUnavailableError", "OverloadedError", "DeadlineExceededError", "ServiceUnavailable"),
    *("ConnectionError", "Timeout", "ChunkedEncodingError", "ClientConnectionError"),
    *("ServerDisconnectedError", "ProtocolError", "IncompleteRead", "BadStatusLine"),
}
_ERRNOS = {
    *(errno.ENETDOWN, errno.ENETUNREACH, errno.ENETRESET, errno.EHOSTDOWN, errno.EHOSTUNREACH),
    *(errno.EADDRNOTAVAIL, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EAGAIN),
}
_LINKS = 8  # errors of one chain that are looked at


def failure_of(error: BaseException) -> CallFailure:
    """Cause of an error of a call; `CallFailure.OWN` where nothing is known about it.

    Clients wrap errors of other clients, so those that led to it are looked at too.
    """
    one: BaseException | None = error
    for _ in range(_LINKS):
        if one is None:
            break
        found = _recognised(one)
        if found is not None:
            return found
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return CallFailure.OWN


def status_of(error: BaseException) -> int | None:
    """The HTTP status that an error tells, 300 to 599; None where it tells none."""
    for holder in (error, _attribute(error, "response")):
        for name in ("status_code", "status", "code"):
            found = _attribute(holder, name)
            if isinstance(found, int) and 300 <= found < 600:
                return int(found)
    return None


def _recognised(error: BaseException) -> CallFailure | None:
    status = status_of(error) if isinstance(error, Exception) else None
    if status is not None:
        if status >= 500 or status in _PASSING:
            return CallFailure.PASSING
        return CallFailure.OWN if status in _OWN else CallFailure.REFUSED
    names = {kind.__name__ for kind in type(error).__mro__}
    network = isinstance(error, OSError) and error.errno in _ERRNOS
    if network or isinstance(error, _TYPES) or names & _NAMES:
        return CallFailure.PASSING
    return None


def _attribute(holder: object, name: str) -> object:
    try:
        return getattr(holder, name, None)
    except Exception:  # a property of a client may raise anything
        return None
