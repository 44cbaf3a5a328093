"""Methods by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.methods.base import Method
from dpicl_rag.methods.flipped_labels import ON_VOTES, FlippedLabels
from dpicl_rag.methods.not_private import NotPrivate
from dpicl_rag.methods.product_of_experts import CORRECTED, GROUPED, ProductOfExperts
from dpicl_rag.methods.sampling import Sampling
from dpicl_rag.methods.votes import Votes
from dpicl_rag.methods.votes_gaussian import VotesGaussian

METHODS: Mapping[str, Callable[..., Method]] = {
    "zero-shot": partial(NotPrivate, "zero-shot"),
    "k-shot": partial(NotPrivate, "k-shot"),
    "soft": partial(NotPrivate, "soft"),
    "hard": partial(NotPrivate, "hard"),
    "poe": ProductOfExperts,
    "poe-groups": partial(replace, GROUPED),
    "poe-prior": partial(replace, CORRECTED),
    "votes": Votes,
    "votes-gaussian": VotesGaussian,
    "permute-and-flip": FlippedLabels,
    "permute-and-flip-votes": partial(replace, ON_VOTES),
    "sampling": Sampling,
}
"""Factories by name, in the order of reports; keyword arguments set parameters."""


def make(name: str, **parameters: Any) -> Method:
    """A method by name.

    Args:
        name: A key of ``METHODS``.
        **parameters: Its own public parameters, such as ``clip`` or ``group_size``.

    Raises:
        ConfigurationError: The name or a parameter is unknown, or a value is outside its range.
    """
    if name not in METHODS:
        raise ConfigurationError(f"no method is called {name!r}; there are {', '.join(METHODS)}")
    known = METHODS[name]().parameters
    if unknown := sorted(parameters.keys() - known.keys()):
        raise ConfigurationError(
            f"method {name!r} has no parameter {', '.join(unknown)}; "
            f"it has: {', '.join(known) or 'none'}"
        )
    return METHODS[name](**parameters)
