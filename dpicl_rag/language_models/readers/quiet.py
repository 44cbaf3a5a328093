"""Whether the running call is private, so that nobody is told of it."""

from __future__ import annotations

from contextvars import ContextVar

QUIET: ContextVar[bool] = ContextVar("quiet", default=False)
"""Set by `quietly`, and copied to the threads that make calls."""


def holds() -> bool:
    """Whether it is, in this context."""
    return QUIET.get()
