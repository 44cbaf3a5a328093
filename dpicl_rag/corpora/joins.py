"""Joins and separations: units that became one, and the parts left when a document is forgotten.

Units are the connected components of documents and their keys. Without a document that tied others
they may be several. Each of them that was a unit by itself before has its former name again, and so
its former account; another is a name that the ledger books together with the unit that it leaves.
What is in the unit by a tie that is not known, such as a name, stays where it is.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dpicl_rag._unobserved import Private
from dpicl_rag.corpora.contents import Contents
from dpicl_rag.loaders.shared_keys import Components, connect, is_part, part_name


@dataclass(frozen=True, slots=True, repr=False)
class Tie(Private):
    """A document as a register knows it: private."""

    name: str
    keys: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Join(Private):
    """Units that are one, or would be by what was withheld. For the owner: private.

    Attributes:
        unit: The one that stays.
        parts: Those that are part of it now.
        documents: What came when it was found, by the name under which `Corpus.forget_message`
            takes it: the metadata of each, as far as its text is there. What ties the most units
            comes first.
        on: The day, as ``2026-11-23``; empty where it is not known.
    """

    unit: str
    parts: tuple[str, ...]
    documents: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    on: str = ""


def described(joins: Iterable[Join], contents: Contents) -> list[Join]:
    """Joins with the metadata of their documents, as far as passages of them are stored."""
    joins = list(joins)
    wanted = list(dict.fromkeys(digest for join in joins for digest in join.documents))
    fields = {one.tie: json.loads(one.fields) for one in contents.documents("tie", wanted)}
    return [
        replace(join, documents={digest: fields.get(digest, {}) for digest in join.documents})
        for join in joins
    ]


@dataclass(frozen=True, slots=True, repr=False)
class Separation(Private):
    """The work to be done where a document is forgotten. All of it is private.

    Attributes:
        document: The one that is forgotten.
        unit: Its unit.
        documents: By each document that leaves the unit, where it goes.
        names: By each former name whose documents leave the unit, where it goes.
        keys: By the hash of a key, the unit that has it from now on; None if nobody has it.
        offers: By the hash of a key, the units that offer it, of those that are left and made.
        split: Names of documents that are in several units from now on.
        stored: Names of units under which passages of the unit may be stored.
    """

    document: str
    unit: str
    documents: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str | None] = field(default_factory=dict)
    offers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    split: Sequence[str] = ()
    stored: Sequence[str] = ()

    @property
    def made(self) -> list[str]:
        """The units that are by themselves from now on."""
        return sorted(set(self.documents.values()))

    @property
    def fresh(self) -> dict[str, str]:
        """Of these, those that no ledger knows, each with the unit whose account it shares."""
        return {unit: self.unit for unit in self.made if is_part(unit)}

    @property
    def freed(self) -> list[str]:
        """Former units that have accounts of their own again."""
        return sorted(name for name in self.names if not is_part(name))

    @property
    def merged(self) -> dict[str, str]:
        """Of these, those that stay part of another one of them."""
        return {name: unit for name in self.freed if (unit := self.names[name]) != name}


def separate(
    unit: str,
    ties: Mapping[str, Tie],
    document: str,
    former: Collection[str],
    stored: Sequence[str],
    key_of: Callable[[str], str],
) -> Separation:
    """Find what a unit falls into without a document.

    Args:
        unit: The unit.
        ties: All documents of the unit that have ties, by their digests.
        document: Digest of the one that is forgotten.
        former: Units that became part of the unit.
        stored: Other names under which passages of the unit may be stored.
        key_of: The hash of a name's key.
    """
    left = {digest: tie for digest, tie in ties.items() if digest != document}
    pieces = _pieces(unit, ties, document, key_of)
    documents: dict[str, str] = {}
    for piece in pieces:
        others = left.keys() - set(piece)
        free = {
            name
            for name in {ties[digest].name for digest in piece}.intersection(former)
            if not (is_part(name) or _claim(others, ties, key_of(name)))
        }.difference(documents.values())
        made = min(free) if free else part_name(unit, document, min(piece))
        documents.update(dict.fromkeys(piece, made))
    named: defaultdict[str, set[str]] = defaultdict(set)
    for digest, tie in left.items():
        named[tie.name].add(documents.get(digest, unit))
    places = {
        name: name if name in units else min(units, key=lambda one: (one != unit, one))
        for name, units in named.items()
    }
    gone = ties[document]
    keys: dict[str, str | None] = dict.fromkeys((*gone.keys, key_of(gone.name)))
    keys.update((key_of(name), where) for name, where in places.items())
    offers: dict[str, set[str]] = {key: set() for tie in ties.values() for key in tie.offers}
    for digest, tie in left.items():
        where = documents.get(digest, unit)
        keys.update(dict.fromkeys(tie.keys, where))
        for key in tie.offers:
            offers[key].add(where)
    keys.update((key_of(one), one) for one in (unit, *documents.values()))
    # A former unit of which no document is left goes on being part of what stays.
    for name in former:
        if keys.get(key_of(name), unit) is None:
            keys[key_of(name)] = unit
    return Separation(
        document=document,
        unit=unit,
        documents=documents,
        names={n: where for n, where in places.items() if n in former and where != unit},
        keys=keys,
        offers={key: sorted(units) for key, units in offers.items()},
        split=sorted(name for name, units in named.items() if len(units) > 1),
        stored=(unit, *stored),
    )


def _pieces(
    unit: str, ties: Mapping[str, Tie], document: str, key_of: Callable[[str], str]
) -> list[list[str]]:
    """The pieces that a document held together with what stays in the unit, the least first."""
    nodes = {digest: (digest, tie.keys, tie.offers) for digest, tie in ties.items()}
    whole, rest = Components(), Components()
    connect(whole, nodes.values())
    connect(rest, [node for digest, node in nodes.items() if digest != document])
    # Documents that came together have one name because they were tied. So a name says that one of
    # them is of the unit, and of what no key ties to that one, one as well: not the forgotten one.
    named: dict[tuple[str, str], str] = {}
    for digest in sorted(ties, key=lambda one: (one == document, one)):
        named.setdefault((ties[digest].name, whole.find(digest)), digest)
    for (name, _), digest in named.items():
        whole.join(digest, key_of(name))
        if digest != document:
            rest.join(digest, key_of(name))
    parts: defaultdict[str, list[str]] = defaultdict(list)
    for digest in sorted(ties):
        if digest != document and whole.find(digest) == whole.find(document):
            parts[rest.find(digest)].append(digest)
    key = key_of(unit)
    pieces = sorted(
        parts.values(),
        key=lambda piece: (
            not _claim(piece, ties, key),
            unit not in {ties[digest].name for digest in piece},
            piece[0],
        ),
    )
    return pieces[1:]


def _claim(documents: Collection[str], ties: Mapping[str, Tie], key: str) -> bool:
    """Test for a document that has a key, among some."""
    return any(key in ties[digest].keys for digest in documents)
