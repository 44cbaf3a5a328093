"""A clock of tests that do not wait for a deadline."""

from __future__ import annotations

import time
from contextvars import ContextVar

_now: ContextVar[float] = ContextVar("now", default=0.0)


class SwiftClock:
    """Every look at it takes ten seconds, in each thread and task by itself."""

    @staticmethod
    def monotonic() -> float:
        _now.set(_now.get() + 10.0)
        return _now.get()

    time = staticmethod(time.time)
