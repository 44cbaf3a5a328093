"""Addresses of models on servers, such as ``openai+http://host:8000/v1#model``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self
from urllib.parse import parse_qsl, urlsplit

from dpicl_rag.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A model of a server.

    Attributes:
        url: Of the interface, without a slash at its end: ``http://127.0.0.1:8000/v1``.
        model: As the server names it; empty for the only one that it has.
        SCHEME: Before the url.
        FORM: An address, for people.
        THING: What has such an address, and who wants a key.
        KEY: The environment variable of the key.
        OPTIONS: Readers of the further fields; each raises ValueError for what is out of range.
    """

    url: str
    model: str = ""

    SCHEME: ClassVar[str]
    FORM: ClassVar[str]
    THING: ClassVar[str]
    KEY: ClassVar[str]
    OPTIONS: ClassVar[Mapping[str, Callable[[str], Any]]]

    @classmethod
    def meant(cls, text: object) -> bool:
        """Whether a text is meant to be an address."""
        return isinstance(text, str) and text.startswith(cls.SCHEME)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an address.

        Raises:
            ConfigurationError: It is none, or it has a key in it.
        """
        try:
            parts = urlsplit(text.removeprefix(cls.SCHEME))
            given = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
            options = {name: cls.OPTIONS[name](value) for name, value in given.items()}
            # Reading a port that is no number raises.
            whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except (ValueError, KeyError):
            whole = False
        if not whole or not cls.meant(text):
            raise ConfigurationError(f"the address of a {cls.THING} looks like {cls.FORM}")
        if "@" in parts.netloc:
            raise ConfigurationError(
                f"an address is shown to others; give the {cls.THING}'s key in the environment "
                f"variable {cls.KEY}"
            )
        url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        return cls(url, parts.fragment, **options)


def seconds(text: str) -> float:
    """Read a finite time.

    Raises:
        ValueError: It is none above 0.
    """
    found = float(text)
    if not 0 < found < math.inf:
        raise ValueError
    return found


def count(text: str, least: int = 1) -> int:
    """Read a whole number.

    Raises:
        ValueError: It is none, or below the least.
    """
    found = int(text)
    if found < least:
        raise ValueError
    return found


@dataclass(frozen=True, slots=True)
class CompletionsAddress(ServerAddress):
    """A model whose server gives log-probabilities, by OpenAI's completions.

    Attributes:
        tokenizer: Folder or Hugging Face id of the model's tokenizer, ``default`` for that of the
            packaged model; empty where the model's name or the server tells.
        context: Most tokens of a row; None where the server tells.
        deadline: Seconds until a token is given up.
    """

    tokenizer: str = ""
    context: int | None = None
    deadline: float = 300.0

    SCHEME = "openai+"
    FORM = "openai+http://HOST:PORT/v1?tokenizer=FOLDER#MODEL"
    THING = "server"
    KEY = "DPICL_RAG_API_KEY"
    OPTIONS = {"tokenizer": str, "context": partial(count, least=2), "deadline": seconds}  # noqa: RUF012
