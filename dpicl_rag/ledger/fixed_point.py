"""Rho as whole numbers, so that sums are exact and never drift past a budget.

The file holds nano-rho (10^-9 rho) as 64-bit integers. Charges round up and budgets round down.
Within one answer, increments are summed at 2^-120 rho and only their total is rounded, so an answer
of many tokens is not charged a nano-rho for each.

A float is a neighbour of the number that was meant: 0.1 lies above one tenth. A value that is
within one part in 2^40 (10^-12) of a whole nano-rho is read as that number, so ten answers of 0.1
fit a budget of 1.0. Every guarantee of the ledger holds to that part in 10^12.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpicl_rag import _validate
from dpicl_rag.accounting.conversion import NANO
from dpicl_rag.errors import ConfigurationError

WHOLE_DELTA = 10**18
"""A delta of 1."""

MAX_RHO = 1e6
"""Largest rho that a budget or a charge may have; far beyond any that protects."""

_SCALE_BITS = 120
_SCALE = 2.0**_SCALE_BITS
_TOLERANCE_BITS = 40


def exact(name: str, rho: float) -> int:
    """``rho`` as a whole number of 2^-120 rho, rounded up.

    Args:
        name: What the value is called in an error.
        rho: A finite number from 0 to ``MAX_RHO``.

    Raises:
        ConfigurationError: ``rho`` is not a number, is negative, or is too large. The message does
            not carry the value, which may be private.
    """
    if isinstance(rho, (str, bytes, bytearray, bool)):
        raise ConfigurationError(f"{name} must be a number of rho")
    try:
        value = float(rho)
    except (TypeError, ValueError, OverflowError):
        raise ConfigurationError(f"{name} must be a number of rho") from None
    if not 0.0 <= value <= MAX_RHO:  # also false for nan
        raise ConfigurationError(f"{name} must be between 0 and {MAX_RHO:g} rho")
    # A product with a power of two is exact, so only the ceiling rounds.
    return math.ceil(value * _SCALE)


def charge(amount: int) -> int:
    """Nano-rho that pay for ``amount`` (in 2^-120 rho): rounded up."""
    meant = amount - (amount >> _TOLERANCE_BITS)
    return -((-meant * NANO) >> _SCALE_BITS)


def allowance(amount: int) -> int:
    """Nano-rho that ``amount`` (in 2^-120 rho) allows to spend: rounded down."""
    meant = amount + (amount >> _TOLERANCE_BITS)
    # The file takes no budget above the largest, not even by the part in 2^40.
    return min((meant * NANO) >> _SCALE_BITS, round(MAX_RHO) * NANO)


def affordable(rho: float | None, price: float) -> int | None:
    """Answers of a price that ``rho`` pays for, as the ledger counts; None without a limit."""
    return None if rho is None else allowance(exact("rho", rho)) // charge(exact("rho", price))


def exact_delta(delta: float | Fraction) -> int:
    """A delta as a whole number of 10^-18, rounded up; a float beside such a number is that one.

    Args:
        delta: From 0 to 1; a sum of floats is exact as a fraction, and then rounded once.

    Raises:
        ConfigurationError: It is no such number.
    """
    value = delta if isinstance(delta, Fraction) else _validate.finite("delta", delta)
    if value > 1:
        raise ConfigurationError("delta must be at most 1")
    exactly = Fraction(value) * WHOLE_DELTA
    nearest = round(exactly)
    is_meant = abs(exactly - nearest) * 2**_TOLERANCE_BITS <= exactly
    return nearest if is_meant else math.ceil(exactly)


def whole_delta(delta: float) -> int:
    """Allowance of a delta, in 10^-18: rounded down."""
    amount = exact_delta(delta)
    return amount if amount * (1 - 2.0**-_TOLERANCE_BITS) <= delta * WHOLE_DELTA else amount - 1


def to_delta(amount: int) -> float:
    """A whole number of 10^-18 as a delta."""
    return amount / WHOLE_DELTA


def to_rho(nano: int) -> float:
    """Nano-rho as rho."""
    return nano / NANO
