"""Collections of garbage, and what it does at its end to whoever it falls on."""

from __future__ import annotations

import gc
from contextvars import Context, copy_context


def same_variables(before: Context) -> bool:
    """Whether no context variable was set since a copy was taken, not even to what it was."""
    (then,), (now,) = gc.get_referents(before), gc.get_referents(copy_context())
    return then is now


class Collections:
    """Sees each collection of garbage that sets variables of the context that it falls on.

    CPython loses count of those where a variable was being set (python/cpython issue 148891).

    Attributes:
        disturbing: How many have.
    """

    def __init__(self) -> None:
        self.disturbing = 0
        self._before: Context | None = None

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """For ``gc.callbacks``."""
        if phase == "start":
            self._before = copy_context()
        elif self._before is not None:
            self.disturbing += not same_variables(self._before)
            self._before = None
