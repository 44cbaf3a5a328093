"""Context variables that are found also where CPython has lost count of them.

Garbage that is collected while a variable is set can leave its context with a count of 0
(python/cpython issue 148891). Of each variable that is set it is then said that it is not: what
must stay quiet would speak, and a variable that is set again is lost when that ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def holding(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set a variable for a block. Whatever else is set there can be found, by anyone."""
    if not len(copy_context()):
        one_more: ContextVar[bool] = ContextVar("one_more")
        one_more.set(True)  # the count is no longer 0
    before = variable.set(value)
    try:
        yield
    finally:
        variable.reset(before)


def held(variable: ContextVar[T]) -> T | None:
    """What a variable is set to, or ``None``."""
    context = copy_context()
    if len(context):
        return variable.get(None)
    return dict(context.items()).get(variable)  # goes through all that there are
