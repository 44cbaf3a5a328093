"""The part of a question that asks: people say more than that.

"I pass your warehouse on the way to work. How early do you open?" A small model answers the first
sentence, or repeats it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_BETWEEN = re.compile(r"(?<=[.!?:])\s+")


def asking_part(question: str) -> str:
    """The sentences that ask; the whole question where none does, or all do. Public.

    Args:
        question: What is asked. A colon ends a sentence, too: "A lady writes: When do you open?"
    """
    parts = _BETWEEN.split(question.strip())
    asking = _asking(parts)
    return " ".join(asking) if 0 < len(asking) < len(parts) else question


def shorter_questions(question: str) -> list[str]:
    """The part that asks, and the last sentence of it; none that is the whole question. Public."""
    last = _asking(_BETWEEN.split(question.strip()))[-1:]
    return [part for part in dict.fromkeys((asking_part(question), *last)) if part != question]


def _asking(parts: Sequence[str]) -> list[str]:
    return [part for part in parts if part.endswith("?")]
