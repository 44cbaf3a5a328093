"""Which documents are one privacy unit, by the keys that they share.

A unit is for life: what arrives later and belongs to a unit that is there joins it, whatever it is
called. So a document brings, beside the name of its unit, keys that others of the unit share, such
as the ids of the messages that it answers. Units are the connected components of names and keys,
so taking one away leaves the others as they were.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dpicl_rag.documents import Document

_NAME = "unit "


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


@dataclass(frozen=True, slots=True, repr=False)
class Identity:
    """What documents say about units. All of it is private.

    Attributes:
        units: By the unit that a document names, the unit that it belongs to.
        keys: By key, the unit that has it, for documents that have keys; names are keys too.
        merged: By each known unit that turned out to be part of another, that other.
    """

    units: Mapping[str, str]
    keys: Mapping[str, str]
    merged: Mapping[str, str]

    def __repr__(self) -> str:
        return "Identity(<private>)"


def name_key(unit: str) -> str:
    """The key that the name of a unit is."""
    return _NAME + unit


def names_in(keys: Iterable[str]) -> list[str]:
    """The units whose names are among the keys."""
    return [key.removeprefix(_NAME) for key in keys if key.startswith(_NAME)]


def keys_of(documents: Iterable[Document], *, tied: bool = False) -> list[str]:
    """Every key of documents and the name of every unit, once; ``tied``: of those with keys."""
    return list(
        dict.fromkeys(
            key
            for document in documents
            if document.origin.keys or not tied
            for key in (name_key(document.unit), *document.origin.keys)
        )
    )


def identify(documents: Sequence[Document], known: Mapping[str, str]) -> Identity:
    """Find the units of documents.

    Args:
        documents: What arrives, in any order.
        known: By key, the unit that has it; for keys of `keys_of`.

    Returns:
        Of several names the least stays, of those that are known if any is.
    """
    components = Components()
    for document in documents:
        for key in document.origin.keys:
            components.join(name_key(document.unit), key)
    for key, unit in known.items():
        components.join(name_key(unit), key)
    named: defaultdict[str, set[str]] = defaultdict(set)
    there: defaultdict[str, set[str]] = defaultdict(set)
    for unit in {document.unit for document in documents}:
        named[components.find(name_key(unit))].add(unit)
    for unit in set(known.values()):
        there[components.find(name_key(unit))].add(unit)
    stays = {root: min(there.get(root) or units) for root, units in named.items()}
    return Identity(
        units={unit: stays[root] for root, units in named.items() for unit in units},
        keys={key: stays[components.find(key)] for key in keys_of(documents, tied=True)},
        merged={unit: stays[root] for root in named for unit in there[root] if unit != stays[root]},
    )


def identified(documents: Sequence[Document], units: Mapping[str, str]) -> list[Document]:
    """The documents under the units that they belong to."""
    return [
        document
        if units[document.unit] == document.unit
        else replace(document, unit=units[document.unit])
        for document in documents
    ]
