"""Limits of the server: answers at once, waiting, rates, time. All of them public."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.server.failures import Refusal

MOST_EPSILON = 1e6
"""Of a budget."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Public limits.

    Attributes:
        together: Answers under way at once. Each holds its documents in memory.
        waiting: Questions that may wait.
        each: Questions of one key, under way or waiting, if the key says nothing else.
        a_minute: Questions of one key a minute, if the key says nothing else; as many may come at
            once after a rest.
        seconds: An answer ends at its next token after that, a count at its next step.

    Raises:
        ConfigurationError: A limit is outside its range.
    """

    together: int = 4
    waiting: int = 32
    each: int = 8
    a_minute: int = 60
    seconds: float = 300.0

    def __post_init__(self) -> None:
        if min(self.together, self.each, self.a_minute) < 1 or self.waiting < 0:
            raise ConfigurationError("limits of the server are 1 or more (waiting: 0 or more)")
        if not self.seconds > 0:
            raise ConfigurationError("the time of an answer must be above 0 seconds")


class Rate:
    """A token bucket for each caller.

    Args:
        clock: Seconds; for tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # by caller: what is left, and when

    def take(self, caller: str, a_minute: int) -> None:
        """Take one question.

        Args:
            caller: Whose bucket.
            a_minute: What flows in, and what the bucket holds.

        Raises:
            Refusal: There were too many.
        """
        now, a_second = self._clock(), a_minute / 60
        left, then = self._buckets.get(caller, (float(a_minute), now))
        left = min(a_minute, left + (now - then) * a_second)
        if left < 1:
            raise limited(
                f"this key has {a_minute} questions a minute; ask again later",
                seconds=math.ceil((1 - left) / a_second),
            )
        self._buckets[caller] = left - 1, now


def limited(message: str, *, seconds: int) -> Refusal:
    """Too much of one caller. OpenAI's clients ask again after the time that is named."""
    return Refusal(
        429,
        message,
        kind="rate_limit_error",
        code="rate_limit_exceeded",
        headers={"Retry-After": str(seconds)},
    )


def busy(message: str) -> Refusal:
    """Too much of all callers."""
    return Refusal(503, message, kind="server_error", code="busy", headers={"Retry-After": "5"})
