"""A chat model behind OpenAI's interface as a reader: ``chat+http://host:11434/v1#model``.

Ollama, llama.cpp, vLLM, LM Studio and hosted models have it.
"""

from __future__ import annotations

import os

from dpicl_rag.errors import ConfigurationError, ModelError
from dpicl_rag.language_models.http_client import HttpClient, listed_models
from dpicl_rag.language_models.readers.concurrent_reader import (
    CONCURRENCY,
    DEADLINE,
    ConcurrentReader,
)
from dpicl_rag.language_models.retries import call_limit
from dpicl_rag.language_models.server_address import CHAT

_MOST = 64  # tokens of a reply
_BYTES = 1 << 20  # of an answer, whatever a server makes of that limit
# The first that a model takes is kept: some have one temperature only, some have the new name.
_SETTINGS: tuple[dict[str, int], ...] = (
    {"temperature": 0, "max_tokens": _MOST},
    {"max_tokens": _MOST},
    {"temperature": 0, "max_completion_tokens": _MOST},
    {"max_completion_tokens": _MOST},
)

KEY = CHAT.key
"""Environment variable of the key; where it is not there at all, ``OPENAI_API_KEY``."""


def chat_endpoint(address: str, *, backoff: float | None = None) -> ConcurrentReader:
    """A reader that asks a server for chat completions.

    Prompts go there and nowhere else, see `HttpClient`. The key comes from
    ``DPICL_RAG_READER_KEY``, else from ``OPENAI_API_KEY``; it is sent only where one is set, and an
    empty ``DPICL_RAG_READER_KEY`` sends none.

    Args:
        address: As ``chat+http://HOST:PORT/v1#MODEL``. Without a model the server is asked for
            its only one.
        backoff: See `ConcurrentReader`.

    Raises:
        ConfigurationError: It is no such address, or the key cannot be sent.
        ModelError: No model is named, and the server does not name one alone.
    """
    found = CHAT.parse(address)
    deadline = found.options.get("deadline", DEADLINE)
    endpoint = _Endpoint(found.url, deadline)
    model = endpoint.model = found.model or endpoint.only_model()
    return ConcurrentReader(
        endpoint,
        f"{CHAT.prefix}{found.url}#{model}",
        concurrency=found.options.get("concurrency", CONCURRENCY),
        deadline=deadline,
        backoff=backoff,
    )


class _StatusError(Exception):
    """The server refused, with this status; its words are left where they are."""

    def __init__(self, status_code: int) -> None:
        super().__init__()
        self.status_code = status_code


class _Endpoint:
    """One model of one server; called with a prompt."""

    def __init__(self, url: str, deadline: float) -> None:
        self.model = ""
        self._url = url
        self._seconds = call_limit(deadline)
        self._client = HttpClient(_key(), _BYTES)
        self._settings: dict[str, int] | None = None

    def __repr__(self) -> str:
        return f"_Endpoint({self._url!r})"

    def __call__(self, prompt: str) -> str:
        """The reply to a prompt; empty where a content filter took it."""
        if self._settings is not None:
            return self._ask(prompt, self._settings)
        # The reader's public prompt, before all others: what settings are taken is public.
        for settings in _SETTINGS:
            try:
                found = self._ask(prompt, settings)
            except _StatusError as error:
                if error.status_code not in (400, 422) or settings is _SETTINGS[-1]:
                    raise
                continue
            self._settings = settings
            return found
        raise AssertionError  # the last settings return or raise

    def only_model(self) -> str:
        """The name of the one model that the server has.

        Raises:
            ModelError: It does not answer, or names none, or several.
        """
        models = listed_models(self._client, self._url, self._seconds) or []
        if len(models) != 1:
            raise ModelError(
                f"the server at {self._url} does not name one model alone: see that it runs, give "
                f"its key in {KEY} if it wants one, and name the model at the end of the address, "
                "as #MODEL"
            )
        return str(models[0]["id"])

    def _ask(self, prompt: str, settings: dict[str, int]) -> str:
        messages = [{"role": "user", "content": prompt}]
        body = {"model": self.model, "messages": messages, "stream": False, **settings}
        url = f"{self._url}/chat/completions"
        reply = self._client.request("POST", url, body, self._seconds)
        if not reply.is_success:
            raise _StatusError(reply.status_code)
        try:
            found = reply.json()
        except ValueError:
            raise ConnectionError from None  # what came is no answer of such a server
        if isinstance(found, dict) and isinstance(found.get("error"), dict):
            # Servers that stand before others tell late failures of those so.
            code = found["error"].get("code")
            raise _StatusError(code if isinstance(code, int) else 500)
        choice = found["choices"][0]
        if choice.get("finish_reason") == "content_filter":
            return ""
        return _text(choice["message"]["content"])


def _key() -> str:
    key = os.environ.get(KEY, os.environ.get("OPENAI_API_KEY", "")).strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(f"the key in {KEY} or OPENAI_API_KEY is no line of ASCII")
    return key


def _text(content: object) -> str:
    """The text of a message, which may come in parts; empty where it has none."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part.get("type") == "text")
    return content if isinstance(content, str) else ""
