"""Keys that documents share, and the privacy units that follow from them.

A unit is for life: what arrives later and belongs to a unit that is there joins it, whatever it is
called. So a document brings, beside the name of its unit, keys that others of the unit share, such
as the ids of the messages that it answers. Units are the connected components of names and keys,
so taking one away leaves the others as they were.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dpicl_rag._unobserved import Private
from dpicl_rag.documents import Document
from dpicl_rag.loaders.characters import fingerprint

MOST_UNITS = 3
"""Number of units that may become one before the owner is asked. Public.

A message ties two units where it comes after what it answers and after what answers it, and a third
where it was forwarded meanwhile. One who ties conversations of others, by ids that he collected,
needs many to do harm. What a unit took in before counts, so that he does not get there in small
steps.
"""

Joins = Literal["ask", "allow"]
"""Choice for a document that ties more than `MOST_UNITS` units: it is withheld, or joins them.

Those that it ties, and whatever else comes, are as if it were not there.
"""

_NAME = "unit "
_PART = "part:"
_WHOLE = "-"


class Components:
    """Connected components of names: union-find with path halving."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def find(self, name: str) -> str:
        """The name that stands for the component of this one."""
        parent = self._parent
        parent.setdefault(name, name)
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    def join(self, one: str, other: str) -> None:
        """Make the components of two names one."""
        self._parent[self.find(other)] = self.find(one)


def connect(
    components: Components,
    documents: Iterable[tuple[str, Sequence[str], Sequence[str]]],
    claimed: Iterable[str] = (),
) -> None:
    """Join the names of documents that share keys.

    Args:
        components: What is joined.
        documents: Of each its name, its keys and the keys that it offers; see ``Origin``.
        claimed: Keys that others have.
    """
    documents = list(documents)
    there = set(claimed).union(*(keys for _, keys, _ in documents))
    for name, keys, offers in documents:
        components.find(name)
        for key in (*keys, *there.intersection(offers)):
            components.join(name, key)


@dataclass(frozen=True, slots=True, repr=False)
class Identity(Private):
    """Units of documents, and what these say about others. All of it is private.

    Attributes:
        units: The unit of each document.
        keys: By key, the unit that has it, for documents that have keys; names are keys too.
        offers: By key, the units that offer it.
        joined: By the unit that stays, the known units that turned out to be part of it.
    """

    units: Sequence[str]
    keys: Mapping[str, str]
    offers: Mapping[str, frozenset[str]]
    joined: Mapping[str, tuple[str, ...]]

    @property
    def merged(self) -> dict[str, str]:
        """By each known unit that turned out to be part of another, that other."""
        return {goes: stays for stays, parts in self.joined.items() for goes in parts}


def name_key(unit: str) -> str:
    """The key that the name of a unit is."""
    return _NAME + unit


def names_in(keys: Iterable[str]) -> list[str]:
    """The units whose names are among the keys."""
    return [key.removeprefix(_NAME) for key in keys if key.startswith(_NAME)]


def part_name(*of: str) -> str:
    """A name that nothing had before, for what turned out to be a unit by itself."""
    return _PART + fingerprint(json.dumps(of))


def is_part(unit: str) -> bool:
    """Test for a name that `part_name` made."""
    return unit.startswith(_PART)


def is_tied(document: Document) -> bool:
    """Test for a document that says what ties it to others, beside the name of its unit."""
    return bool(document.origin.keys or document.origin.offers)


def digest_of(document: Document) -> str:
    """The digest of a tied document in a corpus: a hash of its text and its first key.

    Of a message with attachments a hash of its own words, by which it is known when they are not
    read, or not all of them, and one of the whole: a copy may have others.
    """
    origin = document.origin
    own = fingerprint(json.dumps([origin.said or document.text, *origin.keys[:1]]))
    return f"{own}{_WHOLE}{fingerprint(json.dumps([document.text]))}" if origin.said else own


def standing_name(document: Document) -> str:
    """A name of a document wherever it stands: a hash of its text and of what names its unit.

    It has no other name: where a row or a mail stands changes with those above it.
    """
    keys = document.origin.keys[:1] or (name_key(document.unit),)
    return fingerprint(json.dumps([document.text, *keys]))


def own_digest(digest: str) -> str:
    """Of what `digest_of` gives the part that is without attachments."""
    return digest.partition(_WHOLE)[0]


def keys_of(documents: Iterable[Document], split: Collection[str] = ()) -> list[str]:
    """Every key of documents and the name of every unit, once."""
    return list(
        dict.fromkeys(
            key
            for document in documents
            for key in (*_names(document, split), *document.origin.keys)
        )
    )


def offers_of(documents: Iterable[Document]) -> list[str]:
    """Every key that documents offer, once."""
    return list(dict.fromkeys(key for document in documents for key in document.origin.offers))


