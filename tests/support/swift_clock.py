"""A clock of tests that do not wait for a deadline."""

from __future__ import annotations

import threading
import time


class SwiftClock(threading.local):
    """Every look at it takes ten seconds, in each thread by itself."""

    now = 0.0

    def monotonic(self) -> float:
        self.now += 10.0
        return self.now

    time = staticmethod(time.time)
