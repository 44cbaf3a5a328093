"""A reader that makes one call for each prompt, several at once: all reply, or none."""

from __future__ import annotations

import copy
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from contextvars import Context, copy_context
from typing import NamedTuple

from tenacity import (
    Retrying,
    retry_if_result,
    sleep_using_event,
    stop_when_event_set,
    wait_random_exponential,
)

from dpicl_rag import _validate
from dpicl_rag.errors import EngineUnavailableError, ModelError
from dpicl_rag.language_models.base import Progress
from dpicl_rag.language_models.readers.call_failures import Failure, failure_of, status_of
from dpicl_rag.language_models.readers.quiet_calls import quietly
from dpicl_rag.language_models.readers.reply_cache import ReplyCache
from dpicl_rag.language_models.turns import undisturbed, waited

PUBLIC_PROMPT = "Reply with the word OK."
"""Asked before any document is read, and wherever it must be known whether anybody is answered."""

CONCURRENCY = 8
"""Calls at once, by default."""

DEADLINE = 120.0
"""Seconds without a single reply after which there is none at all, by default."""

_WAIT = wait_random_exponential(multiplier=0.2, max=10.0)
_REFUSED = (
    "the reader's provider refuses the call; check the key, the model's name, and that the account "
    "may use it"
)


class _Outcome(NamedTuple):
    """What a call came to.

    Attributes:
        text: The reply; empty where there is none.
        failure: Why there is none; None where there is one.
        kind: An error's HTTP status or type, or the type of a reply that is no text. Private, but
            for public prompts.
    """

    text: str = ""
    failure: Failure | None = None
    kind: str = ""


