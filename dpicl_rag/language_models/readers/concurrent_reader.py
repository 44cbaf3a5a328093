"""A reader that makes one call for each prompt, several at once: all reply, or none.

A reply may follow from its own prompt alone, and so may its absence. So a prompt that gets none is
told from a provider that is down by a public prompt, asked beside it. What each may cost in time is
a public number of its own: a deadline for all of them together would tell how many there are, and
one that others' replies put off would tell of the others.
"""

from __future__ import annotations

import copy
import itertools
import queue
import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from contextvars import Context, copy_context
from typing import NamedTuple, TypedDict

from dpicl_rag import _validate
from dpicl_rag.errors import EngineUnavailableError, ModelError
from dpicl_rag.language_models.base import Progress, Tenths
from dpicl_rag.language_models.readers.base import CallFailure, failure_of, status_of
from dpicl_rag.language_models.readers.quiet_calls import quietly
from dpicl_rag.language_models.readers.reply_cache import CHARACTERS, ReplyCache
from dpicl_rag.language_models.turns import undisturbed, waited

PUBLIC_PROMPT = "Reply with the word OK."
"""Asked before any document is read, and wherever it must be known whether anybody is answered."""

CONCURRENCY = 8
"""Calls at once, by default."""

DEADLINE = 240.0
"""Seconds of failing after which a prompt has no reply, by default."""

_CALLS = 4  # that fit into the deadline: one that hangs by accident is made again
_PAUSES = 40  # of the longest kind
_REFUSED = (
    "the reader's provider refuses the call; check the key, the model's name, and that the account "
    "may use it"
)


class CallOptions(TypedDict, total=False):
    """Options of the calls of a `ConcurrentReader`; see there."""

    concurrency: int
    deadline: float
    backoff: float | None


def call_limit(deadline: float) -> float:
    """Seconds of one call at most."""
    return deadline / _CALLS


class _Outcome(NamedTuple):
    """Outcome of a call.

    Attributes:
        text: The reply; empty where there is none.
        failure: Why there is none; None where there is one.
        kind: An error's HTTP status or type, or the type of a reply that is no text. Private, but
            for public prompts.
    """

    text: str = ""
    failure: CallFailure | None = None
    kind: str = ""

    @property
    def lasts(self) -> bool:
        """True where another try would come to the same."""
        return self.failure is None or self.failure is CallFailure.OWN


