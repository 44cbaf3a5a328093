"""The guarantee that travels with an answer."""

from __future__ import annotations

from typing import Any

from dpicl_rag.results import PrivateAnswer
from dpicl_rag.server.catalogue import PUBLIC
from dpicl_rag.server.served_answer import ServedAnswer


def privacy(answer: PrivateAnswer) -> dict[str, Any]:
    """Public numbers, and what was released where that was put into other words."""
    numbers = ("epsilon", "delta", "rho", "agreeing", "agreeing_within")
    words = ("stopped_by", "supported", "from_memory", "by", "released")
    return {name: getattr(answer, name) for name in (*numbers, *words)}


def asked(answering: ServedAnswer) -> dict[str, str]:
    """The question as documents are asked; nothing where none are."""
    return {} if answering.name == PUBLIC else {"question": answering.question}
