"""A stored passage, as questions find it, whatever store it is in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

UNIT_FIELD = "dpicl_unit"
OWN_FIELDS = frozenset(
    {UNIT_FIELD, "dpicl_document", "dpicl_position", "dpicl_record", "dpicl_tie"}
)
"""Metadata fields that older versions kept in Chroma beside a document's own."""


@dataclass(frozen=True, slots=True, repr=False)
class Record:
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
