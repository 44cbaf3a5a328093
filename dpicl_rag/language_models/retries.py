"""Retries of calls to a provider: what fails for one prompt alone is told from what fails for all.

A provider may fail over one prompt alone, and for ever. So a prompt that fails is told from a
provider that is down by a public prompt, asked beside it. What each may cost in time is a public
number of its own: a deadline for all of them together would tell how many there are, and one that
others' replies put off would tell of the others.
"""

from __future__ import annotations

import asyncio
import itertools
import queue
import secrets
import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from dpicl_rag.errors import EngineUnavailableError
from dpicl_rag.language_models.event_loop import SERVERS
from dpicl_rag.language_models.turns import waited

P = TypeVar("P")
R = TypeVar("R")

_CALLS = 4  # that fit into the deadline: one that hangs by accident is made again


class CallFailure(Enum):
    """Why a call gave no reply."""

    OWN = "own"
    """The prompt's own content, as far as one can tell."""
    PASSING = "passing"
    """Trouble around the prompt; a later try may go well."""
    REFUSED = "refused"
    """Whoever asks is refused: a wrong key, an unknown model, an account that cannot pay."""


_OWN = {400, 413, 422}
_PASSING = {408, 409, 425, 429}  # and all from 500


def failure_of_status(status: int) -> CallFailure:
    """What a HTTP status that is no success follows from."""
    if status >= 500 or status in _PASSING:
        return CallFailure.PASSING
    return CallFailure.OWN if status in _OWN else CallFailure.REFUSED


def call_limit(deadline: float) -> float:
    """Seconds of one call at most."""
    return deadline / _CALLS


@dataclass(frozen=True, slots=True)
class CallOutcome(Generic[R]):
    """What a call came to.

    Attributes:
        reply: The reply; None where there is none.
        failure: Why there is none; None where there is one.
        kind: An error's HTTP status or type, or the type of a reply that is no text. Private, but
            for public prompts.
    """

    reply: R | None = None
    failure: CallFailure | None = None
    kind: str = ""

    @property
    def lasts(self) -> bool:
        """Whether another try would come to the same."""
        return self.failure is None or self.failure is CallFailure.OWN


class RetriedCalls(Generic[P, R]):
    """Calls for some prompts, several at once, each made again until its outcome lasts.

    After a failure that is not the prompt's own the public prompt is asked. Where that is answered,
    a refusal was the prompt's own; what passes is asked again, until the prompt has failed beside
    an answered public one for so long as the deadline says, and is then its own too. Where the
    public prompt is not answered so long, or refused, that is the outcome, and nothing more is
    asked.

    A prompt's time stands still while the public prompt is not answered at its first try, and while
    it waits for a place: neither how many others there are nor what becomes of them moves it. A
    prompt has its place until it is known what its failure means, so no more calls are under way
    than there are places; between two tries others have it.

    Args:
        call: Makes one call, in `SERVERS`, for so long as `call_limit` says at most. It raises
            nothing.
        public: A prompt that tells whether anybody is answered; None where all prompts are public.
        deadline: Seconds that a prompt may fail. Public.
        backoff: Most seconds between two tries; the first pauses are shorter. Public.
        places: Calls at once. Public.
        at_once: Give a prompt up after one failure beside an answered public one.
    """

    def __init__(
        self,
        call: Callable[[P], Awaitable[CallOutcome[R]]],
        public: P | None,
        *,
        deadline: float,
        backoff: float,
        places: int,
        at_once: bool = False,
    ) -> None:
        self._call = call
        self._public = public
        self._deadline = deadline
        self._backoff = backoff
        self._places = asyncio.Semaphore(places)
        self._at_once = at_once
        self._over = False

    def outcomes(self, prompts: Sequence[P]) -> Generator[tuple[int, CallOutcome[R]], None, None]:
        """What every prompt came to, by its place, as they come.

        One that does not last is what the public prompt came to, and the last that comes. Whoever
        closes the generator, or is interrupted, ends the calls.

        Raises:
            EngineUnavailableError: A call raised something.
        """
        ended: queue.SimpleQueue[tuple[int, CallOutcome[R]] | None] = queue.SimpleQueue()
        work = SERVERS.begin(self._all(prompts, lambda *one: ended.put(one)))
        work.add_done_callback(lambda _: ended.put(None))
        try:
            for _ in prompts:
                one = waited(ended)
                # Outside of any handler, so that no error of a client is this one's context.
                if one is None:
                    raise EngineUnavailableError
                yield one
                if not one[1].lasts:
                    return
        finally:
            work.cancel()

    async def _all(
        self, prompts: Sequence[P], ended: Callable[[int, CallOutcome[R]], object]
    ) -> None:
        async def one(index: int, prompt: P) -> None:
            found = await self._outcome(prompt)
            self._over |= not found.lasts  # before anybody has the place that was left
            ended(index, found)

        async with asyncio.TaskGroup() as group:
            for index, prompt in enumerate(prompts):
                group.create_task(one(index, prompt))

    async def _outcome(self, prompt: P) -> CallOutcome[R]:
        """Ask until there is an outcome that lasts; another only where nobody is answered."""
        failing, pause, pauses = 0.0, 0.0, self._pauses()
        while True:
            async with self._places:
                if self._over:
                    return CallOutcome(failure=CallFailure.PASSING)
                if self._public is None:
                    return (await self._answered(prompt))[0]
                begun = time.monotonic()
                found = await self._call(prompt)
                if found.lasts:
                    return found
                public, first = await self._answered(self._public)
                if not public.lasts:
                    return public
                if first:
                    failing += pause + time.monotonic() - begun
            given_up = failing >= self._deadline or (first and self._at_once)
            if given_up or found.failure is CallFailure.REFUSED:
                return CallOutcome(failure=CallFailure.OWN)
            pause = next(pauses)
            await asyncio.sleep(pause)

    async def _answered(self, public: P) -> tuple[CallOutcome[R], bool]:
        """What a public prompt comes to by the deadline, and whether it took a single try."""
        until, first, pauses = time.monotonic() + self._deadline, True, self._pauses()
        while (found := await self._call(public)).failure is CallFailure.PASSING:
            if time.monotonic() > until:
                break
            await asyncio.sleep(next(pauses))
            first = False
        return found, first

    def _pauses(self) -> Iterator[float]:
        """Seconds before each next try; drawn, so that calls that fail together part."""
        for tries in itertools.count():
            most = self._backoff * min(1.0, 2.0 ** min(tries, 10) / 50)
            yield secrets.SystemRandom().uniform(0, most)
