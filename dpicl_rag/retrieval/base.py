"""What every retriever promises, and the order in which it hands units over."""

from __future__ import annotations

import hashlib
from typing import Protocol, runtime_checkable

from dpicl_rag.accounting.stability import Stability
from dpicl_rag.documents import Document


@runtime_checkable
class Retriever(Protocol):
    """Picks the passages that experts read for a question.

    The question is public, and so is everything that a retriever is made with. Which units come
    back is private.
    """

    @property
    def stability(self) -> Stability:
        """How many of the returned units the arrival of one unit adds and changes."""
        ...

    def retrieve(self, question: str) -> list[Document]:
        """Return passages.

        All passages of a unit stand together, the best one first. Units stand in the order of
        `unit_key`, which says nothing about their rank, and not about other units either.
        """
        ...


def unit_key(unit: str) -> bytes:
    """Sort key of a unit: a hash, so that the order of two units depends on nothing else."""
    return hashlib.sha256(unit.encode("utf-8", "surrogatepass")).digest()
