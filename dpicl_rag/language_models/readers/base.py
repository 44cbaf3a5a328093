"""The interface of a reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from dpicl_rag.language_models.base import Progress


@runtime_checkable
class Reader(Protocol):
    """What replies to prompts, each in a conversation of its own.

    A reply may depend on its own prompt and on coins of its own call, and on nothing else: not on
    how many prompts there are, and not on the others. Where calls fail for reasons that are not a
    prompt's own (a time-out, a rate limit, a server that is down), all of them fail together.
    """

    @property
    def fingerprint(self) -> str:
        """Names the model and its settings, for caches. Public."""
        ...

    def replies(self, prompts: Sequence[str], on_progress: Progress | None = None) -> list[str]:
        """One reply for each prompt, in their order; ``""`` where a prompt's own content got none.

        Args:
            prompts: Whole prompts. Private.
            on_progress: Called with the part that is read, 0 to 1.

        Raises:
            EngineUnavailableError: The provider does not answer, for whatever prompt.
            ModelError: The provider refuses whoever asks: a wrong key, an unknown model.
        """
        ...
