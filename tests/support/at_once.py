"""Calls that run in threads at the same time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeVar

T = TypeVar("T")


def at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    """What each call gives, or the first error; each has a thread, and they begin together."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], T]) -> T:
        start.wait(10)
        return call()

    with ThreadPoolExecutor(len(calls)) as threads, hurried():
        return list(threads.map(run, calls))


@contextmanager
def hurried() -> Iterator[None]:
    """Let threads take turns as often as can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class Meeting:
    """A place where threads wait until some are there at once; one by one they pass it soon.

    Args:
        threads: How many.
    """

    def __init__(self, threads: int = 2) -> None:
        self._barrier = threading.Barrier(threads)

    def wait(self) -> None:
        """Wait for the others, but not for long."""
        with suppress(threading.BrokenBarrierError):
            self._barrier.wait(0.1)
