"""A chat model behind OpenAI's interface as a reader: ``chat+http://host:11434/v1#model``.

Ollama, llama.cpp, vLLM, LM Studio and hosted models have it.
"""

from __future__ import annotations

import json
import os
import ssl
import weakref
from typing import Any

import httpx

from dpicl_rag.errors import ConfigurationError, ModelError
from dpicl_rag.language_models.openai_compatible.server_address import READER_KEY, ChatAddress
from dpicl_rag.language_models.readers.concurrent_reader import (
    CONCURRENCY,
    DEADLINE,
    ConcurrentReader,
    call_limit,
)
from dpicl_rag.language_models.readers.quiet_calls import end_quietly, quietly

_MOST = 64  # tokens of a reply
_BYTES = 1 << 20  # of an answer, whatever a server makes of that limit
# The first that a model takes is kept: some have one temperature only, some have the new name.
_SETTINGS: tuple[dict[str, int], ...] = (
    {"temperature": 0, "max_tokens": _MOST},
    {"max_tokens": _MOST},
    {"temperature": 0, "max_completion_tokens": _MOST},
    {"max_completion_tokens": _MOST},
)


def chat_endpoint(address: str, *, backoff: float | None = None) -> ConcurrentReader:
    """A reader that asks a server for chat completions.

    Prompts go there and nowhere else: no proxy is taken from the environment, no redirection is
    followed. The key comes from ``DPICL_RAG_READER_KEY``, else from ``OPENAI_API_KEY``; it is sent
    only where one is set, and an empty ``DPICL_RAG_READER_KEY`` sends none.

    Args:
        address: As ``chat+http://HOST:PORT/v1#MODEL``. Without a model the server is asked for
            its only one.
        backoff: See `ConcurrentReader`.

    Raises:
        ConfigurationError: It is no such address, or the key cannot be sent.
        ModelError: No model is named, and the server does not name one alone.
    """
    found = ChatAddress.parse(address)
    deadline = found.deadline or DEADLINE
    endpoint = _Endpoint(found.url, call_limit(deadline))
    model = endpoint.model = found.model or endpoint.only_model()
    return ConcurrentReader(
        endpoint,
        f"chat+{found.url}#{model}",
        concurrency=found.concurrency or CONCURRENCY,
        deadline=deadline,
        backoff=backoff,
    )


class _ChatTroubleError(ConnectionError):
    """An answer that no such server gives."""


class _StatusError(Exception):
    """The server refused, with this status; its words are left where they are."""

    def __init__(self, status_code: int) -> None:
        super().__init__()
        self.status_code = status_code


class _Endpoint:
    """One model of one server; called with a prompt."""

    def __init__(self, url: str, seconds: float) -> None:
        self.model = ""
        self._url = url
        self._seconds = seconds
        self._headers = _headers()
        self._settings: dict[str, int] | None = None
        self._process = 0
        self._client: httpx.Client | None = None

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
        names: list[str] = []
        try:
            with quietly():
                response = self._send("GET", "/models", None)
                names = (
                    [one["id"] for one in response.json()["data"]] if response.is_success else []
                )
        except Exception:  # noqa: S110 - what a server says comes nowhere
            pass
        if len(names) != 1 or not isinstance(names[0], str):
            raise ModelError(
                f"the server at {self._url} does not name one model alone: see that it runs, give "
                f"its key in {READER_KEY} if it wants one, and name the model at the end of the "
                "address, as #MODEL"
            )
        return names[0]

    def _ask(self, prompt: str, settings: dict[str, int]) -> str:
        messages = [{"role": "user", "content": prompt}]
        body = {"model": self.model, "messages": messages, "stream": False, **settings}
        response = self._send("POST", "/chat/completions", body)
        if not response.is_success:
            raise _StatusError(response.status_code)
        try:
            found = response.json()
        except ValueError:
            raise _ChatTroubleError from None
        if isinstance(found, dict) and isinstance(found.get("error"), dict):
            # Servers that stand before others tell late failures of those so.
            code = found["error"].get("code")
            raise _StatusError(code if isinstance(code, int) else 500)
        choice = found["choices"][0]
        if choice.get("finish_reason") == "content_filter":
            return ""
        return _text(choice["message"]["content"])

    def _send(self, method: str, path: str, body: dict[str, Any] | None) -> httpx.Response:
        content = None if body is None else json.dumps(body)
        with self._open().stream(method, f"{self._url}{path}", content=content) as response:
            read = bytearray()
            for part in response.iter_bytes():
                read += part
                if len(read) > _BYTES:
                    raise ValueError  # what is said to this prompt is too long
        return httpx.Response(response.status_code, content=bytes(read))

    def _open(self) -> httpx.Client:
        """The client of this process; its connections stay open from call to call."""
        if self._client is None or self._process != os.getpid():
            self._process = os.getpid()
            self._client = httpx.Client(
                headers=self._headers,
                timeout=self._seconds,
                trust_env=False,
                verify=ssl.create_default_context(),
                follow_redirects=False,
                limits=httpx.Limits(keepalive_expiry=60.0),
            )
            weakref.finalize(self, _close, self._client, self._process).atexit = False
        return self._client


def _headers() -> dict[str, str]:
    headers = {"Content-Type": "application/json"}
    key = os.environ.get(READER_KEY, os.environ.get("OPENAI_API_KEY", "")).strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(f"the key in {READER_KEY} or OPENAI_API_KEY is no line of ASCII")
    if key:
        headers["Authorization"] = f"Bearer {key}"
    return headers


def _text(content: object) -> str:
    """The text of a message, which may come in parts; empty where it has none."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part.get("type") == "text")
    return content if isinstance(content, str) else ""


def _close(client: httpx.Client, process: int) -> None:
    if process == os.getpid():  # a forked child leaves its parent's connections alone
        end_quietly(client.close)  # a line for each connection
