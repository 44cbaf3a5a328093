"""Whether a question asks for a number of units, which no unit could say. English."""

from __future__ import annotations

import re

_UNITS = (
    "people|persons|customers?|clients?|users?|patients?|threads?|tickets?|mails?|emails?|"
    "messages?|documents?|records?|notes?|reports?|cases?|complaints?|orders?|employees?|members?|"
    "others|of them"
)
_ASKS = re.compile(
    rf"\bhow\s+many\s+(?:\w+\s+)?(?:{_UNITS})\b"
    r"|\bwhat\s+(?:share|percentage|proportion|fraction|part)\s+of\b"
    r"|\bhow\s+(?:often|common|frequent(?:ly)?)\b"
    r"|\b(?:most|least)\s+(?:often|frequent(?:ly)?|common(?:ly)?)\b",
    re.IGNORECASE,
)


def asks_number(question: str) -> bool:
    """Whether a question asks how many units say something, or what most of them do.

    Args:
        question: Public text. "How many days does a refund take?" asks for a fact.
    """
    return _ASKS.search(question) is not None
