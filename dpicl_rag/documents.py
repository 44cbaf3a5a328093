"""Documents and the privacy units they belong to."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import isnan
from numbers import Integral
from pathlib import Path
from typing import cast

from dpicl_rag.errors import ConfigurationError

THREAD_OR_DOCUMENT = "thread or document"
"""The privacy unit where none was chosen: the thread of a mail, else the document by itself."""


@dataclass(frozen=True, slots=True, repr=False)
class Origin:
    """Identity of a document by its source. Whoever makes documents may leave it out.

    Attributes:
        privacy_unit: What the unit is, such as ``"sender"``: public. A corpus takes documents of
            one kind of unit. Empty where the unit was given by hand.
        keys: What other documents of the unit share, such as the ids of messages that this one
            answers. A document that comes later joins the unit by them. The first names this one.
        offers: Keys that tie this document to those that have them among their ``keys``, and not
            to others that offer them too. A reply has the subject that the mail it answers offers;
            two mails of one subject that nobody answered have nothing to do with each other.
        record: Names the record that the document is from. What is read again from the same record
            takes the place of what was there. Empty where nothing is replaced.
        former: Keys of the unit that it would be of had nobody chosen one. By them a corpus that is
            made anew under a chosen unit finds which units held it before.
        place: Where it stands: the file, or the place in a source that a corpus follows. It makes
            no other document of it.
        said: The part of the text that the document is known by, where the rest may be read
            otherwise another time: a message without its attachments. Empty where that is all.
        alone: Of a message its time, the first id of its conversation, and the thread that it would
            be by itself; of several the least names their unit. None where the unit is no thread.
    """

    privacy_unit: str = ""
    keys: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()
    record: str = ""
    former: tuple[str, ...] = ()
    place: str = field(default="", compare=False)
    said: str = ""
    alone: tuple[float, str, str] | None = None

    def __repr__(self) -> str:
        return "Origin(<private>)"


@dataclass(frozen=True, slots=True, repr=False)
class Document:
    """A private text and the privacy unit it belongs to.

    Attributes:
        text: The text that an expert reads.
        unit: Identifier of the privacy unit. All documents with the same unit are protected
            together: they reach one expert, and adding or removing all of them is one change.
        metadata: Fields from the source, such as ``subject`` or ``patient``. Never shown to a
            model and never returned beside an answer.
        origin: What its source says about its identity. Loaders set it.
        image: An image, as bytes or the path of its file; ``text`` is then its label. Read by
            `dpicl_rag.vision` alone: whatever reads texts reads the text, and a corpus keeps no
            images.
    """

    text: str
    unit: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    origin: Origin = Origin()
    image: bytes | Path | None = None

    def __repr__(self) -> str:
        # Documents end up in logs and tracebacks; a private text must not.
        return "Document(<private>)"


def as_documents(items: Iterable[Document | str], privacy_unit: str = "document") -> list[Document]:
    """Turn plain strings and documents into documents with a privacy unit.

    This is the owner's check of a list, too: a question leaves out what is refused here.

    Args:
        items: Documents, or strings. A string is a unit of its own; see `text_unit`.
        privacy_unit: ``"document"`` keeps each document's own unit; any other name takes the unit
            from that metadata field, so that all documents which share its value are protected
            together.

    Returns:
        Documents in the order given.

    Raises:
        ConfigurationError: A document lacks its text or the metadata field, or an item is neither
            kind.
    """
    documents: list[Document] = []
    for document in _placed(items, privacy_unit):
        if document is None:
            raise ConfigurationError(
                "a document has no text, or no metadata field of the name of the privacy unit "
                f"({privacy_unit!r}), or a unit, metadata or an origin of another type than "
                "Document says; every document needs all of them"
            )
        documents.append(document)
    return documents


def readable_documents(
    items: Iterable[Document | str], privacy_unit: str = "document"
) -> list[Document]:
    """`as_documents` for a question: what lacks its text or its unit's field is left out.

    An error that one document can cause would tell that it is there.

    Raises:
        ConfigurationError: An item is of a kind that no document has.
    """
    return [document for document in _placed(items, privacy_unit) if document is not None]


def _placed(items: Iterable[object], privacy_unit: str) -> Iterator[Document | None]:
    """Each item as a document of its unit, or None where it lacks its text or the unit."""
    seen: Counter[str] = Counter()
    for item in items:
        if isinstance(item, str):
            item = Document(item, text_unit(item, seen))
        elif item is None or isinstance(item, float):
            yield None  # None and NaN are how tables hand over a missing text
            continue
        elif not isinstance(item, Document):
            raise ConfigurationError(
                f"documents must be Document or str, not {type(item).__name__}"
            )
        yield _in_unit(item, privacy_unit)


def _in_unit(document: Document, privacy_unit: str) -> Document | None:
    """A document in its unit, or None where it is not what `Document` says."""
    # Whoever hands over a list need not have had a type checker, and every document of it is read.
    text, given, metadata, origin = (
        cast("object", one)
        for one in (document.text, document.unit, document.metadata, document.origin)
    )
    if not isinstance(text, str) or not isinstance(metadata, Mapping) or not _is_sound(origin):
        return None
    unit = unit_of(given, metadata, privacy_unit)
    if unit is None:
        return None
    if privacy_unit != "document":
        return Document(text, unit, metadata, image=document.image)
    if isinstance(given, Integral):
        return replace(document, unit=unit)
    return document if isinstance(given, str) else None


def _is_sound(origin: object) -> bool:
    return (
        isinstance(origin, Origin)
        and all(isinstance(one, str) for one in (origin.privacy_unit, origin.record, origin.place))
        and all(isinstance(keys, tuple) for keys in (origin.keys, origin.offers, origin.former))
        and all(isinstance(key, str) for key in (*origin.keys, *origin.offers, *origin.former))
    )


def unit_of(id: object, metadata: Mapping[str, object], field: str) -> str | None:
    """Privacy unit of a record.

    Args:
        id: The record's own identifier.
        metadata: Its fields.
        field: ``"document"`` makes each record a unit of its own; any other name is the field that
            holds the unit.

    Returns:
        The unit, or None where the record has no value for the field. NaN is none: it is how
        tables hand over a missing value.
    """
    return field_text(id if field == "document" else metadata.get(field))


def field_text(value: object) -> str | None:
    """The value of a field as text; None where it is none, as NaN is in tables."""
    if value is None or (isinstance(value, float) and isnan(value)):
        return None
    try:
        return str(value)
    except Exception:  # a number of 5,000 digits, or a type of somebody else's
        return None


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
