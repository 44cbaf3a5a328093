"""Defects of stored records, for the owner to learn without a question being asked.

An error that one record can cause would tell that it is there. So a question leaves out a record
without a text or a unit, and scores a vector that cannot be compared as 0; both follow from the
record alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpicl_rag.documents import unit_of
from dpicl_rag.retrieval.embeddings import Embedder
from dpicl_rag.retrieval.stored_record import StoredRecord

NO_TEXT = "it has no text, so no question reads it"
NO_UNIT = "it has no value for the privacy unit, so no question reads it"
NO_VECTOR = "its vector is zero or no row of finite numbers, so it scores 0 for every question"
OTHER_LENGTH = "its vector is not of the embedder's length, so it scores 0 for every question"


@dataclass(frozen=True, slots=True)
class Defect:
    """A stored record that questions do not find. For the owner: that it is there is private.

    Attributes:
        id: Identifier of the record in its store.
        reason: One of a few fixed phrases. It never carries content.
    """

    id: str
    reason: str


def record_of(
    id: object, fields: Mapping[str, object] | None, text: object, unit_field: str
) -> StoredRecord | Defect:
    """A record as its store holds it, or what keeps it from being one.

    Args:
        id: Its identifier.
        fields: Its metadata.
        text: Its text.
        unit_field: Metadata field that holds the privacy unit; ``"document"`` is the id itself.
    """
    fields = fields or {}
    unit = unit_of(str(id), fields, unit_field)
    if unit is None:
        return Defect(str(id), NO_UNIT)
    if not isinstance(text, str):
        return Defect(str(id), NO_TEXT)
    return StoredRecord(str(id), unit, text, {key: str(value) for key, value in fields.items()})


def vector_length(embedder: Embedder) -> int:
    """Length of the vectors that questions are embedded in."""
    return len(embedder.embed(["length"], query=True)[0])


def comparable(vector: npt.ArrayLike, length: int) -> npt.NDArray[np.float64] | None:
    """A vector of this length as numbers, or None if it is none."""
    try:
        row = np.asarray(vector, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return row if row.shape == (length,) else None


def find_defects(
    rows: Iterable[tuple[StoredRecord | Defect, npt.ArrayLike]], embedder: Embedder
) -> list[Defect]:
    """The defects of a store, in the order of its records.

    Args:
        rows: Every record with its vector.
        embedder: What questions are embedded with.
    """
    length = vector_length(embedder)
    found: list[Defect] = []
    for record, vector in rows:
        row = comparable(vector, length)
        if isinstance(record, Defect):
            found.append(record)
        elif row is None:
            found.append(Defect(record.id, OTHER_LENGTH))
        elif not (np.isfinite(row).all() and row.any()):
            found.append(Defect(record.id, NO_VECTOR))
    return found
