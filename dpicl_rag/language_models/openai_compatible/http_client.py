"""An HTTP server that is asked the same until it answers, or a public deadline has passed.

What it says in words is never looked at: messages of a server quote and count what it was sent.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import httpx
from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from dpicl_rag._unobserved import unobserved
from dpicl_rag.errors import EngineUnavailableError, ModelError
from dpicl_rag.language_models.openai_compatible import event_loop

T = TypeVar("T")
Body = Mapping[str, Any]

_IN_FLIGHT = 4  # requests of one step at once
_WAIT = wait_random_exponential(multiplier=0.1, max=5.0)
_PASSING = {408, 425, 429}  # of the answers below 500, those that a later try may change


class _TroubleError(Exception):
    """This try failed by something around the question."""


class Server:
    """One server.

    Documents go to it and nowhere else: no proxy is taken from the environment, no redirection is
    followed, and neither logs nor traces see the requests.

    Args:
        url: Of the interface, such as ``http://127.0.0.1:8000/v1``.
        key: Sent as a bearer key, if any.
        deadline: Seconds until a question is given up. Public, and the same for all.
    """

    def __init__(self, url: str, key: str | None, deadline: float) -> None:
        self.url = url
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._deadline = deadline
        self._process = 0
        self._client: httpx.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"Server({self.url!r})"

    def get(self, path: str) -> Any:
        """The JSON at a path below the address; asked once.

        Raises:
            ModelError: No such server answers.
        """
        status, found = self._once("GET", f"{self.url}{path}", None)
        if status != 200:
            raise ModelError(
                f"no OpenAI-compatible server answers at {self.url}: start it, for example with "
                "`vllm serve MODEL`, and give its key in DPICL_RAG_API_KEY if it wants one"
            )
        return found

    def accepts(self, path: str, body: Body) -> Any:
        """The answer to a body, asked once; None where it is refused.

        Args:
            path: Beside the address if it begins with ``..``, else below it.
            body: Public.

        Raises:
            EngineUnavailableError: The server answers neither yes nor no.
        """
        base = self.url.removesuffix("/v1") if path.startswith("..") else self.url
        status, found = self._once("POST", f"{base}{path.removeprefix('..')}", body)
        if status == 0 or status >= 500 or status in _PASSING:
            raise EngineUnavailableError
        return found if status == 200 else None

    def ask(
        self, path: str, bodies: Sequence[Body], understand: Callable[[Any, Body], T]
    ) -> list[T]:
        """Answers to several bodies, in their order: all of them, or none.

        Args:
            path: Below the address.
            bodies: Private.
            understand: Reads an answer; any error means that it is none.

        Raises:
            EngineUnavailableError: They did not come until the deadline, or were refused.
        """
        answers: list[T] | None = None
        try:
            with unobserved():
                answers = event_loop.run(self._all(path, bodies, understand))
        except MemoryError:
            raise
        except Exception:  # noqa: S110 - whatever it says may quote a prompt
            pass
        # Outside of the handler, so that no error of the client is this one's context.
        if answers is None:
            raise EngineUnavailableError
        return answers

    def _once(self, method: str, url: str, body: Body | None) -> tuple[int, Any]:
        """Status and contents; 0 where nothing came, or nothing that can be read."""
        try:
            with unobserved():
                return event_loop.run(self._timed(method, url, body))
        except Exception:
            return 0, None

    async def _timed(self, method: str, url: str, body: Body | None) -> tuple[int, Any]:
        async with asyncio.timeout(self._deadline):
            response = await self._send(method, url, body)
        return response.status_code, response.json()

    async def _all(
        self, path: str, bodies: Sequence[Body], understand: Callable[[Any, Body], T]
    ) -> list[T]:
        free = asyncio.Semaphore(_IN_FLIGHT)

        async def one(body: Body) -> T:
            tries = AsyncRetrying(retry=retry_if_exception_type(_TroubleError), wait=_WAIT)
            return await tries(self._try, path, body, understand, free)

        async with asyncio.timeout(self._deadline), asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(body)) for body in bodies]
        return [task.result() for task in tasks]

    async def _try(
        self,
        path: str,
        body: Body,
        understand: Callable[[Any, Body], T],
        free: asyncio.Semaphore,
    ) -> T:
        async with free:
            try:
                response = await self._send("POST", f"{self.url}{path}", body)
            except (httpx.HTTPError, OSError):
                raise _TroubleError from None
        if response.status_code >= 500 or response.status_code in _PASSING:
            raise _TroubleError
        response.raise_for_status()  # refused for good
        try:
            return understand(response.json(), body)
        except (ValueError, TypeError, LookupError, AttributeError):
            raise _TroubleError from None

    async def _send(self, method: str, url: str, body: Body | None) -> httpx.Response:
        content = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json"}
        return await self._open().request(method, url, content=content, headers=headers)

    def _open(self) -> httpx.AsyncClient:
        """The client of this process; its connections stay open from token to token."""
        if self._client is None or self._process != os.getpid():
            self._process, self._client = os.getpid(), _client(self._headers)
            weakref.finalize(self, _close, self._client, self._process).atexit = False
        return self._client


def _client(headers: Mapping[str, str]) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        headers=headers,
        timeout=None,  # noqa: S113 - a deadline stands around every question
        trust_env=False,
        verify=ssl.create_default_context(),
        limits=httpx.Limits(keepalive_expiry=60.0),
    )


def _close(client: httpx.AsyncClient, process: int) -> None:
    if process == os.getpid():  # a forked child leaves its parent's connections alone
        event_loop.begin(client.aclose())