def identify(
    documents: Sequence[Document],
    known: Mapping[str, str],
    offered: Mapping[str, Iterable[str]] | None = None,
    split: Collection[str] = (),
) -> Identity:
    """Find the units of documents.

    Args:
        documents: What arrives, in any order.
        known: By key, the unit that has it; for keys of `keys_of` and of `offers_of`.
        offered: By key, the known units that offer it; for keys of `keys_of`.
        split: Names of units that were separated. Who gave a document such a name did so because
            of a tie that is no more, so of a document that is tied to others it says nothing.

    Returns:
        Of several names the least stays, of those that are known if any is.
    """
    has = set(keys_of(documents, split))
    ties = list(known.items())
    ties += [(key, unit) for key, units in (offered or {}).items() if key in has for unit in units]
    components = Components()
    connect(
        components,
        [
            (
                _node(place),
                (*_names(document, split), *document.origin.keys),
                document.origin.offers,
            )
            for place, document in enumerate(documents)
        ],
        known,
    )
    for key, unit in ties:
        components.join(name_key(unit), key)
    there: defaultdict[str, set[str]] = defaultdict(set)
    for _, unit in ties:
        there[components.find(name_key(unit))].add(unit)
    roots = [components.find(_node(place)) for place in range(len(documents))]
    named: defaultdict[str, set[str]] = defaultdict(set)
    for root, document in zip(roots, documents, strict=True):
        named[root].update(names_in(_names(document, split)))
    nameless = {root for root, names in named.items() if not names and root not in there}
    for root, document in zip(roots, documents, strict=True):
        if root in nameless:
            named[root].add(part_name(document.unit, digest_of(document)))
    stays = {root: min(there.get(root) or names) for root, names in named.items()}
    units = [stays[root] for root in roots]
    offers: defaultdict[str, set[str]] = defaultdict(set)
    for unit, document in zip(units, documents, strict=True):
        for key in document.origin.offers:
            offers[key].add(unit)
    return Identity(
        units=units,
        keys={
            key: stays[components.find(key)] for key in keys_of(filter(is_tied, documents), split)
        },
        offers={key: frozenset(those) for key, those in offers.items()},
        joined={
            stays[root]: tuple(sorted(there[root] - {stays[root]}))
            for root in named
            if len(there[root]) > 1
        },
    )


def tying(
    documents: Sequence[Document],
    known: Mapping[str, str],
    offered: Mapping[str, Iterable[str]],
    split: Collection[str],
    former: Mapping[str, Sequence[str]],
) -> dict[int, tuple[str, ...]]:
    """Find the documents that would make more than `MOST_UNITS` known units one.

    Those of fewer keys are looked at first, each with what it ties beside those before it. One that
    ties too many ties nothing.

    Returns:
        By the place of each such document, the units that it ties.
    """
    components = Components()
    for key, unit in known.items():
        components.join(name_key(unit), key)
    offering = defaultdict(list, {key: list(map(name_key, u)) for key, u in offered.items()})
    claimed = set(known)
    units: defaultdict[str, set[str]] = defaultdict(set)
    for unit in {*known.values(), *(unit for those in offered.values() for unit in those)}:
        units[components.find(name_key(unit))].add(unit)
    withheld: dict[int, tuple[str, ...]] = {}
    order = sorted(
        range(len(documents)),
        key=lambda one: (len(documents[one].origin.keys), digest_of(documents[one])),
    )
    for place in order:
        document = documents[place]
        keys = (*_names(document, split), *document.origin.keys)
        claims = (*keys, *(key for key in document.origin.offers if key in claimed))
        if not claims:
            continue
        touched = {components.find(key) for key in claims}
        touched |= {components.find(node) for key in keys for node in offering[key]}
        tied = [units[root] for root in touched if units[root]]
        size = sum(1 + len(former.get(unit, ())) for those in tied for unit in those)
        if len(tied) > 1 and size > MOST_UNITS:
            withheld[place] = tuple(sorted(set[str]().union(*tied)))
            continue
        for root in touched:
            components.join(claims[0], root)
        units[components.find(claims[0])] = set[str]().union(*tied)
        claimed.update(keys)
        for key in keys:
            offering.pop(key, None)
        for key in document.origin.offers:
            offering[key].append(claims[0])
    return withheld


def identified(documents: Sequence[Document], units: Sequence[str]) -> list[Document]:
    """The documents under the units that they belong to."""
    return [
        document if unit == document.unit else replace(document, unit=unit)
        for document, unit in zip(documents, units, strict=True)
    ]


def _names(document: Document, split: Collection[str]) -> tuple[str, ...]:
    """The name of a document's unit as its key, where it says anything."""
    return () if document.unit in split and is_tied(document) else (name_key(document.unit),)


def _node(place: int) -> str:
    return f"\0{place}"  # no key is called so
