"""A quiet HTTP client: JSON to and from servers of models, whose prompts are private.

What a server says in words is never looked at: its messages quote and count what it was sent.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import weakref
from collections.abc import Mapping
from typing import Any

import httpx

from dpicl_rag.language_models.event_loop import SERVERS

Body = Mapping[str, Any]


class HttpClient:
    """Requests to servers of models, which nobody else sees.

    No proxy is taken from the environment and no redirection is followed: a prompt goes where the
    address says and nowhere else. Neither logs nor traces see it. Connections stay open from
    request to request.

    Args:
        key: Sent as a bearer key, if any.
        most_bytes: Of a reply, whatever a server makes of the limits that it is asked to keep.
            Public.
    """

    def __init__(self, key: str | None, most_bytes: int) -> None:
        self._headers = {"Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._most_bytes = most_bytes
        self._process = 0
        self._client: httpx.AsyncClient | None = None

    def __repr__(self) -> str:
        return "HttpClient()"

    def request(self, method: str, url: str, body: Body | None, seconds: float) -> httpx.Response:
        """As `send`, for whoever waits in a thread."""
        return SERVERS.run(self.send(method, url, body, seconds))

    async def send(
        self, method: str, url: str, body: Body | None, seconds: float
    ) -> httpx.Response:
        """The reply to one request; to be awaited in `SERVERS`.

        Args:
            method: Of HTTP.
            url: Where it goes.
            body: Sent as JSON, if any. Private.
            seconds: That it may take in all. Public.

        Raises:
            httpx.HTTPError: No reply comes. What the error says may quote the request.
            OSError: As before; a time-out is one.
            ValueError: It has more bytes than it may.
        """
        content, read = None if body is None else json.dumps(body), bytearray()
        stream = self._open().stream(method, url, content=content)
        async with asyncio.timeout(seconds), stream as response:
            async for part in response.aiter_bytes():
                read += part
                if len(read) > self._most_bytes:
                    raise ValueError("the reply is too long")
        return httpx.Response(response.status_code, content=bytes(read))

    def _open(self) -> httpx.AsyncClient:
        """The client of this process."""
        if self._client is None or self._process != os.getpid():
            self._process = os.getpid()
            self._client = httpx.AsyncClient(
                headers=self._headers,
                timeout=None,  # noqa: S113 - there is one around every request
                trust_env=False,
                verify=ssl.create_default_context(),
                follow_redirects=False,
                limits=httpx.Limits(keepalive_expiry=60.0),
            )
            weakref.finalize(self, _close, self._client, self._process).atexit = False
        return self._client


def listed_models(client: HttpClient, url: str, seconds: float) -> list[dict[str, Any]] | None:
    """What a server of OpenAI's interface says of each model that it names; None if nothing."""
    try:
        found = client.request("GET", f"{url}/models", None, seconds)
        models = found.json()["data"] if found.is_success else None
        return None if models is None else [one for one in models if isinstance(one["id"], str)]
    except Exception:  # what a server says comes nowhere
        return None


def _close(client: httpx.AsyncClient, process: int) -> None:
    if process == os.getpid():  # a forked child leaves its parent's connections alone
        SERVERS.begin(client.aclose())
