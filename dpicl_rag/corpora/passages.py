"""Passages: what a corpus stores of a document, and what identifies them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dpicl_rag.corpora.chunking import split_text
from dpicl_rag.corpora.identity import digest_of, is_tied
from dpicl_rag.documents import Document
from dpicl_rag.errors import CorpusError

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection

UNIT_FIELD = "dpicl_unit"
DOCUMENT_FIELD = "dpicl_document"
POSITION_FIELD = "dpicl_position"
RECORD_FIELD = "dpicl_record"
TIE_FIELD = "dpicl_tie"
OWN_FIELDS = frozenset({UNIT_FIELD, DOCUMENT_FIELD, POSITION_FIELD, RECORD_FIELD, TIE_FIELD})
"""Metadata fields of a stored passage that are not its document's."""

_WANTED = 500  # values of a field that are looked for at a time

LONGEST_FIELD = 1000
MOST_FIELDS = 16_000
"""Letters of one field of a document, and of all of them, that its passages keep."""


@dataclass(frozen=True, slots=True, repr=False)
class Record:
    """One passage with its place in the corpus.

    Attributes:
        id: Identifier of the passage in its store.
        unit: Privacy unit.
        text: The passage.
        metadata: Fields of the document it is from, as far as `labels` keeps them.
    """

    id: str
    unit: str
    text: str
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return "Record(<private>)"


def passages_of(document: Document, size: int, overlap: int) -> list[Record]:
    """Cut a document into passages to store.

    Args:
        document: The document.
        size: Longest passage, in characters.
        overlap: Characters repeated between neighbours.

    Returns:
        Passages with the fields of `OWN_FIELDS` in their metadata, and ids that depend on the
        document's unit and text alone. None if there is no text.

    Raises:
        CorpusError: A metadata field has an empty name, which no database takes.
    """
    if "" in document.metadata:
        raise CorpusError("a document has a metadata field without a name; leave it out")
    text, unit = _storable(document.text), stored_unit(document.unit)
    digest = hashlib.sha256(json.dumps([unit, text]).encode()).hexdigest()
    record = document.origin.record
    metadata = labels(document.metadata)
    tie = {TIE_FIELD: digest_of(document)} if is_tied(document) else {}
    return [
        Record(
            id=f"{digest}-{position}",
            unit=unit,
            text=passage,
            metadata={
                **metadata,
                UNIT_FIELD: unit,
                DOCUMENT_FIELD: digest,
                POSITION_FIELD: str(position),
                **({RECORD_FIELD: record} if record else {}),
                **tie,
            },
        )
        for position, passage in enumerate(split_text(text, size, overlap))
    ]


def labels(metadata: Mapping[str, object]) -> dict[str, str]:
    """Fields of a document that each of its passages keeps, for filters.

    What is long is content and no label. A table's text is a field too: kept with each passage, it
    would be stored as often as it has passages, and a file of 2 MB would fill the memory.

    Args:
        metadata: Fields by name.

    Returns:
        Those of at most `LONGEST_FIELD` letters, in their order, until they are `MOST_FIELDS`.
    """
    kept, left = {}, MOST_FIELDS
    for key, value in metadata.items():
        name, text = _storable(key), _storable(str(value))
        if max(len(name), len(text)) <= LONGEST_FIELD and len(name) + len(text) <= left:
            kept[name] = text
            left -= len(name) + len(text)
    return kept


def stored_unit(unit: str) -> str:
    """The name under which a unit is stored: its own, or a hash if no database takes that.

    Broken mail has lone surrogates. Replacing them would make one unit of two, which then changes
    when one of them arrives.
    """
    try:
        unit.encode()
    except UnicodeEncodeError:
        return "sha256:" + hashlib.sha256(unit.encode("utf-8", "surrogatepass")).hexdigest()
    return unit


def stored_fields(
    collection: Collection, field: str, values: Sequence[str]
) -> dict[str, Mapping[str, object]]:
    """Metadata of the passages that have one of the values in a field, by their ids."""
    found: dict[str, Mapping[str, object]] = {}
    for first in range(0, len(values), _WANTED):
        where = {field: {"$in": list(values[first : first + _WANTED])}}
        some = collection.get(where=where, include=["metadatas"])
        found.update(zip(some["ids"], some["metadatas"] or [], strict=True))
    return found


def _storable(text: str) -> str:
    """Replace lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")
