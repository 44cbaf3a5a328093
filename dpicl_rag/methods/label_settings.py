"""Published methods in the private path: those that label from documents, and their settings."""

from __future__ import annotations

from typing import get_args

from dpicl_rag.accounting import Budget
from dpicl_rag.configuration import MethodName, PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.base import Mechanism
from dpicl_rag.methods.registry import make


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
