"""Progress as lines of a log that nobody watches, for the owner of what is counted."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

_EVERY_S = 30.0


class ProgressLog:
    """A line for each tenth, and one where none came for 30 seconds.

    Args:
        label: What is going on.
        counts: Say how many are done; else only which part.
        write: Takes a line.
        clock: Seconds; for tests.
    """

    def __init__(
        self,
        label: str,
        write: Callable[[str], None],
        *,
        counts: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._label = label
        self._write = write
        self._counts = counts
        self._clock = clock
        self._tenth = 0
        self._told = clock()

    def update(self, done: float, total: float | None) -> None:
        """Note how far it has come; ``total`` is None where it is not known."""
        tenth = math.floor(10 * done / total) if total else 0
        now = self._clock()
        if tenth > self._tenth or now - self._told >= _EVERY_S:
            self._tenth = max(tenth, self._tenth)
            self._told = now
            self._write(f"{self._label}: {self._far(done, total)}")

    def _far(self, done: float, total: float | None) -> str:
        if self._counts:
            return f"{done:,.0f}" + (f" of {total:,.0f}" if total else "")
        return f"{math.floor(100 * done / total)} %" if total else "begun"
