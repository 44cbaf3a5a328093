"""An HTTP server that is asked the same until it answers, or a public deadline has passed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, TypeVar

import httpx

from dpicl_rag.errors import EngineUnavailableError, ModelError
from dpicl_rag.language_models.http_client import Body, HttpClient, listed_models
from dpicl_rag.language_models.retries import (
    CallFailure,
    CallOutcome,
    RetriedCalls,
    call_limit,
    failure_of_status,
)
from dpicl_rag.language_models.turns import undisturbed

T = TypeVar("T")

_IN_FLIGHT = 4  # requests of one step at once
_PAUSES = 60  # of the longest kind
_MOST_BYTES = 1 << 28  # of an answer: room for hundreds of tokens at each place of each row


class Server:
    """One server; see `HttpClient` for who else sees what it is sent.

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
        self._client = HttpClient(key, _MOST_BYTES)
        self._deadline = deadline
        self._backoff = deadline / _PAUSES if backoff is None else backoff

    def __repr__(self) -> str:
        return f"Server({self.url!r})"

    def models(self) -> list[dict[str, Any]]:
        """What the server says of each model that it has; asked once.

        Raises:
            ModelError: No such server answers.
        """
        found = listed_models(self._client, self.url, self._deadline)
        if found is None:
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
        url = f"{base}{path.removeprefix('..')}"
        status, found = 0, None
        try:
            reply = self._client.request("POST", url, body, self._deadline)
            status, found = reply.status_code, reply.json()
        except Exception:  # noqa: S110 - nothing came, or nothing that can be read
            pass
        if status == 0 or failure_of_status(status) is CallFailure.PASSING:
            raise EngineUnavailableError
        return found if status == 200 else None

    def ask(
        self,
        path: str,
        bodies: Sequence[Body],
        understand: Callable[[Any, Body], T],
        public: Body | None = None,
        *,
        at_once: bool = False,
    ) -> list[T | None]:
        """Answers to several bodies, in their order; None to one that gets none by itself.

        Args:
            path: Below the address.
            bodies: Private, unless there is no ``public``: then all of them are answered.
            understand: Reads an answer; any error means that it is none.
            public: Tells whether anybody is answered, see `RetriedCalls`.
            at_once: Give a body up after one failure beside an answered public one.

        Raises:
            EngineUnavailableError: What is public was not answered until the deadline, or refused.
        """

        async def call(body: Body) -> CallOutcome[T]:
            seconds = call_limit(self._deadline)
            try:
                reply = await self._client.send("POST", f"{self.url}{path}", body, seconds)
                if reply.is_success:
                    return CallOutcome(understand(reply.json(), body))
            # A time-out is one of the first; the others are of answers that are none.
            except (httpx.HTTPError, OSError, ValueError, TypeError, LookupError, AttributeError):
                return CallOutcome(failure=CallFailure.PASSING)
            # A prompt that is too long for the model now is so for all: the public one tells.
            passing = failure_of_status(reply.status_code) is CallFailure.PASSING
            return CallOutcome(failure=CallFailure.PASSING if passing else CallFailure.REFUSED)

        times = {"deadline": self._deadline, "backoff": self._backoff}
        calls = RetriedCalls(call, public, **times, places=_IN_FLIGHT, at_once=at_once)
        found: dict[int, T | None] = {}
        with undisturbed(), closing(calls.outcomes(bodies)) as outcomes:
            for index, outcome in outcomes:
                if not outcome.lasts:
                    raise EngineUnavailableError
                found[index] = outcome.reply
        return [found[index] for index in range(len(bodies))]
