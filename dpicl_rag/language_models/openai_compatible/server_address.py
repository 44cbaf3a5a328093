"""Addresses of models on servers: ``openai+http://host:8000/v1#model``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from dpicl_rag.errors import ConfigurationError

_SCHEME = "openai+"
_FORM = "openai+http://HOST:PORT/v1?tokenizer=FOLDER#MODEL"


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
        """Whether a text is meant to be an address."""
        return isinstance(text, str) and text.startswith(_SCHEME)

    @staticmethod
    def parse(text: str) -> Address:
        """Read an address.

        Raises:
            ConfigurationError: It is none.
        """
        try:
            parts = urlsplit(text.removeprefix(_SCHEME))
            given = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
            context, deadline = given.pop("context", None), given.pop("deadline", None)
            found = Address(
                f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}",
                parts.fragment,
                given.pop("tokenizer", ""),
                None if context is None else int(context),
                None if deadline is None else float(deadline),
            )
            # Reading a port that is no number raises.
            whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
            whole = whole and (found.context is None or found.context > 1)
            whole = whole and (found.deadline is None or 0 < found.deadline < math.inf)
        except ValueError:
            whole = False
        if not whole or given or not Address.meant(text):
            raise ConfigurationError(f"the address of a server looks like {_FORM}")
        if parts.username is not None:
            raise ConfigurationError(
                "an address is shown to others; give the server's key in the environment variable "
                "DPICL_RAG_API_KEY"
            )
        return found
