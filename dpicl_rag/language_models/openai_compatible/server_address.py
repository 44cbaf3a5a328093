"""Addresses of models on servers.

``openai+http://host:8000/v1#model`` gives log-probabilities, ``chat+http://host:11434/v1#model``
text alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from dpicl_rag.errors import ConfigurationError

KEY = "DPICL_RAG_API_KEY"
"""Environment variable of the key of a server that gives log-probabilities."""

READER_KEY = "DPICL_RAG_READER_KEY"
"""Environment variable of a chat model's key; where it is not there, ``OPENAI_API_KEY``."""

_Options = dict[str, Callable[[str], Any]]

_SCHEME, _CHAT_SCHEME = "openai+", "chat+"


@dataclass(frozen=True, slots=True)
class Address:
    """A server's model.

    Attributes:
        url: Of the interface, without a slash at its end: ``http://127.0.0.1:8000/v1``.
        model: As the server names it; empty for the only one that it has.
        tokenizer: Folder or Hugging Face id of the model's tokenizer, ``default`` for that of the
            packaged model; empty where the model's name or the server tells.
        context: Most tokens of a row; None where the server tells.
        deadline: Seconds until a token is given up; None for the default.
    """

    url: str
    model: str = ""
    tokenizer: str = ""
    context: int | None = None
    deadline: float | None = None

    @staticmethod
    def meant(text: object) -> bool:
        """True of a text that is meant to be an address."""
        return isinstance(text, str) and text.startswith(_SCHEME)

    @staticmethod
    def parse(text: str) -> Address:
        """Read an address.

        Raises:
            ConfigurationError: It is none, or it has a key in it.
        """
        options: _Options = {"tokenizer": str, "context": _at_least(2), "deadline": _seconds}
        form = "openai+http://HOST:PORT/v1?tokenizer=FOLDER#MODEL"
        return Address(**_parsed(text, _SCHEME, options, "server", form, KEY))


@dataclass(frozen=True, slots=True)
class ChatAddress:
    """A chat model of a server.

    Attributes:
        url: Of the interface, without a slash at its end: ``http://127.0.0.1:11434/v1``.
        model: As the server names it; empty for the only one that it has.
        deadline: Seconds that a prompt may fail, see `ConcurrentReader`; None for the default.
        concurrency: Calls at once; None for the default.
    """

    url: str
    model: str = ""
    deadline: float | None = None
    concurrency: int | None = None

    @staticmethod
    def meant(text: object) -> bool:
        """True of a text that is meant to be an address."""
        return isinstance(text, str) and text.startswith(_CHAT_SCHEME)

    @staticmethod
    def parse(text: str) -> ChatAddress:
        """Read an address.

        Raises:
            ConfigurationError: It is none, or it has a key in it.
        """
        options: _Options = {"deadline": _seconds, "concurrency": _at_least(1)}
        form = "chat+http://HOST:PORT/v1?deadline=SECONDS&concurrency=CALLS#MODEL"
        return ChatAddress(**_parsed(text, _CHAT_SCHEME, options, "chat model", form, READER_KEY))


def _parsed(
    text: str, scheme: str, options: _Options, noun: str, form: str, key: str
) -> dict[str, Any]:
    """URL, model and options of an address.

    Raises:
        ConfigurationError: It is none, or it has a key in it.
    """
    try:
        parts = urlsplit(text.removeprefix(scheme))
        given = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
        found = {name: options[name](value) for name, value in given.items()}
        # Reading a port that is no number raises.
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, KeyError):
        whole = False
    if not whole or not text.startswith(scheme):
        raise ConfigurationError(f"the address of a {noun} looks like {form}")
    if parts.username is not None:
        raise ConfigurationError(
            f"an address is shown to others; give the {noun}'s key in the environment variable "
            f"{key}"
        )
    url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    return {"url": url, "model": parts.fragment, **found}


def _seconds(text: str) -> float:
    found = float(text)
    if not 0 < found < math.inf:
        raise ValueError
    return found


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        found = int(text)
        if found < least:
            raise ValueError
        return found

    return number