class ConcurrentReader:
    """Replies of anything that turns a prompt into text. Follows `Reader`.

    What follows from one prompt alone is ``""``: an empty reply, one that is no text, a prompt that
    is refused (HTTP 400, 413, 422), an error that nothing is known of. After any other failure a
    public prompt is asked. Where that is answered too, a refusal was the prompt's own; a time-out,
    a lost connection, HTTP 408, 409, 425, 429 and all from 500 are asked again, until the prompt
    has failed beside an answered public one for so long as the deadline says. Then its reply is
    ``""`` as well. Where the public prompt is not answered so long, there is no reply at all.

    Each prompt's time begins with its own first call, and stands still while the public prompt is
    not answered either: neither how many others there are nor what becomes of them moves it. A call
    that hangs keeps one place of several, and only for a part of the deadline.

    Before the first prompts of its life it asks a public one, so that what cannot work is seen
    before a document is read. Neither logs nor traces see the calls (see `quietly`).

    What was replied is kept, also where others then fail: the same prompt is asked once in a time
    that `ReplyCache` says.

    Args:
        call: Gives the reply to a prompt. It is called in several threads at once, each time in a
            copy of the asker's context. It must keep nothing from one prompt for another. Of its
            reply 4,096 characters count.
        fingerprint: Names the model and its settings. Public.
        concurrency: Calls at once. Public.
        deadline: Seconds that a prompt may fail; one call takes a quarter of them at most, and is
            left to itself then. Public.
        backoff: Most seconds between a failure and the next try; the first pauses are shorter. By
            default a fortieth of the deadline. Public.

    Raises:
        ConfigurationError: ``concurrency`` is below 1, or another is no number above 0.
    """

    def __init__(
        self,
        call: Callable[[str], object],
        fingerprint: str,
        *,
        concurrency: int = CONCURRENCY,
        deadline: float = DEADLINE,
        backoff: float | None = None,
    ) -> None:
        self._call = call
        self._fingerprint = fingerprint
        self._concurrency = _validate.count("concurrency", concurrency)
        self._deadline = _validate.positive("deadline", deadline)
        backoff = self._deadline / _PAUSES if backoff is None else backoff
        self._backoff = _validate.positive("backoff", backoff)
        self._cache: ReplyCache | None = ReplyCache()
        self._trying = threading.Lock()
        self._tried = False

    def __repr__(self) -> str:
        return f"ConcurrentReader({self._fingerprint})"

    @property
    def fingerprint(self) -> str:
        """Names the model and its settings, for caches. Public."""
        return self._fingerprint

    def with_cache(self, cache: ReplyCache | None) -> ConcurrentReader:
        """The same reader, with other replies at hand; None makes every call anew."""
        other = copy.copy(self)
        other._cache = cache
        return other

    def replies(
        self,
        prompts: Sequence[str],
        on_progress: Progress | None = None,
        units: Sequence[str] | None = None,
    ) -> list[str]:
        """One reply for each prompt, in their order; ``""`` where a prompt's own content got none.

        Where no prompt is to be asked a public one is, so that a provider that is down is told in
        any case.

        Args:
            prompts: Whole prompts. Private.
            on_progress: Called in the thread of the caller with each tenth that is read, 0 to 1.
            units: The unit of each prompt, whose replies go when it is forgotten. Private.

        Raises:
            EngineUnavailableError: The provider does not answer until the deadline.
            ModelError: The provider refuses whoever asks, or a public prompt gets no reply.
        """
        with undisturbed():  # whoever had a turn meanwhile would wait for the lock
            self._try_once()
        # The same prompt of several units is asked once, as it would be from the cache: what a unit
        # is said to say must not follow from whether another one is there that says the same.
        now = time.time()
        each: dict[str, list[str]] = {prompt: [] for prompt in prompts}
        for prompt, unit in zip(prompts, units or (), strict=units is not None):
            each[prompt].append(unit)
        found = self._kept(each, now)
        new = [one for one in each if one not in found]
        asked = new or [PUBLIC_PROMPT]
        advance = Tenths(len(asked), on_progress)
        with closing(self._outcomes(asked)) as outcomes:
            for index, outcome in outcomes:
                if new:
                    prompt = new[index]
                    found[prompt] = outcome.text
                    if self._cache is not None:
                        whole = self._fingerprint, prompt, outcome.text, now, each[prompt]
                        found[prompt] = self._cache.put(*whole)
                advance(1)
        return [found[one] for one in prompts]

    def _kept(self, prompts: Mapping[str, Sequence[str]], now: float) -> dict[str, str]:
        """The replies that stand."""
        if self._cache is None:
            return {}
        self._cache.forget_expired(now)
        found = {
            one: self._cache.get(self._fingerprint, one, now, units)
            for one, units in prompts.items()
        }
        return {one: reply for one, reply in found.items() if reply is not None}

    def _try_once(self) -> None:
        """Ask a public prompt, if no call of this reader has been answered yet."""
        # Whoever asks it now gives it up in time: after the deadline, and one call.
        if not self._trying.acquire(timeout=self._deadline + 2 * call_limit(self._deadline)):
            raise EngineUnavailableError
        try:
            if self._tried:
                return
            for _, outcome in self._outcomes([PUBLIC_PROMPT]):
                if outcome.failure is not None:
                    raise ModelError(
                        f"the reader gives no text for a public prompt ({outcome.kind}); see that "
                        "it turns any text into text, and that its settings suit the model"
                    )
            self._tried = True
        finally:
            self._trying.release()

    def _outcomes(self, prompts: Sequence[str]) -> Generator[tuple[int, _Outcome], None, None]:
        """Outcomes of prompts, by their places, as they come.

        Raises:
            EngineUnavailableError: A public prompt is not answered.
            ModelError: Whoever asks is refused.
        """
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        ended: queue.SimpleQueue[tuple[int, _Outcome]] = queue.SimpleQueue()
        stop = threading.Event()
        with quietly():  # each time anew: a call may load what is held off
            context = copy_context()
        for index in range(len(prompts)):
            waiting.put(index)

        def work() -> None:
            while not stop.is_set():
                try:
                    index = waiting.get_nowait()
                except queue.Empty:
                    return
                outcome = self._outcome(prompts[index], context, stop)
                ended.put((index, outcome))
                if not outcome.lasts:
                    stop.set()

        try:
            for _ in range(min(self._concurrency, len(prompts))):
                threading.Thread(target=work, name="dpicl-rag reader", daemon=True).start()
            for _ in prompts:
                one = waited(ended)
                # Raised outside of any handler, so that no error of a client is its context.
                if one[1].failure is CallFailure.PASSING:
                    raise EngineUnavailableError
                if one[1].failure is CallFailure.REFUSED:
                    raise ModelError(_REFUSED)
                yield one
        finally:
            stop.set()

    def _outcome(self, prompt: str, context: Context, stop: threading.Event) -> _Outcome:
        """Ask until there is an outcome that lasts; another only where nobody is answered."""
        if prompt == PUBLIC_PROMPT:
            return self._public(context, stop)[0]
        failing, begun = 0.0, time.monotonic()
        for pause in self._pauses():
            found = self._once(prompt, context)
            if found.lasts:
                return found
            public, at_once = self._public(context, stop)
            if not public.lasts:
                return public
            now = time.monotonic()
            failing, begun = failing + (now - begun if at_once else 0.0), now
            if found.failure is CallFailure.REFUSED or failing >= self._deadline:
                return _Outcome(failure=CallFailure.OWN)
            if stop.wait(pause):
                break
        return _Outcome(failure=CallFailure.PASSING)

    def _public(self, context: Context, stop: threading.Event) -> tuple[_Outcome, bool]:
        """Outcome of the public prompt by the deadline, and whether it took a single try."""
        until, first = time.monotonic() + self._deadline, True
        for pause in self._pauses():
            found = self._once(PUBLIC_PROMPT, context)
            if found.failure is not CallFailure.PASSING or time.monotonic() > until:
                break
            if stop.wait(pause):
                break
            first = False
        return found, first

    def _pauses(self) -> Iterator[float]:
        """Seconds before each next try; drawn, so that calls that fail together part."""
        for tries in itertools.count():
            most = self._backoff * min(1.0, 2.0 ** min(tries, 10) / 50)
            yield secrets.SystemRandom().uniform(0, most)

    def _once(self, prompt: str, context: Context) -> _Outcome:
        """One call, in a thread of its own: who waits for it can leave it."""
        ended: queue.SimpleQueue[_Outcome] = queue.SimpleQueue()

        def call() -> None:
            ended.put(self._called(prompt, context.copy()))

        try:
            # As a daemon: a call that hangs keeps no program from its end.
            threading.Thread(target=call, name="dpicl-rag reader", daemon=True).start()
            return ended.get(timeout=call_limit(self._deadline))
        except (queue.Empty, RuntimeError):  # late, or there are too many threads
            return _Outcome(failure=CallFailure.PASSING, kind="time-out")

    def _called(self, prompt: str, context: Context) -> _Outcome:
        try:
            found = context.run(self._call, prompt)
            if isinstance(found, str):
                # What cannot be encoded would be an error further on.
                return _Outcome(found[:CHARACTERS].encode("utf-8", "replace").decode("utf-8"))
        except BaseException as error:  # nobody but the call is meant by one in this thread
            status = status_of(error)
            kind = type(error).__name__ if status is None else f"HTTP {status}"
            return _Outcome(failure=failure_of(error), kind=kind)
        return _Outcome(failure=CallFailure.OWN, kind=type(found).__name__)
