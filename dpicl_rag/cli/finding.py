"""One line of what `dpicl-rag doctor` found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. Public: no private number is among them.

    Attributes:
        about: What was looked at.
        told: What is so.
        broken: True of what fails, or breaks a promise, as it is.
        remedy: A command or one sentence; None where nothing is to be done.
    """

    about: str
    told: str
    broken: bool = False
    remedy: str | None = None
