"""A language model that writes nothing, where a reader's notes are all that is needed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import Input, Progress, Rows

if TYPE_CHECKING:
    from dpicl_rag.mechanisms.step import Step

_PIECES = re.compile(r"\s*\S+|\s+")


class WordNumbers:
    """A tokenizer whose tokens are words, each the number that its bytes write."""

    start_tokens: Sequence[int] = ()
    stop_tokens = frozenset({0})

    def encode(self, text: str) -> list[int]:
        """One number for each word, the space before it included."""
        # The first byte keeps what begins with zero; 1 alone would be an empty word.
        whole = (piece.encode("utf-8", "replace") for piece in _PIECES.findall(text))
        return [int.from_bytes(b"\x01" + piece) for piece in whole]

    def encode_template(self, text: str) -> list[int]:
        """Numbers of words, as `encode` has them."""
        return self.encode(text)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The words of numbers."""
        pieces = (id.to_bytes((id.bit_length() + 7) // 8)[1:] for id in token_ids if id)
        return b"".join(pieces).decode("utf-8", "replace")

    def chat(self, messages: Sequence[dict[str, str]]) -> str | None:
        """None: there is no template of turns."""
        return None


class NoWriter:
    """A language model that draws no token: answers are what notes agree on."""

    tokenizer = WordNumbers()
    fingerprint = "none"
    context_length = 1 << 20

    def __repr__(self) -> str:
        return "NoWriter()"

    def digest(self, passages: Sequence[str], most: int) -> Input:
        """The passages as they are."""
        return tuple(passages)

    def read(
        self,
        prefix: Sequence[int],
        inputs: Sequence[Input],
        *,
        room: int,
        on_progress: Progress | None = None,
    ) -> Rows:
        """Rows that say nothing."""
        return _NoRows()


class UnloadedModel(NoWriter):
    """The place of a model that nobody loads, where plans are made for it.

    Args:
        fingerprint: Of the model, if it is known.
    """

    speaks = True  # as every model that has a name

    def __init__(self, fingerprint: str = NoWriter.fingerprint) -> None:
        self.fingerprint = fingerprint

    def __repr__(self) -> str:
        return "UnloadedModel()"


class UnloadedReader:
    """What stands in the place of a reader that nobody calls, where plans are made for it."""

    fingerprint = "none"

    def replies(self, prompts: Sequence[str], on_progress: Progress | None = None) -> list[str]:
        """Refuse: a plan reads nothing."""
        raise ConfigurationError("plans are made without a reader; give one to read documents")


class _NoRows:
    def extend(self, token_ids: Sequence[int]) -> Step:
        """Refuse: there are no log-probabilities."""
        raise ConfigurationError(
            "a reader alone draws no tokens; give a local model that writes (model=...), or ask "
            "with agreement='only'"
        )

    def score(self, continuations: Sequence[Sequence[int]]) -> Step:
        """Refuse too."""
        return self.extend(())
