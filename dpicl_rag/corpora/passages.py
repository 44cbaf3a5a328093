"""Passages: how a corpus cuts a document, and what identifies it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dpicl_rag.corpora.chunking import split_text
from dpicl_rag.documents import Document
from dpicl_rag.errors import CorpusError
from dpicl_rag.loaders.shared_keys import digest_of, is_tied, names_in

LONGEST_FIELD = 1000
MOST_FIELDS = 16_000
"""Letters of one field of a document, and of all of them, that a corpus keeps."""


@dataclass(frozen=True, slots=True, repr=False)
class CutDocument:
    """A document in passages. Private.

    Attributes:
        digest: Identifies it in its corpus: a hash of its unit and its text.
        former: Digests that it may have from before it was this unit's.
        unit: Its privacy unit.
        record: The record it is from; see `Origin`.
        tie: What the register knows it by; empty where nothing ties it.
        fields: Its metadata, as JSON, as far as `labels` keeps it.
        texts: Its passages.
        places: Where it stands in the sources that are followed.
    """

    digest: bytes
    former: tuple[bytes, ...]
    unit: str
    record: str
    tie: str
    fields: str
    texts: Sequence[str]
    places: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "CutDocument(<private>)"

    @property
    def beside(self) -> bytes:
        """The digest where the other is that of another unit's document."""
        return _digest(self.unit, self.digest.hex())


def cut_up(
    documents: Iterable[Document], former: Mapping[str, Sequence[str]], size: int, overlap: int
) -> tuple[list[CutDocument], int]:
    """Cut documents into passages.

    Args:
        documents: The documents, under their units.
        former: By unit, other units under whose names its passages may be stored.
        size: Longest passage, in characters.
        overlap: Characters repeated between neighbours.

    Returns:
        Each document that has a text, once, those of a unit together, and how many have none.

    Raises:
        CorpusError: A metadata field has an empty name.
    """
    found: dict[str, dict[bytes, CutDocument]] = {}
    empty = 0
    for document in documents:
        if "" in document.metadata:
            raise CorpusError("a document has a metadata field without a name; leave it out")
        text = storable(document.text)
        texts = split_text(text, size, overlap)
        empty += not texts
        if not texts:
            continue
        names = _former_names(document, former.get(document.unit, ()))
        of_unit = found.setdefault(document.unit, {})
        digest = _digest(document.unit, text)
        equal = of_unit[digest].places if digest in of_unit else ()
        of_unit[digest] = CutDocument(
            digest=digest,
            former=tuple(_digest(name, text) for name in names),
            unit=document.unit,
            record=document.origin.record,
            tie=digest_of(document) if is_tied(document) else "",
            fields=json.dumps(labels(document.metadata), ensure_ascii=False),
            texts=texts,
            places=(*equal, *filter(None, [document.origin.place])),
        )
    return [one for of_unit in found.values() for one in of_unit.values()], empty


def labels(metadata: Mapping[str, object]) -> dict[str, str]:
    """Fields of a document that a corpus keeps, for filters.

    What is long is content and no label: a table's text is a field too, and would be kept twice.

    Args:
        metadata: Fields by name.

    Returns:
        Those of at most `LONGEST_FIELD` letters, in their order, until they are `MOST_FIELDS`.
    """
    kept, left = {}, MOST_FIELDS
    for key, value in metadata.items():
        name, text = storable(key), storable(str(value))
        if max(len(name), len(text)) <= LONGEST_FIELD and len(name) + len(text) <= left:
            kept[name] = text
            left -= len(name) + len(text)
    return kept


def named(document: Document) -> Document:
    """The document, its unit under the name that is stored."""
    unit = stored_unit(document.unit)
    return document if unit == document.unit else replace(document, unit=unit)


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


def _digest(unit: str, text: str) -> bytes:
    return hashlib.sha256(json.dumps([unit, text]).encode()).digest()


def _former_names(document: Document, names: Sequence[str]) -> Sequence[str]:
    """Under which other names of units the passages of a document may be stored."""
    origin = document.origin
    own = names_in(origin.former)
    # Of a corpus made anew: a row was under its own name, whatever became of that since. A message
    # is known by others' keys as well, and may have been under the name of any.
    if not own or len(own) < len(origin.former) or not set(own) <= set(names_in(origin.keys)):
        return names
    return [name for name in own if name != document.unit]


def storable(text: str) -> str:
    """The text as it is stored: without lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")
