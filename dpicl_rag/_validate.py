"""Checks of public parameters: errors that name the parameter, and sentences of pydantic's."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from dpicl_rag.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic import ValidationError

_LONGEST = 128  # characters of a field's name


def non_negative(name: str, value: float) -> float:
    """Return ``value`` as a float; infinity passes, NaN does not."""
    if not value >= 0:
        raise ConfigurationError(f"{name} must be 0 or more")
    return float(value)


def finite(name: str, value: float) -> float:
    """Return a finite ``value`` of 0 or more as a float."""
    if not 0 <= value < math.inf:
        raise ConfigurationError(f"{name} must be finite and 0 or more")
    return float(value)


def positive(name: str, value: float) -> float:
    """Return a finite ``value`` above 0 as a float."""
    if not (value > 0 and math.isfinite(value)):
        raise ConfigurationError(f"{name} must be a finite number above 0")
    return float(value)


def probability(name: str, value: float) -> float:
    """Return ``value`` strictly between 0 and 1 as a float."""
    if not 0 < value < 1:
        raise ConfigurationError(f"{name} must lie strictly between 0 and 1")
    return float(value)


def rate(name: str, value: float) -> float:
    """Return ``value``, above 0 and at most 1, as a float."""
    if not 0 < value <= 1:
        raise ConfigurationError(f"{name} must be above 0 and at most 1")
    return float(value)


def cosine(name: str, value: float) -> float:
    """Return ``value``, from -1 to 1, as a float."""
    if not -1 <= value <= 1:
        raise ConfigurationError(f"{name} must lie between -1 and 1")
    return float(value)


def count(name: str, value: int) -> int:
    """Return ``value``, a whole number of 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigurationError(f"{name} must be a whole number of 1 or more")
    return value


def sentence_of(
    error: ValidationError, known: Iterable[str], elsewhere: Mapping[str, str] | None = None
) -> str:
    """The first thing that pydantic found wrong, in one sentence without the value.

    Args:
        error: What it raised.
        known: Names of the settings that there are.
        elsewhere: By names that there are not: what stands in their place.
    """
    place, sentence = place_and_sentence(error)
    if error.errors()[0]["type"] != "extra_forbidden":
        return sentence
    hint = (elsewhere or {}).get(place) or did_you_mean(place, known)
    return f"{place}: no such setting{'; ' if hint else ''}{hint}"


class Invalid(Protocol):
    """An error of pydantic, or FastAPI's of a request."""

    def errors(self) -> Sequence[Any]:
        """All that is wrong, each with its place and message."""


def place_and_sentence(error: Invalid) -> tuple[str, str]:
    """Place of the first thing that pydantic found wrong, and a sentence that begins with it."""
    first = error.errors()[0]
    # In a request's body, whose fields these are.
    place = ".".join(str(part) for part in first["loc"] if part != "body")[:_LONGEST]
    reason = first["msg"].removeprefix("Value error, ")
    return place, f"{place}: {reason}" if place else reason


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question about a name that is near to one that there is; else nothing."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean {near[0]}?" if near else ""
