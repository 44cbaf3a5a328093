"""A reader whose replies are kept, so that one prompt is asked once for all rows of a table."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpicl_rag.language_models.base import Progress

_AT_ONCE = 32  # kept together: an interrupted run loses no more

Replies = Callable[[Sequence[str]], Sequence[str]]


@dataclass
class Used:
    """What a row of a table took, as if nothing had been kept.

    Attributes:
        calls: Prompts.
        tokens_in: Of the prompts.
        tokens_out: Of the replies.
        saved: Seconds that replies took when they were asked for, earlier.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    saved: float = 0.0

    def plus(self, other: Used) -> Used:
        """Both together."""
        return Used(
            self.calls + other.calls,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.saved + other.saved,
        )


class KeptReplies:
    """Follows `Reader`. Replies stand in memory, and in a file if there is one.

    Args:
        replies: Asks.
        fingerprint: Names what is asked.
        tokens: Counts the tokens of a text.
        file: One JSON object a line, each with a digest of its prompt.

    Attributes:
        used: What was used since it was set anew.
    """

    def __init__(
        self,
        replies: Replies,
        fingerprint: str,
        tokens: Callable[[str], int],
        file: Path | None = None,
    ) -> None:
        self.fingerprint = fingerprint
        self.used = Used()
        self._replies = replies
        self._tokens = tokens
        self._file = file
        self._kept: dict[str, tuple[str, float]] = {}
        if file is not None and file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                one = json.loads(line)
                self._kept[one["prompt"]] = (one["reply"], one["seconds"])

    def replies(self, prompts: Sequence[str], on_progress: Progress | None = None) -> list[str]:
        """See `Reader`."""
        keys = [self._key(prompt) for prompt in prompts]
        known = {key for key in keys if key in self._kept}
        new = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in known}
        pairs = list(new.items())
        for first in range(0, len(pairs), _AT_ONCE):
            some = dict(pairs[first : first + _AT_ONCE])
            begun = time.perf_counter()
            found = self._replies(list(some.values()))
            each = (time.perf_counter() - begun) / len(some)
            self._keep({key: (text, each) for key, text in zip(some, found, strict=True)})
        told = [self._kept[key] for key in keys]
        self.used.calls += len(prompts)
        self.used.tokens_in += sum(map(self._tokens, prompts))
        self.used.tokens_out += sum(self._tokens(text) for text, _ in told)
        self.used.saved += sum(self._kept[key][1] for key in keys if key in known)
        return [text for text, _ in told]

    def ask(self, prompt: str) -> str:
        """The reply to one prompt."""
        return self.replies([prompt])[0]

    def _keep(self, found: dict[str, tuple[str, float]]) -> None:
        self._kept.update(found)
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as lines:
                for key, (text, seconds) in found.items():
                    kept = {"prompt": key, "reply": text, "seconds": seconds}
                    lines.write(json.dumps(kept) + "\n")

    def _key(self, prompt: str) -> str:
        return hashlib.sha256(f"{self.fingerprint}\n{prompt}".encode()).hexdigest()
