"""Registry of methods by name, and their settings where they label from documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, get_args

from dpicl_rag.accounting import Budget
from dpicl_rag.configuration import MethodName, PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.selection import Mechanism
from dpicl_rag.methods.base import Method
from dpicl_rag.methods.not_private import NotPrivate
from dpicl_rag.methods.product_of_experts import CORRECTED, GROUPED, ProductOfExperts
from dpicl_rag.methods.votes import ON_VOTES, FlippedLabels, Sampling, Votes, VotesGaussian

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


def over_documents(name: str, config: PrivacyConfig, budget: Budget) -> tuple[Mechanism, bool]:
    """A method with its noise for one label, and whether it reads a content-free question too.

    Raises:
        ConfigurationError: The method does not fit documents or the settings.
    """
    if name not in get_args(MethodName):
        raise ConfigurationError(
            f"method {name!r} cannot label from documents; use one of "
            f"{', '.join(get_args(MethodName))}"
        )
    if config.accounting == "individual":
        raise ConfigurationError(
            "methods are charged the same for every unit; leave out the method or use "
            "accounting='fixed'"
        )
    if config.utility is not None or config.strength is not None:
        raise ConfigurationError(
            "a method brings its own utility and strength; leave utility and strength out"
        )
    if config.clip is not None and "clip" not in make(name).parameters:
        raise ConfigurationError(f"method {name!r} has no parameter clip; leave clip out")
    method = make(name) if config.clip is None else make(name, clip=config.clip)
    return method.calibrate(budget).mechanism, method.takes_priors
