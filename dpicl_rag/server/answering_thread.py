"""The one thread in which answers begin, draw and end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

from dpicl_rag.language_models.joint_passes import JointPasses

T = TypeVar("T")

GATHERING = 0.02
"""Seconds that a pass waits for answers that have just drawn: less than a pass takes."""


@dataclass(eq=False, slots=True)
class _Work:
    """A piece of work in the line.

    Attributes:
        do: Does it.
        of: The answer that it belongs to; None where it belongs to none.
        more: Whether that answer has more to do at once.
    """

    do: Callable[[], Any]
    of: str | None
    more: bool
    done: Future[Any] = field(default_factory=Future)


class AnsweringThread:
    """Does one thing after the other, in the order of asking; answers that draw share passes.

    What goes in steps (`dpicl_rag.language_models.turns`) does one after each thing of others.

    What one answer has to do is done in its order, each piece after the end of the one before.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dpicl-engine")
        self._joint_passes = JointPasses()
        self._news = threading.Condition()
        self._line: list[_Work] = []
        self._under_way: set[str] = set()
        # Answers that will ask again at once, and until when that is waited for.
        self._back_by: dict[str, float] = {}

    def submit(
        self, do: Callable[[], T], *, of: str | None = None, more: bool = False
    ) -> Future[T]:
        """Put something in the line. Cancelled before its turn, it is not done.

        Args:
            do: Does it.
            of: The answer that it belongs to.
            more: Whether the answer is expected to ask for more as soon as it is done.
        """
        work = _Work(do, of, more)
        with self._news:
            self._line.append(work)
            if of is not None:
                self._back_by.pop(of, None)
            self._news.notify()
        self._thread.submit(self._run)
        return cast("Future[T]", work.done)

    def shutdown(self) -> None:
        """Take nothing more; what is in the line is done."""
        self._thread.shutdown(wait=False)

    def _run(self) -> None:
        """Work until there is nothing to do."""
        while True:
            work = self._next()
            if work is not None:
                self._joint_passes.start(partial(self._do, work))
            elif self._joint_passes.waiting and self._gathered():
                continue
            elif self._joint_passes.waiting:
                self._joint_passes.run_pass()
            elif not self._joint_passes.between_steps:
                return
            # After each thing that others do, so that neither waits for the other's end.
            self._joint_passes.go_on()

    def _next(self) -> _Work | None:
        """The first in the line whose answer has nothing else under way."""
        with self._news:
            found = self._ready()
            if found is not None:
                self._line.remove(found)
            return found

    def _ready(self) -> _Work | None:
        return next((work for work in self._line if work.of not in self._under_way), None)

    def _gathered(self) -> bool:
        """Wait for those who will ask at once; whether there is something to do before a pass."""
        with self._news:
            now = time.monotonic()
            self._back_by = {of: by for of, by in self._back_by.items() if by > now}
            if self._back_by and self._ready() is None:
                self._news.wait(max(self._back_by.values()) - now)
                return True
            return self._ready() is not None

    def _do(self, work: _Work) -> None:
        if not work.done.set_running_or_notify_cancel():
            return
        if work.of is not None:
            self._under_way.add(work.of)
        try:
            found = work.do()
        except BaseException as error:
            self._leave(work)
            work.done.set_exception(error)
        else:
            self._leave(work)
            work.done.set_result(found)

    def _leave(self, work: _Work) -> None:
        """Before anybody hears of the end: who does may ask for more."""
        if work.of is None:
            return
        self._under_way.discard(work.of)
        if work.more:
            with self._news:
                self._back_by[work.of] = time.monotonic() + GATHERING
