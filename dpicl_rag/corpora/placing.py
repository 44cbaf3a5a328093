"""Placing documents in a corpus: under units that are for life."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection as Keys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import itemgetter
from typing import TYPE_CHECKING

from dpicl_rag.corpora import anew as made_anew
from dpicl_rag.corpora import kinds
from dpicl_rag.corpora.identity import (
    Identity,
    digest_of,
    identified,
    identify,
    is_tied,
    keys_of,
    name_key,
    names_in,
    offers_of,
)
from dpicl_rag.corpora.joins import Join, Joins, require_allowed
from dpicl_rag.corpora.kinds import in_words
from dpicl_rag.corpora.passages import UNIT_FIELD, labels, stored_fields
from dpicl_rag.corpora.register import Register, key_hash, pages
from dpicl_rag.corpora.separation import Tie
from dpicl_rag.corpora.unit_accounts import Accounts
from dpicl_rag.documents import Document, Origin
from dpicl_rag.errors import CorpusError
from dpicl_rag.loaders.mail import keys_of_stored

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection

_PAGE = 1000


@dataclass(frozen=True, slots=True, repr=False)
class Placed:
    """Documents under the units that they belong to. Private.

    Attributes:
        documents: The documents that are to be stored.
        stored: By unit, other units under whose names its passages may be stored.
        joins: Known units that turned out to be one.
        forgotten: How many documents were left out, for they were forgotten.
        left: How many units left the corpus, which was made anew.
    """

    documents: Sequence[Document]
    stored: Mapping[str, Sequence[str]]
    joins: tuple[Join, ...]
    forgotten: int
    left: int = 0

    def __repr__(self) -> str:
        return "Placed(<private>)"


def place(
    documents: Sequence[Document],
    collection: Collection,
    register: Register,
    accounts: Accounts,
    joins: Joins,
    *,
    anew: bool = False,
) -> Placed:
    """Find the unit of each document, and make those one that turn out to be.

    Nothing is written before all is found and allowed. Then spend is joined first, passages move,
    and the register is last. So a process that is killed in between has forgotten no spend, and to
    place the same documents again repairs it: until the register says otherwise the units are found
    to be two, and no step does harm when it was done before.

    Args:
        documents: What arrives, under names that the collection takes.
        collection: The passages. Its metadata note what a unit of it is, at the first document
            that says so. Before that a corpus has no keys, and those of its messages are read.
        register: Of the corpus.
        accounts: Of its units.
        joins: Whether more than `MOST_UNITS` units may become one.
        anew: Where the corpus has another kind of unit, make it anew; see ``anew.py``.

    Raises:
        CorpusError: The corpus has another kind of unit. Whatever ``accounts`` raises.
        JoinError: More units would become one than are allowed to.
    """
    kind = _kind(documents)
    is_anew = anew and made_anew.is_asked_for(collection, kind)
    is_new = kind is not None and not is_anew and not kinds.require(collection, kind)
    documents = made_anew.tied(documents) if is_anew else made_anew.by_former(documents, collection)
    named = {*keys_of(filter(is_tied, documents)), *register.units(keys_of(documents))}
    documents = [_by_name(document, named) for document in documents]
    there = register.documents(digest_of(document) for document in documents if is_tied(document))
    gone = {digest for digest, unit in there.items() if unit is None}
    left = [d for d in documents if not (is_tied(d) and digest_of(d) in gone)]
    everyone = [*left, *(_messages(collection) if is_new else [])]
    split = register.split({document.unit for document in everyone})
    keys = keys_of(everyone, split)
    known = register.units([*keys, *offers_of(everyone)])
    tied = keys_of(filter(is_tied, everyone), split)
    strangers = names_in(key for key in tied if key not in known)
    known.update((name_key(unit), unit) for unit in _stored(collection, strangers))
    offered = register.offering(keys)
    found = identify(everyone, known, offered, split)
    made = _joins(left, found, known, offered, there)
    gone = made_anew.leaving(left, found, collection, joins) if is_anew else set()
    if made:
        if not is_anew:
            require_allowed(made, register.former_names(), joins)
        accounts.join(found.merged)
        _move(collection, found.merged)
        register.merge(made)
    register.record(
        found.keys,
        found.offers,
        {
            digest_of(document): (unit, _tie(document))
            for document, unit in zip(left, found.units, strict=False)
            if is_tied(document)
        },
    )
    if is_anew and kind is not None:
        made_anew.finish(collection, register, gone, kind)
    elif is_new and kind is not None:
        kinds.write(collection, kind)
    placed = identified(left, found.units[: len(left)])
    told = () if is_anew else tuple(made)  # that units become one is what was asked for
    return Placed(placed, register.stored_names(), told, len(documents) - len(left), len(gone))


def _by_name(document: Document, named: Keys[str]) -> Document:
    """The document; one without keys has the name of its unit as one, where others have that."""
    key = name_key(document.unit)
    if is_tied(document) or key not in named:
        return document
    return replace(document, origin=replace(document.origin, keys=(key,)))


def _tie(document: Document) -> Tie:
    origin = document.origin
    keys, offers = (tuple(map(key_hash, some)) for some in (origin.keys, origin.offers))
    return Tie(document.unit, keys, offers)


def _joins(
    documents: Sequence[Document],
    found: Identity,
    known: Mapping[str, str],
    offered: Mapping[str, Sequence[str]],
    there: Mapping[str, str | None],
) -> list[Join]:
    """The joins, each with the documents that came when it was found."""
    by_unit: defaultdict[str, list[tuple[int, Document]]] = defaultdict(list)
    for document, unit in zip(documents, found.units, strict=False):
        if unit in found.joined and is_tied(document) and digest_of(document) not in there:
            origin = document.origin
            touched = {known[key] for key in (*origin.keys, *origin.offers) if key in known}
            touched.update(unit for key in origin.keys for unit in offered.get(key, ()))
            by_unit[unit].append((-len(touched), document))
    today = datetime.now(UTC).date().isoformat()
    return [
        Join(
            unit,
            parts,
            {digest_of(d): labels(d.metadata) for _, d in sorted(by_unit[unit], key=itemgetter(0))},
            today,
        )
        for unit, parts in found.joined.items()
    ]


def _kind(documents: Sequence[Document]) -> str | None:
    found = sorted({d.origin.privacy_unit for d in documents if d.origin.privacy_unit})
    if len(found) > 1:
        raise CorpusError(
            f"the documents come by different privacy units, {' and '.join(map(in_words, found))}; "
            "load all of them by one"
        )
    return found[0] if found else None


def _messages(collection: Collection) -> list[Document]:
    """What ties stored messages to others, in place of their documents."""
    fields = collection.get(include=["metadatas"])["metadatas"] or []
    return [
        Document("", str(field[UNIT_FIELD]), origin=Origin("", *keys_of_stored(field)))
        for field in fields
        if field.get("thread") == field[UNIT_FIELD]
    ]


def _stored(collection: Collection, units: Sequence[str]) -> set[str]:
    """Which of the units have passages."""
    found = stored_fields(collection, UNIT_FIELD, units).values()
    return {str(fields[UNIT_FIELD]) for fields in found}


def _move(collection: Collection, merged: Mapping[str, str]) -> None:
    """Give the passages of units that go to the units that these are part of."""
    found = stored_fields(collection, UNIT_FIELD, list(merged))
    stays = {id: merged[str(fields[UNIT_FIELD])] for id, fields in found.items()}
    for page in pages(list(stays), _PAGE):
        collection.update(list(page), metadatas=[{UNIT_FIELD: stays[id]} for id in page])
