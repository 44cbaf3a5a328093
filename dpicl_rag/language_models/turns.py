"""Turns: long work goes in steps, and between two of them others have theirs.

How large a step is follows from public numbers. Who runs the work says what happens between two
steps; it may end the work there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from queue import Empty, SimpleQueue
from typing import TypeVar

from dpicl_rag._context_variables import held, holding

T = TypeVar("T")

_WAIT = 0.1  # seconds between two turns, where something is waited for

_between: ContextVar[Callable[[], None] | None] = ContextVar("between")


def give_way() -> None:
    """Say that a step is done. Nothing may be held then that other work needs.

    Raises:
        StoppedError: Nobody waits for the rest of the work.
    """
    between = held(_between)
    if between is not None:
        between()


def waited(found: SimpleQueue[T]) -> T:
    """The next thing of a queue; others have their turn while it does not come.

    Raises:
        StoppedError: As `give_way`.
    """
    while True:
        with suppress(Empty):
            return found.get(timeout=_WAIT)
        give_way()


@contextmanager
def taking_turns(between: Callable[[], None]) -> Iterator[None]:
    """Call something between the steps of the block, after what is called there already.

    Args:
        between: May raise ``StoppedError``.
    """
    outer = held(_between)

    def both() -> None:
        if outer is not None:
            outer()
        between()

    with holding(_between, both):
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """Do the block as one step: it holds what others need, or would take an end for a failure."""
    with holding(_between, None):
        yield
