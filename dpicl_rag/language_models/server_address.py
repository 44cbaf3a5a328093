"""Addresses of models on servers, such as ``openai+http://host:8000/v1#model``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from dpicl_rag.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A model of a server.

    Attributes:
        url: Of the interface, without a slash at its end: ``http://127.0.0.1:8000/v1``.
        model: As the server names it; empty for the only one that it has.
        options: What else the address says.
    """

    url: str
    model: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AddressScheme:
    """A kind of address.

    Attributes:
        prefix: Before the url.
        thing: What has such an address, and may want a key.
        form: An address, for people.
        key: The environment variable of the key.
        options: Readers of what an address may say; each raises ValueError for what is none.
    """

    prefix: str
    thing: str
    form: str
    key: str
    options: Mapping[str, Callable[[str], Any]]

    def meant(self, text: object) -> bool:
        """Whether a text is meant to be such an address."""
        return isinstance(text, str) and text.startswith(self.prefix)

    def parse(self, text: str) -> ServerAddress:
        """Read an address.

        Raises:
            ConfigurationError: It is none, or it has a key in it.
        """
        try:
            parts = urlsplit(text.removeprefix(self.prefix))
            given = parse_qsl(parts.query, strict_parsing=bool(parts.query))
            options = {name: self.options[name](value) for name, value in given}
            # Reading a port that is no number raises.
            whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except (ValueError, KeyError):
            whole = False
        if not whole or not self.meant(text):
            raise ConfigurationError(f"the address of a {self.thing} looks like {self.form}")
        if "@" in parts.netloc:
            raise ConfigurationError(
                f"an address is shown to others; give the {self.thing}'s key in the environment "
                f"variable {self.key}"
            )
        url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        return ServerAddress(url, parts.fragment, options)


def _seconds(text: str) -> float:
    if not 0 < float(text) < math.inf:
        raise ValueError
    return float(text)


def _count(text: str, least: int = 1) -> int:
    if int(text) < least:
        raise ValueError
    return int(text)


COMPLETIONS = AddressScheme(
    "openai+",
    "server",
    "openai+http://HOST:PORT/v1?tokenizer=FOLDER#MODEL",
    "DPICL_RAG_API_KEY",
    {"tokenizer": str, "context": partial(_count, least=2), "deadline": _seconds},
)
"""Addresses of models whose server gives log-probabilities: their tokenizer (a folder, a Hugging
Face id, or ``default`` for that of the packaged model), the most tokens of a row, and seconds until
a token is given up."""

CHAT = AddressScheme(
    "chat+",
    "chat model",
    "chat+http://HOST:PORT/v1?deadline=SECONDS&concurrency=CALLS#MODEL",
    "DPICL_RAG_READER_KEY",
    {"deadline": _seconds, "concurrency": _count},
)
"""Addresses of chat models: seconds that a prompt may fail, and calls at once."""
