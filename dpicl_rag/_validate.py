"""Checks of public parameters, each with an error that names the parameter."""

from __future__ import annotations

import math

from dpicl_rag.errors import ConfigurationError


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
