"""What the private path asks of a language model: rows of log-probabilities, nothing more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import torch

Progress = Callable[[float], None]
"""Called with the part done, 0 to 1. No count: how many experts there are is private."""


class Rows(Protocol):
    """A batch of sequences that grows by the same tokens in every row.

    Row 0 is the public row; the others are experts.
    """

    def extend(self, token_ids: Sequence[int]) -> torch.Tensor:
        """Append the same tokens to every row.

        Args:
            token_ids: One or more token ids.

        Returns:
            Log-probabilities of the next token, float32, shape [rows, vocabulary].
        """
        ...

    def score(self, continuations: Sequence[Sequence[int]]) -> torch.Tensor:
        """Log-probability of each continuation in each row; the rows stay as they were.

        Args:
            continuations: Non-empty sequences of token ids.

        Returns:
            Shape [rows, continuations], float64.
        """
        ...


@runtime_checkable
class BlockRows(Rows, Protocol):
    """Rows that read several tokens in one pass and can forget the last ones."""

    def extend_each(self, token_ids: Sequence[int], keep: int) -> torch.Tensor:
        """Append the same tokens to every row.

        Args:
            token_ids: One or more token ids.
            keep: How many of the last of them are asked for.

        Returns:
            Log-probabilities of what follows each of the last ``keep`` tokens, float32
            [rows, keep, vocabulary].
        """
        ...

    def rewind(self, tokens: int) -> None:
        """Forget the last ``tokens`` appended tokens."""
        ...


class LanguageModel(Protocol):
    """A causal language model with its tokenizer."""

    @property
    def fingerprint(self) -> str:
        """Identifies weights, dtype and tokenizer; part of every cache key."""
        ...

    @property
    def vocabulary_size(self) -> int:
        """Number of columns of the log-probabilities."""
        ...

    @property
    def context_length(self) -> int:
        """Most tokens that one row may hold."""
        ...

    @property
    def stop_tokens(self) -> frozenset[int]:
        """Tokens that end an answer."""
        ...

    def encode(self, text: str) -> list[int]:
        """Tokens of ``text``; control tokens spelled out in it are read as plain text."""
        ...

    def encode_template(self, text: str) -> list[int]:
        """Tokens of public template text, control tokens included."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of ``token_ids`` without control tokens."""
        ...

    def chat(self, messages: Sequence[dict[str, str]]) -> str | None:
        """The messages in the model's chat template, the answer's turn opened.

        Args:
            messages: Dicts with ``role`` and ``content``, a system message first.

        Returns:
            The text, or None where the model has no chat template.
        """
        ...

    def prefix(
        self,
        common: Sequence[int],
        documents: Sequence[Sequence[int]],
        *,
        room: int,
        on_progress: Progress | None = None,
    ) -> Rows:
        """Read ``common + document`` for every row and keep the state.

        Args:
            common: Token ids that every row begins with; read once.
            documents: Token ids, one non-empty sequence per row; lengths may differ. The first
                is the public row's: it is read by itself, and what is kept of it with it.
            room: How many tokens will be appended to every row at most.
            on_progress: Told which part of the tokens is read.
        """
        ...
