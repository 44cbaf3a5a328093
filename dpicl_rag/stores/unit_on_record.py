"""The unit that is on record of a Chroma collection, and what must be so before it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpicl_rag.documents import unit_of
from dpicl_rag.errors import CorpusError
from dpicl_rag.retrieval.stored_record import SyntheticOrigin

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection

    from dpicl_rag.retrieval.embeddings import Embedder

KIND = "dpicl_privacy_unit"
"""Metadata field of a collection: the field of its records that holds their unit."""

_RELEASED = "dpicl_released"  # Chroma takes no empty metadata
_PAGE = 1000  # records asked for at a time


def not_adopted(address: str) -> CorpusError:
    """The error where nobody has said what a unit is."""
    place = address.partition("?unit=")[0]
    return CorpusError(
        "nobody has said for good what a privacy unit of this collection is: `dpicl-rag corpora "
        f"adopt {place} --unit FIELD` does so, and `corpora check` shows the fields that there are"
    )


def unit_on_record(collection: Collection) -> str | None:
    """The field of the unit under which a collection was adopted; None where it was not."""
    metadata = collection.metadata or {}
    if SyntheticOrigin.of(metadata) is not None:
        return "document"
    return str(metadata[KIND]) if KIND in metadata else None


def note_unit(collection: Collection, unit_field: str | None) -> None:
    """Put the field of the unit on record, or take it back where it is None."""
    metadata = dict(collection.metadata or {})
    # Chroma refuses to write this one again; it is in the collection's configuration as well.
    metadata.pop("hnsw:space", None)
    metadata.pop(KIND, None)
    if unit_field is not None:
        metadata[KIND] = unit_field
    collection.modify(metadata=metadata or {_RELEASED: True})


def require_field(collection: Collection, unit_field: str) -> None:
    """Refuse a field that no record of a collection has, where there are records.

    For the owner, whose fields these are, before a question: none tells of it.

    Raises:
        CorpusError: None has it.
    """
    start = 0
    while True:
        page = collection.get(include=["metadatas"], limit=_PAGE, offset=start)
        found = zip(page["ids"], page["metadatas"] or [], strict=True)
        if any(unit_of(id, dict(fields or {}), unit_field) is not None for id, fields in found):
            return
        if not page["ids"]:
            break
        start += len(page["ids"])
    if start:
        raise CorpusError(
            f"no record of {collection.name!r} has a field {unit_field!r} to be its privacy unit; "
            "`dpicl-rag corpora check` names the fields that there are"
        )


def require_length(collection: Collection, embedder: Embedder) -> None:
    """Refuse a collection that another embedding model has filled.

    Raises:
        CorpusError: Its vectors are of another length.
    """
    there = length_of_vectors(collection)
    ours = embedder.embed(["length"], query=True).shape[1]
    if there not in (None, ours):
        raise CorpusError(
            f"the vectors of {collection.name!r} have {there} numbers, those of the embedding "
            f"model {ours}: name the model that filled it by --embedder"
        )


def length_of_vectors(collection: Collection) -> int | None:
    """How many numbers a vector of a collection has: Chroma takes one length. None without any."""
    found: Any = collection.get(limit=1, include=["embeddings"])["embeddings"]
    return len(found[0]) if found is not None and len(found) else None
