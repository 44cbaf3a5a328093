"""How many examples an expert reads, and at which rate examples are sampled, for many methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.methods import METHODS, make
from dpicl_rag.methods.base import Method
from dpicl_research.zeroed_clip import ZeroedProduct

COMPARED_METHODS = (*METHODS, ZeroedProduct.name)
"""Names of all methods that label: those of the library, and what is here to be compared."""


def methods_with(
    names: Sequence[str], *, exemplars: int | None = None, rate: float | None = None
) -> list[Method]:
    """Methods by name; those with experts take the settings, the others stay as they are.

    Args:
        names: Of ``COMPARED_METHODS``.
        exemplars: Examples of an expert on average; None leaves each method its own number.
        rate: With which an example joins a query; None leaves each method its own.

    Raises:
        ConfigurationError: A name is unknown, or a setting out of range.
    """
    given = {"group_size": exemplars, "rate": rate}
    settings = {name: value for name, value in given.items() if value is not None}
    return [_made(name, **settings) if has_experts(_made(name)) else make(name) for name in names]


def require_experts(methods: Sequence[Method]) -> None:
    """Raise unless some method takes these settings.

    Raises:
        ConfigurationError: None has experts.
    """
    if not any(map(has_experts, methods)):
        raise ConfigurationError(
            "none of these methods has experts, so none takes a rate or a number of exemplars"
        )


def has_experts(method: Method) -> bool:
    """Whether a method has an expert for each example or group of examples."""
    return "group_size" in method.parameters


def rate_for(subsets: int, exemplars: int, experts: int) -> float:
    """The rate at which a sample fills a number of subsets, on average.

    Args:
        subsets: Prompts of a query.
        exemplars: Examples of a prompt.
        experts: Examples to sample from, a public number.

    Raises:
        ConfigurationError: There are too few examples.
    """
    if subsets * exemplars > experts:
        raise ConfigurationError(
            f"{subsets} subsets of {exemplars} need {subsets * exemplars} examples; give more "
            "--experts"
        )
    return subsets * exemplars / experts


def _made(name: str, **settings: Any) -> Method:
    return ZeroedProduct(**settings) if name == ZeroedProduct.name else make(name, **settings)
