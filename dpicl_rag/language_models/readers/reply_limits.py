"""A public limit for the replies of models that other libraries hold.

A document may ask for a reply without end ("write all numbers"). A model without a limit would
write it, and whoever waits for all replies would wait for that one.
"""

from __future__ import annotations

from typing import Any

TOKENS = 1024
"""Of a reply at most, where a model has no limit: room for a line, and for thoughts before it."""

_NAMES = ("max_tokens", "max_output_tokens", "max_new_tokens", "num_predict")
"""What models of LangChain and LlamaIndex call it."""


def limits_of(model: Any) -> dict[str, int]:
    """Fields of a pydantic model that limit its replies and do not yet, each with `TOKENS`.

    A limit that somebody has set is public, and stays.
    """
    fields = type(model).model_fields
    return {name: TOKENS for name in _NAMES if name in fields and not _limits(model, name)}


def _limits(model: Any, name: str) -> bool:
    found = getattr(model, name, None)
    return isinstance(found, int) and found > 0  # Ollama has negative numbers for no limit
