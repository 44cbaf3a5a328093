"""An interval of an option, such as ``10m``."""

from __future__ import annotations

import re

import typer

LEAST_S = 10
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_MOST_S = 366 * 86_400


def seconds(text: str) -> int:
    """The seconds of an interval.

    Args:
        text: A whole number and ``s``, ``m``, ``h`` or ``d``.

    Raises:
        BadParameter: It is none, or is too short or too long.
    """
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text.strip().lower())
    if found is None:
        raise typer.BadParameter("give a time such as 90s, 10m, 1h or 1d")
    count = int(found[1]) * _SECONDS[found[2]]
    if not LEAST_S <= count <= _MOST_S:
        raise typer.BadParameter(f"give a time from {LEAST_S}s to 366d")
    return count
