"""Inputs of experts for engines that read tokens: as many passages as there is room for."""

from __future__ import annotations

from collections.abc import Sequence

from dpicl_rag.errors import ConfigurationError, ContextLengthError
from dpicl_rag.language_models.tokenizer import HuggingFaceTokenizer


def digest(tokenizer: HuggingFaceTokenizer, passages: Sequence[str], most: int) -> tuple[int, ...]:
    """Token ids of passages, the earliest first, at most ``most``; none for no text.

    Args:
        tokenizer: Of the model.
        passages: Texts of one unit, or of one group of units.
        most: Most tokens.
    """
    ids: list[int] = []
    for passage in passages:
        own = f"\n\n{passage}" if ids else passage
        ids += tokenizer.encode_start(own, most - len(ids))
    return tuple(ids)


def require_room(
    prefix: Sequence[int], inputs: Sequence[Sequence[int]], room: int, context_length: int
) -> None:
    """See that every row has an input, and fits the context with what will be appended.

    Args:
        prefix: Token ids that every row begins with.
        inputs: Token ids of each row.
        room: How many tokens will be appended at most.
        context_length: Most tokens that one row may hold.

    Raises:
        ConfigurationError: A row has no input.
        ContextLengthError: The longest row and the room exceed the context.
    """
    if not inputs or not all(inputs):
        raise ConfigurationError("every row needs a document of at least one token")
    if len(prefix) + max(map(len, inputs)) + room > context_length:
        raise ContextLengthError(
            "the prompt and the answer do not fit the model's context of "
            f"{context_length} tokens; shorten the question or lower max_tokens"
        )