class ConcurrentReader:
    """Replies of anything that turns a prompt into text. Follows `Reader`.

    What follows from one prompt alone is ``""``: an empty reply, one that is no text, a prompt that
    is refused (HTTP 400, 413, 422), an error that nothing is known of. Time-outs, lost
    connections, HTTP 408, 409, 425, 429 and all from 500 are asked again, until no prompt has had
    an outcome for so long as the deadline says; then there is no reply at all. A deadline for all
    of them together would tell how many there are.

    Other refusals speak of whoever asks, unless the provider still replies to a public prompt: then
    the prompt alone was refused, and its reply is ``""``.

    Before the first prompts of its life it asks a public one, so that what cannot work is seen
    before a document is read. Neither logs nor traces see the calls (see `quietly`).

    What was replied is kept, also where others then fail: the same prompt is asked once in a time
    that `ReplyCache` says.

    Args:
        call: Gives the reply to a prompt. It is called in several threads at once, each time in a
            copy of the asker's context. It must keep nothing from one prompt for another.
        fingerprint: Names the model and its settings. Public.
        concurrency: Calls at once. Public.
        deadline: Seconds without an outcome. Public. A call that is still running then is left to
            itself.

    Raises:
        ConfigurationError: ``concurrency`` is below 1, or ``deadline`` is no number above 0.
    """

    def __init__(
        self,
        call: Callable[[str], object],
        fingerprint: str,
        *,
        concurrency: int = CONCURRENCY,
        deadline: float = DEADLINE,
    ) -> None:
        self._call = call
        self._fingerprint = fingerprint
        self._concurrency = _validate.count("concurrency", concurrency)
        self._deadline = _validate.positive("deadline", deadline)
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

    def replies(self, prompts: Sequence[str], on_progress: Progress | None = None) -> list[str]:
        """One reply for each prompt, in their order; ``""`` where a prompt's own content got none.

        Where no prompt is to be asked a public one is, so that a provider that is down is told in
        any case.

        Args:
            prompts: Whole prompts. Private.
            on_progress: Called in the thread of the caller with each tenth that is read, 0 to 1.

        Raises:
            EngineUnavailableError: The provider does not answer until the deadline.
            ModelError: The provider refuses whoever asks, or a public prompt gets no reply.
        """
        with undisturbed():  # whoever had a turn meanwhile would wait for the lock
            self._try_once()
        # The same prompt of several units is asked once, as it would be from the cache: what a unit
        # is said to say must not follow from whether another one is there that says the same.
        now = time.time()
        each = dict.fromkeys(prompts)
        found = self._kept(each, now)
        new = [one for one in each if one not in found]
        asked = new or [PUBLIC_PROMPT]
        done = tenths = 0
        with closing(self._outcomes(asked)) as outcomes:
            for index, outcome in outcomes:
                if new:
                    found[new[index]] = outcome.text
                    if self._cache is not None:
                        self._cache.put(self._fingerprint, new[index], outcome.text, now)
                done += 1
                while tenths < done * 10 // len(asked):  # other steps would tell how many there are
                    tenths += 1
                    if on_progress is not None:
                        on_progress(tenths / 10, 1.0)
        return [found[one] for one in prompts]

    def _kept(self, prompts: Iterable[str], now: float) -> dict[str, str]:
        """The replies that stand."""
        if self._cache is None:
            return {}
        self._cache.forget_expired(now)
        found = {one: self._cache.get(self._fingerprint, one, now) for one in prompts}
        return {one: reply for one, reply in found.items() if reply is not None}

    def _try_once(self) -> None:
        """Ask a public prompt, if no call of this reader has been answered yet."""
        if not self._trying.acquire(timeout=self._deadline):
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
        """What every prompt came to, by its place, as they come.

        Raises:
            EngineUnavailableError: For so long as the deadline says none has come.
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
                ended.put((index, self._outcome(prompts[index], context, stop)))

        try:
            for _ in range(min(self._concurrency, len(prompts))):
                # As daemons: a call that hangs keeps no program from its end.
                threading.Thread(target=work, name="dpicl-rag reader", daemon=True).start()
            for _ in prompts:
                one = _next(ended, self._deadline)
                # Raised outside of any handler, so that no error of a client is its context.
                if one is None or one[1].failure is Failure.PASSING:
                    raise EngineUnavailableError
                if one[1].failure is Failure.REFUSED:
                    raise ModelError(_REFUSED)
                yield one
        finally:
            stop.set()

    def _outcome(self, prompt: str, context: Context, stop: threading.Event) -> _Outcome:
        """Ask until there is an outcome that lasts; a passing one only where ``stop`` is set."""
        tries = Retrying(
            retry=retry_if_result(lambda found: found.failure is Failure.PASSING),
            wait=_WAIT,
            stop=stop_when_event_set(stop),
            sleep=sleep_using_event(stop),
            retry_error_callback=lambda state: _Outcome(failure=Failure.PASSING),
        )
        found = tries(self._once, prompt, context)
        if found.failure is not Failure.REFUSED or prompt == PUBLIC_PROMPT:
            return found
        public = self._outcome(PUBLIC_PROMPT, context, stop)
        lasting = public.failure is None or public.failure is Failure.OWN
        return _Outcome(failure=Failure.OWN) if lasting else public

    def _once(self, prompt: str, context: Context) -> _Outcome:
        try:
            found = context.copy().run(self._call, prompt)
        except BaseException as error:  # nobody but the call is meant by one in this thread
            status = status_of(error)
            kind = type(error).__name__ if status is None else f"HTTP {status}"
            return _Outcome(failure=failure_of(error), kind=kind)
        if isinstance(found, str):
            # What cannot be encoded would be an error further on.
            return _Outcome(found.encode("utf-8", "replace").decode("utf-8"))
        return _Outcome(failure=Failure.OWN, kind=type(found).__name__)


def _next(
    ended: queue.SimpleQueue[tuple[int, _Outcome]], seconds: float
) -> tuple[int, _Outcome] | None:
    """The next outcome; None where none comes in time."""
    try:
        return waited(ended, seconds)
    except queue.Empty:
        return None
