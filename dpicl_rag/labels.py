"""Labels as token sequences that can be told apart."""

from __future__ import annotations

from collections.abc import Sequence

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.base import LanguageModel


def label_tokens(model: LanguageModel, labels: Sequence[str], lead: str) -> list[list[int]]:
    """Continuations that stand for the labels.

    Where one label's tokens begin another's, its probability contains the other's; every label
    then ends with the token that ends an answer (or a line), so that whole labels are compared.

    Args:
        model: Its tokenizer is used.
        labels: At least two distinct, non-empty strings.
        lead: What stands between the prompt and a label, for example a space.

    Raises:
        ConfigurationError: The labels cannot be told apart.
    """
    names = [label.strip() for label in labels]
    if len(names) < 2 or not all(names):
        raise ConfigurationError("give at least two labels, none of them empty")
    tokens = [model.encode(lead + name) for name in names]
    if len(set(map(tuple, tokens))) < len(tokens):
        raise ConfigurationError(
            "two labels are the same to the model's tokenizer and cannot be told apart; "
            "rename one of them"
        )
    nested = any(a is not b and b[: len(a)] == a for a in tokens for b in tokens if len(a) < len(b))
    if nested:
        ending = [min(model.stop_tokens)] if model.stop_tokens else model.encode("\n")
        tokens = [ids + ending for ids in tokens]
    return tokens
