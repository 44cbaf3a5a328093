"""The part of a question that asks: people say more than that.

"I pass your warehouse on the way to work. How early do you open?" A small model answers the first
sentence, or repeats it.
"""

from __future__ import annotations

import re

_BETWEEN = re.compile(r"(?<=[.!?:])\s+")


def asking_part(question: str) -> str:
    """The sentences that ask; the whole question where none does, or all do. Public.

    Args:
        question: What is asked. A colon ends a sentence, too: "A lady writes: When do you open?"
    """
    parts = _BETWEEN.split(question.strip())
    asking = [part for part in parts if part.endswith("?")]
    return " ".join(asking) if 0 < len(asking) < len(parts) else question
