"""One-line notes that state a disease, as a reader would write them of a record."""

from __future__ import annotations

import random

NOTES = (
    "The disease is {}.",
    "The disease could be {}.",
    "The patient has {}.",
    "The patient's disease is {}.",
    "This is {}.",
    "The symptoms point to {}.",
    "According to the record, the disease is {}.",
)


def stated_notes(disease: str, number: int, seed: int) -> tuple[str, ...]:
    """Notes of as many records, each in a phrasing by a seed.

    Args:
        disease: What they state.
        number: Of notes.
        seed: Of the phrasings.
    """
    draw = random.Random(f"{seed} {disease}")
    return tuple(draw.choice(NOTES).format(disease) for _ in range(number))
