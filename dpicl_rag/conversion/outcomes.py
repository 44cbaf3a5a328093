"""Outcomes of a conversion: the exit status of the process that reads a file."""

from __future__ import annotations

from enum import IntEnum


class Outcome(IntEnum):
    """Exit statuses. Those of other programs end below, and mean damage."""

    CONVERTED = 0
    DAMAGED = 100
    PASSWORD = 101
    NO_TEXT = 102
    MEMORY = 103
    TIME = 104
    MUCH_TEXT = 105
    UNPACKS = 106
    BROKE_OFF = 107


REASONS: dict[Outcome, str] = {
    Outcome.DAMAGED: "damaged, or not the kind of file that its name says",
    Outcome.PASSWORD: "protected by a password; save it without one",
    Outcome.NO_TEXT: "no text in it: a scan, pictures or nothing; make a scan searchable (OCR)",
    Outcome.MEMORY: "takes too much memory to read",
    Outcome.TIME: "takes too long to read",
    Outcome.MUCH_TEXT: "holds too much text for one file; split it",
    Outcome.UNPACKS: "unpacks to more than 512 MiB",
    Outcome.BROKE_OFF: "the program that reads it broke off",
}


class NotConvertedError(Exception):
    """There is no text of a file. Its message is one of a few fixed phrases.

    Args:
        outcome: Why.
    """

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(REASONS[outcome])
        self.outcome = outcome
