"""One released answer, as a memory keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Entry:
    """A question and the answer that was released to it. Public to who may read the memory.

    Attributes:
        id: Number in its file; never used again.
        corpus: The corpus that was asked.
        caller: Who asked; None where nobody was named.
        question: As it was asked.
        answer: The released text, or what the operator put in its place.
        epsilon: What the answer cost, (epsilon, delta)-DP; 0 where it was written by hand.
        delta: See ``epsilon``.
        time: When it was released, UTC.
        whole: Whether the answer ended by itself. One that was cut off informs others, and the same
            question is asked anew.
        edited: Whether the operator corrected it. No drawn answer takes its place then.
        drawn: Whether it was drawn token by token where experts could have said the same and did
            not. It informs others only where nothing else does.
        numbers: Those of a count, as JSON; ``""`` of an answer. A count informs no answer.
    """

    id: int
    corpus: str
    caller: str | None
    question: str
    answer: str
    epsilon: float
    delta: float
    time: datetime
    whole: bool
    edited: bool
    drawn: bool = False
    numbers: str = ""

    @property
    def text(self) -> str:
        """Its text for the public row."""
        return f"Question: {self.question}\nAnswer: {self.answer}"
