"""Documents and the privacy units they belong to."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dpicl_rag.errors import ConfigurationError


@dataclass(frozen=True, slots=True, repr=False)
class Document:
    """A private text and the privacy unit it belongs to.

    Attributes:
        text: The text that an expert reads.
        unit: Identifier of the privacy unit. All documents with the same unit are protected
            together: they reach one expert, and adding or removing all of them is one change.
        metadata: Fields from the source, such as ``subject`` or ``patient``. Never shown to a
            model and never returned beside an answer.
    """

    text: str
    unit: str
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        # Documents end up in logs and tracebacks; a private text must not.
        return "Document(<private>)"


def as_documents(items: Iterable[Document | str], privacy_unit: str = "document") -> list[Document]:
    """Turn plain strings and documents into documents with a privacy unit.

    Args:
        items: Documents, or strings. A string is a unit of its own; see `text_unit`.
        privacy_unit: ``"document"`` keeps each document's own unit; any other name takes the unit
            from that metadata field, so that all documents which share its value are protected
            together.

    Returns:
        Documents in the order given.

    Raises:
        ConfigurationError: A document lacks the metadata field, or an item is neither kind.
    """
    seen: Counter[str] = Counter()
    documents: list[Document] = []
    for item in items:
        if isinstance(item, str):
            item = Document(item, text_unit(item, seen))
        elif not isinstance(item, Document):
            raise ConfigurationError(
                f"documents must be Document or str, not {type(item).__name__}"
            )
        unit = unit_of(item.unit, item.metadata, privacy_unit)
        documents.append(Document(item.text, unit, item.metadata))
    return documents


def unit_of(id: str, metadata: Mapping[str, object], field: str) -> str:
    """Privacy unit of a record.

    Args:
        id: The record's own identifier.
        metadata: Its fields.
        field: ``"document"`` makes each record a unit of its own; any other name is the field that
            holds the unit.

    Raises:
        ConfigurationError: The record lacks the field.
    """
    if field == "document":
        return id
    if field not in metadata:
        raise ConfigurationError(
            f"a record has no metadata field {field!r}, which is the privacy unit; every record "
            "needs it"
        )
    return str(metadata[field])


def text_unit(text: str, seen: Counter[str]) -> str:
    """Privacy unit of a text that has no identifier: a unit of its own.

    Args:
        text: The text.
        seen: How many equal texts came before, by hash; this one is added.

    Returns:
        A hash of the text and its place among equal texts, so it does not depend on any other
        text.
    """
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    seen[digest] += 1
    return f"{digest}-{seen[digest]}"


def group_by_unit(documents: Iterable[Document]) -> dict[str, list[Document]]:
    """Collect documents by privacy unit, in the order in which units first appear."""
    units: dict[str, list[Document]] = {}
    for document in documents:
        units.setdefault(document.unit, []).append(document)
    return units
