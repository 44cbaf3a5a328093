"""Placing documents in a corpus: under units that are for life."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection as Keys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import itemgetter

from dpicl_rag._unobserved import Private
from dpicl_rag.corpora import unit_changes
from dpicl_rag.corpora.contents import Contents
from dpicl_rag.corpora.joins import Join, Tie
from dpicl_rag.corpora.passages import labels
from dpicl_rag.corpora.register import Register, key_hash
from dpicl_rag.corpora.unit_changes import Accounts
from dpicl_rag.documents import Document, Origin
from dpicl_rag.errors import CorpusError
from dpicl_rag.loaders.mail import keys_of_stored
from dpicl_rag.loaders.shared_keys import (
    Components,
    Identity,
    Joins,
    connect,
    digest_of,
    identified,
    identify,
    is_tied,
    keys_of,
    name_key,
    names_in,
    offers_of,
    tying,
)
from dpicl_rag.retrieval.stored_record import in_words, require_kind

KIND, MADE_ANEW = "kind of unit", "made anew"
"""Facts that a corpus keeps of itself: the kind of its unit, and that it was another before."""


@dataclass(frozen=True, slots=True, repr=False)
class Placed(Private):
    """Documents under the units that they belong to. Private.

    Attributes:
        documents: The documents that are to be stored.
        stored: By unit, other units under whose names its passages may be stored.
        joins: Known units that turned out to be one.
        forgotten: How many documents were left out, for they were forgotten.
        left: How many units left the corpus, which was made anew.
        withheld: What each document that was withheld would have made one.
        places: Where these documents stand in the sources that are followed.
    """

    documents: Sequence[Document]
    stored: Mapping[str, Sequence[str]]
    joins: tuple[Join, ...]
    forgotten: int
    left: int = 0
    withheld: tuple[Join, ...] = ()
    places: frozenset[str] = frozenset()


def place(
    documents: Sequence[Document],
    corpus: str,
    contents: Contents,
    register: Register,
    accounts: Accounts,
    joins: Joins,
    *,
    anew: bool = False,
) -> Placed:
    """Find the unit of each document, and make those one that turn out to be.

    Nothing is written before all is found and allowed. Then spend is joined, before the transaction
    of the corpus commits. So a process that is killed in between has forgotten no spend, and to
    place the same documents again repairs it.

    Args:
        documents: What arrives, under names that a corpus takes.
        corpus: Its name.
        contents: What it holds. It notes what a unit of it is, at the first document that says so.
        register: Of the corpus.
        accounts: Of its units.
        joins: Whether a document may make more than `MOST_UNITS` units one, or is withheld.
        anew: Where the corpus has another kind of unit, make it anew; see `unit_changes`.

    Raises:
        CorpusError: The corpus has another kind of unit. Whatever ``accounts`` raises.
    """
    kind = _kind(documents)
    meta = contents.meta()
    recorded = meta.get(KIND)
    is_anew = anew and unit_changes.is_asked_for(corpus, recorded, kind)
    if not is_anew and kind is not None:
        require_kind(corpus, recorded, kind)
    documents = unit_changes.tied(documents) if is_anew or meta.get(MADE_ANEW) else documents
    named = {*keys_of(filter(is_tied, documents)), *register.units(keys_of(documents))}
    documents = [_by_name(document, named) for document in documents]
    there = register.documents(digest_of(document) for document in documents if is_tied(document))
    gone = register.forgotten(digest_of(document) for document in documents if is_tied(document))
    left = [d for d in documents if not (is_tied(d) and digest_of(d) in gone)]
    forgotten = len(documents) - len(left)
    # Before it had a kind a corpus had no keys: those of its messages are read.
    is_new = kind is not None and recorded is None
    messages = _messages(contents) if is_new else []
    known, offered, split = _looked_up([*left, *messages], contents, register)
    withheld: dict[int, tuple[str, ...]] = {}
    if joins != "allow" and not is_anew:
        withheld = tying(left, known, offered, split, register.former_names())
    ties = [(left[place], units) for place, units in withheld.items()]
    if ties:
        left = [document for place, document in enumerate(left) if place not in withheld]
        left = _renamed(left, {document.unit for document, _ in ties})
        known, offered, split = _looked_up([*left, *messages], contents, register)
    identity = identify([*left, *messages], known, offered, split)
    made = _joins(left, identity, known, offered, there)
    leaves = unit_changes.leaving(left, identity, corpus, contents, joins) if is_anew else set()
    if made:
        accounts.join(identity.merged)
        contents.merge(identity.merged)
        register.merge(made)
    register.record(
        identity.keys,
        identity.offers,
        {
            digest_of(document): (unit, _tie(document))
            for document, unit in zip(left, identity.units, strict=False)
            if is_tied(document)
        },
    )
    if is_anew:
        unit_changes.leave(contents, register, leaves)
        contents.set_meta({KIND: kind, MADE_ANEW: True})
    elif is_new:
        contents.set_meta({KIND: kind})
    placed = identified(left, identity.units[: len(left)])
    told = () if is_anew else tuple(made)  # that units become one is what was asked for
    return Placed(
        placed,
        register.stored_names(),
        told,
        forgotten,
        len(leaves),
        tuple(Join(units[0], units[1:], _named([one])) for one, units in ties),
        frozenset(one.origin.place for one, _ in ties if one.origin.place),
    )


def _looked_up(
    documents: Sequence[Document], contents: Contents, register: Register
) -> tuple[dict[str, str], dict[str, list[str]], set[str]]:
    """Known keys and names of documents, offers, and split names; see `identify`."""
    split = register.split({document.unit for document in documents})
    keys = keys_of(documents, split)
    known = register.units([*keys, *offers_of(documents)])
    tied = keys_of(filter(is_tied, documents), split)
    strangers = names_in(key for key in tied if key not in known)
    known.update((name_key(unit), unit) for unit in contents.numbers(strangers))
    return known, register.offering(keys), split


def _renamed(documents: Sequence[Document], names: Keys[str]) -> list[Document]:
    """The documents; messages of some names have those that they have without what was withheld.

    Their load gave them one name, because of ties that are not to be.
    """
    components = Components()
    mail = {
        f"\0{at}": (one.origin, one.origin.alone)
        for at, one in enumerate(documents)
        if one.unit in names and one.origin.alone
    }
    connect(components, [(node, o.keys, o.offers) for node, (o, _) in mail.items()])
    earliest: dict[str, tuple[float, str, str]] = {}
    for node, (_, alone) in mail.items():
        root = components.find(node)
        earliest[root] = min(earliest.get(root, alone), alone)
    return [
        replace(one, unit=earliest[components.find(f"\0{at}")][2]) if f"\0{at}" in mail else one
        for at, one in enumerate(documents)
    ]


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
    identity: Identity,
    known: Mapping[str, str],
    offered: Mapping[str, Sequence[str]],
    there: Mapping[str, str | None],
) -> list[Join]:
    """The joins, each with the documents that came when it was found."""
    by_unit: defaultdict[str, list[tuple[int, Document]]] = defaultdict(list)
    for document, unit in zip(documents, identity.units, strict=False):
        if unit in identity.joined and is_tied(document) and digest_of(document) not in there:
            origin = document.origin
            touched = {known[key] for key in (*origin.keys, *origin.offers) if key in known}
            touched.update(unit for key in origin.keys for unit in offered.get(key, ()))
            by_unit[unit].append((-len(touched), document))
    today = datetime.now(UTC).date().isoformat()
    return [
        Join(
            unit,
            parts,
            _named(document for _, document in sorted(by_unit[unit], key=itemgetter(0))),
            today,
        )
        for unit, parts in identity.joined.items()
    ]


def _named(documents: Iterable[Document]) -> dict[str, dict[str, str]]:
    """Documents as a `Join` names them."""
    return {digest_of(document): labels(document.metadata) for document in documents}


def _kind(documents: Sequence[Document]) -> str | None:
    kinds = sorted({d.origin.privacy_unit for d in documents if d.origin.privacy_unit})
    if len(kinds) > 1:
        raise CorpusError(
            f"the documents come by different privacy units, {' and '.join(map(in_words, kinds))}; "
            "load all of them by one"
        )
    return kinds[0] if kinds else None


def _messages(contents: Contents) -> list[Document]:
    """Ties of stored messages, in place of their documents."""
    messages = []
    units: dict[int, str] = {}
    for stored in contents.every_document():
        fields = json.loads(stored.fields)
        if "thread" in fields:
            if stored.unit not in units:
                units |= contents.units([stored.unit])
            if fields["thread"] == units[stored.unit]:
                origin = Origin("", *keys_of_stored(fields))
                messages.append(Document("", units[stored.unit], origin=origin))
    return messages
