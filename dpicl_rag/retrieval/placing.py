"""Placing documents in a corpus: under units that are for life."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from dpicl_rag.documents import Document, Origin
from dpicl_rag.errors import CorpusError
from dpicl_rag.identity import identified, identify, keys_of, name_key, names_in
from dpicl_rag.loaders.mail import keys_of_stored
from dpicl_rag.retrieval.passages import UNIT_FIELD
from dpicl_rag.retrieval.register import Register, pages

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection

_KIND = "dpicl_privacy_unit"
_PAGE = 1000
_WANTED = 500  # values of a field that are looked for at a time


def place(
    documents: Sequence[Document],
    collection: Collection,
    register: Register,
    join: Callable[[Mapping[str, str]], None],
) -> list[Document]:
    """Find the unit of each document, and make those one that turn out to be.

    Spend is joined first, then passages move, and the register is last. So a process that is
    killed in between has forgotten no spend, and to place the same documents again repairs it:
    until the register says otherwise the units are found to be two, and no step does harm when it
    was done before.

    Args:
        documents: What arrives, under names that the collection takes.
        collection: The passages. Its metadata note what a unit of it is, at the first document
            that says so. Before that a corpus has no keys, and those of its messages are read.
        register: Of the corpus.
        join: Joins spend; given, for each unit that goes, the one that it is part of now.

    Returns:
        The documents under the units that they belong to.

    Raises:
        CorpusError: The corpus has another kind of unit. Whatever ``join`` raises.
    """
    kind = _kind(documents)
    is_new = kind is not None and not require_unit(collection, kind)
    everyone = [*documents, *(_messages(collection) if is_new else [])]
    known = register.units(keys_of(everyone))
    strangers = names_in(key for key in keys_of(everyone, tied=True) if key not in known)
    known.update((name_key(unit), unit) for unit in _stored(collection, strangers))
    found = identify(everyone, known)
    if found.merged:
        join(found.merged)
        for goes, stays in found.merged.items():
            _move(collection, goes, stays)
        register.merge(found.merged)
    register.record({key: unit for key, unit in found.keys.items() if known.get(key) != unit})
    if is_new and kind is not None:
        record_unit(collection, kind)
    return identified(documents, found.units)


def require_unit(collection: Collection, kind: str) -> bool:
    """Refuse another kind of privacy unit than the collection has.

    Args:
        collection: The passages.
        kind: What a unit is, such as ``"sender"``. Public.

    Returns:
        Whether its kind is on record.

    Raises:
        CorpusError: It is another.
    """
    recorded = (collection.metadata or {}).get(_KIND)
    if recorded is not None and recorded != kind:
        raise CorpusError(
            f"the privacy unit of {collection.name!r} is {str(recorded)!r}, not {kind!r}: a person "
            f"who is in two units has two budgets. Use {str(recorded)!r}, or put the documents "
            "into another corpus"
        )
    return recorded is not None


def record_unit(collection: Collection, kind: str) -> None:
    """Note what a unit of the collection is."""
    metadata = dict(collection.metadata or {})
    # Chroma refuses to write this one again; it is in the collection's configuration as well.
    metadata.pop("hnsw:space", None)
    collection.modify(metadata={**metadata, _KIND: kind})


def _kind(documents: Sequence[Document]) -> str | None:
    kinds = sorted({d.origin.privacy_unit for d in documents if d.origin.privacy_unit})
    if len(kinds) > 1:
        raise CorpusError(
            f"the documents come by different privacy units, {' and '.join(map(repr, kinds))}; "
            "load all of them by one"
        )
    return kinds[0] if kinds else None


def _messages(collection: Collection) -> list[Document]:
    """What ties stored messages to others, in place of their documents."""
    fields = collection.get(include=["metadatas"])["metadatas"] or []
    return [
        Document("", str(field[UNIT_FIELD]), origin=Origin(keys=keys_of_stored(field)))
        for field in fields
        if field.get("thread") == field[UNIT_FIELD]
    ]


def _stored(collection: Collection, units: Sequence[str]) -> set[str]:
    """Which of the units have passages."""
    found: set[str] = set()
    for page in pages(units, _WANTED):
        where = {UNIT_FIELD: {"$in": list(page)}}
        fields = collection.get(where=where, include=["metadatas"])["metadatas"] or []
        found.update(str(field[UNIT_FIELD]) for field in fields)
    return found


def _move(collection: Collection, goes: str, stays: str) -> None:
    ids = collection.get(where={UNIT_FIELD: goes}, include=[])["ids"]
    for page in pages(ids, _PAGE):
        collection.update(list(page), metadatas=[{UNIT_FIELD: stays}] * len(page))
