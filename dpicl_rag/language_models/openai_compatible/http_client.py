"""An HTTP server that is asked the same until it answers, or a public deadline has passed.

What it says in words is never looked at: messages of a server quote and count what it was sent.
One thread waits for servers: only there can a wait be ended whatever a server does.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import httpx
from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from dpicl_rag._unobserved import unobserved
from dpicl_rag.errors import EngineUnavailableError, ModelError

T = TypeVar("T")
R = TypeVar("R")
JSONObject = Mapping[str, Any]

_IN_FLIGHT = 4  # requests of one step at once
_CALLS = 4  # that fit into the deadline: one that hangs by accident is made again
_PAUSES = 60  # of the longest kind
_PASSING = {408, 425, 429}  # of the answers below 500, those that a later try may change
_loops: dict[int, asyncio.AbstractEventLoop] = {}  # by process
_starting = threading.RLock()  # what collects garbage meanwhile may come in again


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
        backoff: Most seconds between two tries; the first pauses are shorter. By default a sixtieth
            of the deadline.
    """

    def __init__(
        self, url: str, key: str | None, deadline: float, backoff: float | None = None
    ) -> None:
        self.url = url
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._deadline = deadline
        self._backoff = deadline / _PAUSES if backoff is None else backoff
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

    def accepts(self, path: str, body: JSONObject) -> Any:
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
        self, path: str, bodies: Sequence[JSONObject], understand: Callable[[Any, JSONObject], T]
    ) -> list[T]:
        """Answers to several bodies, in their order: all of them, or none.

        Args:
            path: Below the address.
            bodies: What they say is public.
            understand: Reads an answer; any error means that it is none.

        Raises:
            EngineUnavailableError: They did not come until the deadline, or were refused.
        """

        async def work(free: asyncio.Semaphore) -> list[T]:
            async def one(body: JSONObject) -> T:
                return await self._again()(self._try, path, body, understand, free)

            async with asyncio.timeout(self._deadline), asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(body)) for body in bodies]
            return [task.result() for task in tasks]

        return self._whole(work)

    def ask_each(
        self,
        path: str,
        bodies: Sequence[JSONObject],
        understand: Callable[[Any, JSONObject], T],
        public: JSONObject,
        *,
        at_once: bool = False,
    ) -> list[T | None]:
        """Answers to several bodies, in their order; None to one that gets none by itself.

        A server may fail over one prompt alone, and for ever. So after each failure the public body
        is asked. Where it is answered, the body was refused by itself, or is asked again, until it
        has failed beside it for so long as the deadline says: its own time, which others do not
        move, and which stands still while the public body is not answered either.

        Args:
            path: Below the address.
            bodies: Private.
            understand: Reads an answer; any error means that it is none.
            public: Tells whether anybody is answered.
            at_once: Give a body up after one failure beside an answered public one.

        Raises:
            EngineUnavailableError: The public body was not answered until the deadline, or refused.
        """

        async def work(free: asyncio.Semaphore) -> list[T | None]:
            async def one(body: JSONObject) -> T | None:
                failing, begun = 0.0, time.monotonic()

                async def beside_public() -> T | None:
                    nonlocal failing, begun
                    refused = False
                    try:
                        return await self._try(path, body, understand, free)
                    except _TroubleError:
                        pass
                    except httpx.HTTPStatusError:
                        refused = True
                    counts = await self._answers(path, public, understand, free)
                    now = time.monotonic()
                    failing, begun = failing + (now - begun if counts else 0.0), now
                    if (counts and at_once) or refused or failing >= self._deadline:
                        return None
                    raise _TroubleError

                return await self._again()(beside_public)

            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(body)) for body in bodies]
            return [task.result() for task in tasks]

        return self._whole(work)

    def _whole(self, work: Callable[[asyncio.Semaphore], Coroutine[Any, Any, list[R]]]) -> list[R]:
        """Results of work in the loop of requests.

        Raises:
            EngineUnavailableError: In the place of any error.
        """
        answers: list[R] | None = None
        try:
            with unobserved():
                answers = run_in_loop(work(asyncio.Semaphore(_IN_FLIGHT)))
        except MemoryError:
            raise
        except Exception:  # noqa: S110 - whatever it says may quote a prompt
            pass
        # Outside of the handler, so that no error of the client is this one's context.
        if answers is None:
            raise EngineUnavailableError
        return answers

    async def _answers(
        self,
        path: str,
        public: JSONObject,
        understand: Callable[[Any, JSONObject], object],
        free: asyncio.Semaphore,
    ) -> bool:
        """Wait until a public body is answered; whether it was at the first try.

        Raises:
            TimeoutError: It was not until the deadline.
            HTTPStatusError: It was refused.
        """
        try:
            await self._try(path, public, understand, free)
        except _TroubleError:
            async with asyncio.timeout(self._deadline):
                await self._again()(self._try, path, public, understand, free)
            return False
        return True

    def _again(self) -> AsyncRetrying:
        """Tries after trouble, without end."""
        wait = wait_random_exponential(multiplier=self._backoff / 50, max=self._backoff)
        return AsyncRetrying(retry=retry_if_exception_type(_TroubleError), wait=wait)

    def _once(self, method: str, url: str, body: JSONObject | None) -> tuple[int, Any]:
        """Status and contents; 0 where nothing came, or nothing that can be read."""
        try:
            with unobserved():
                return run_in_loop(self._timed(method, url, body))
        except Exception:
            return 0, None

    async def _timed(self, method: str, url: str, body: JSONObject | None) -> tuple[int, Any]:
        async with asyncio.timeout(self._deadline):
            response = await self._send(method, url, body)
        return response.status_code, response.json()

    async def _try(
        self,
        path: str,
        body: JSONObject,
        understand: Callable[[Any, JSONObject], T],
        free: asyncio.Semaphore,
    ) -> T:
        async with free:
            try:
                async with asyncio.timeout(self._deadline / _CALLS):
                    response = await self._send("POST", f"{self.url}{path}", body)
            except (httpx.HTTPError, OSError):  # a time-out is one of these
                raise _TroubleError from None
        if response.status_code >= 500 or response.status_code in _PASSING:
            raise _TroubleError
        response.raise_for_status()  # refused for good
        try:
            return understand(response.json(), body)
        except (ValueError, TypeError, LookupError, AttributeError):
            raise _TroubleError from None

    async def _send(self, method: str, url: str, body: JSONObject | None) -> httpx.Response:
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
        begin_in_loop(client.aclose())


def run_in_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run work in the thread of this process and wait for it; an interrupt ends the work."""
    future = begin_in_loop(work)
    try:
        return future.result()
    finally:
        future.cancel()


def begin_in_loop(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Run work there without waiting, as what collects garbage must: it may be that thread."""
    with _starting:  # two threads that come first at once have the same loop
        loop = _loop(os.getpid())
    return asyncio.run_coroutine_threadsafe(work, loop)


def settle(seconds: float = 1.0) -> None:
    """Wait for what was begun there and nobody waits for, such as the close of a client."""
    if os.getpid() in _loops:
        run_in_loop(_others(seconds))


async def _others(seconds: float) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=seconds)


def _loop(process: int) -> asyncio.AbstractEventLoop:
    """The loop of a process: a forked child has not got its parent's thread."""
    if process not in _loops:
        made = asyncio.new_event_loop()
        if _loops.setdefault(process, made) is made:
            name = "dpicl-rag servers"
            threading.Thread(target=made.run_forever, name=name, daemon=True).start()
        else:  # what collected garbage while it was made came in again and made another
            made.close()
    return _loops[process]
