"""Addresses of models on servers.

``openai+http://host:8000/v1#model`` gives log-probabilities, ``chat+http://host:11434/v1#model``
text alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self
from urllib.parse import parse_qsl, urlsplit

from dpicl_rag.errors import ConfigurationError

KEY = "DPICL_RAG_API_KEY"
"""Environment variable of the key of a server that gives log-probabilities."""

READER_KEY = "DPICL_RAG_READER_KEY"
"""Environment variable of a chat model's key; where it is not there, ``OPENAI_API_KEY``."""


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


class _ServerAddress:
    """Base of addresses; what one looks like, and what its options are, is of its kind."""

    __slots__ = ()

    _scheme: ClassVar[str]
    _noun: ClassVar[str]
    _form: ClassVar[str]
    _key: ClassVar[str]
    _options: ClassVar[Mapping[str, Callable[[str], Any]]]

    @classmethod
    def meant(cls, text: object) -> bool:
        """True of a text that is meant to be an address."""
        return isinstance(text, str) and text.startswith(cls._scheme)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an address.

        Raises:
            ConfigurationError: It is none, or it has a key in it.
        """
        try:
            parts = urlsplit(text.removeprefix(cls._scheme))
            given = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
            found = {name: cls._options[name](value) for name, value in given.items()}
            # Reading a port that is no number raises.
            whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except (ValueError, KeyError):
            whole = False
        if not whole or not text.startswith(cls._scheme):
            raise ConfigurationError(f"the address of a {cls._noun} looks like {cls._form}")
        if parts.username is not None:
            raise ConfigurationError(
                f"an address is shown to others; give the {cls._noun}'s key in the environment "
                f"variable {cls._key}"
            )
        url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        return cls(url=url, model=parts.fragment, **found)  # type: ignore[call-arg] # of its kind


@dataclass(frozen=True, slots=True)
class Address(_ServerAddress):
    """A server's model.

    Attributes:
        url: Of the interface, without a slash at its end: ``http://127.0.0.1:8000/v1``.
        model: As the server names it; empty for the only one that it has.
        tokenizer: Folder or Hugging Face id of the model's tokenizer, ``default`` for that of the
            packaged model; empty where the model's name or the server tells.
        context: Most tokens of a row; None where the server tells.
        deadline: Seconds until a token is given up; None for the default.
    """

    _scheme = "openai+"
    _noun = "server"
    _form = "openai+http://HOST:PORT/v1?tokenizer=FOLDER#MODEL"
    _key = KEY
    _options: ClassVar = {"tokenizer": str, "context": _at_least(2), "deadline": _seconds}

    url: str
    model: str = ""
    tokenizer: str = ""
    context: int | None = None
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class ChatAddress(_ServerAddress):
    """A chat model of a server.

    Attributes:
        url: Of the interface, without a slash at its end: ``http://127.0.0.1:11434/v1``.
        model: As the server names it; empty for the only one that it has.
        deadline: Seconds that a prompt may fail, see `ConcurrentReader`; None for the default.
        concurrency: Calls at once; None for the default.
    """

    _scheme = "chat+"
    _noun = "chat model"
    _form = "chat+http://HOST:PORT/v1?deadline=SECONDS&concurrency=CALLS#MODEL"
    _key = READER_KEY
    _options: ClassVar = {"deadline": _seconds, "concurrency": _at_least(1)}

    url: str
    model: str = ""
    deadline: float | None = None
    concurrency: int | None = None
