"""A stored passage, as questions find it, whatever store it is in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, repr=False)
class StoredRecord:
    """One passage with its place in the corpus.

    Attributes:
        id: Identifier of the passage in its store.
        unit: Privacy unit.
        text: The passage.
        metadata: Fields of the document it is from.
    """

    id: str
    unit: str
    text: str
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return "Record(<private>)"
