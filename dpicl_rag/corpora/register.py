"""The register of a corpus: by which keys its units are known, and which document has which.

It is a collection beside the passages, and outlives them: a unit that was forgotten is known when
it comes back, and goes on with the budget that it had. Keys stand there as hashes.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from dpicl_rag.corpora.identity import name_key
from dpicl_rag.corpora.joins import Join
from dpicl_rag.corpora.separation import Separation, Tie

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

T = TypeVar("T")

PREFIX = "dpicl-units-"
"""What names of collections begin with that are registers, not corpora."""

_VERSION, _PENDING = "version", "pending"  # no hashes, so no records of keys
_UNIT, _SPLIT = "unit", "split"
_FORMER, _MERGED, _ON, _BY = "former", "merged", "on", "by"
_OFFERED, _PARTED = "offered", "parted"
_DOCUMENT, _NAME, _KEYS, _OFFERS, _FORGOTTEN = "document", "name", "keys", "offers", "forgotten"
_BY_ITSELF = dict.fromkeys((_FORMER, _MERGED, _ON, _BY))
_PAGE = 1000
_WANTED = 500  # values of a field that are looked for at a time

Fields = Mapping[str, Any]


class Register:
    """What is known of the units of one corpus. Use it while the store is held for writing.

    There is a record for each key (its unit; of a name also what became of that), for each unit
    that offers a key, and for each document that has keys.

    Args:
        client: Where the corpus is.
        corpus: Its name.
    """

    def __init__(self, client: ClientAPI, corpus: str) -> None:
        self._records: Collection = client.get_or_create_collection(
            register_name(corpus), embedding_function=None
        )

    @staticmethod
    def version_of(client: ClientAPI, corpus: str) -> str | None:
        """What `renew` wrote last; None if it never did."""
        from chromadb.errors import NotFoundError

        try:
            records = client.get_collection(register_name(corpus), embedding_function=None)
        except NotFoundError:
            return None
        found = records.get(ids=[_VERSION], include=["metadatas"])["metadatas"]
        return str(found[0][_VERSION]) if found else None

    def renew(self) -> None:
        """Write a random version: the corpus is another from now on."""
        self._write({_VERSION: {_VERSION: uuid4().hex}})

    def units(self, keys: Iterable[str]) -> dict[str, str]:
        """The unit of each key that is known."""
        names = {key_hash(key): key for key in keys}
        return {names[id]: str(fields[_UNIT]) for id, fields in self._read(names).items()}

    def offering(self, keys: Iterable[str]) -> dict[str, list[str]]:
        """By key, the units that offer it."""
        names = {key_hash(key): key for key in keys}
        units: defaultdict[str, set[str]] = defaultdict(set)
        for fields in self._find(_OFFERED, names).values():
            units[names[str(fields[_OFFERED])]].add(str(fields[_UNIT]))
        return {key: sorted(found) for key, found in units.items()}

    def split(self, names: Iterable[str]) -> set[str]:
        """Which names of units documents of several units have; see `identify`."""
        hashes = {key_hash(name_key(name)): name for name in names}
        return {hashes[id] for id, fields in self._read(hashes).items() if fields.get(_SPLIT)}

    def former_names(self) -> dict[str, list[str]]:
        """By unit, the units that became part of it."""
        names: defaultdict[str, list[str]] = defaultdict(list)
        for fields in self._find(_MERGED, [True]).values():
            names[str(fields[_UNIT])].append(str(fields[_FORMER]))
        return dict(names)

    def stored_names(self) -> dict[str, list[str]]:
        """By unit, other units under whose names its passages may be stored."""
        names = defaultdict(list, self.former_names())
        for fields in self._find(_PARTED, [True]).values():
            names[str(fields[_UNIT])] += json.loads(str(fields[_FORMER]))
        return dict(names)

    def left(self) -> set[str]:
        """Units that passages have left: they became part of another, or were separated."""
        return {name for names in self.stored_names().values() for name in names}

    def joins(self) -> list[Join]:
        """Every join that was not undone, the latest first."""
        parts: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
        for fields in self._find(_MERGED, [True]).values():
            when = (str(fields.get(_ON, "")), str(fields[_UNIT]), str(fields.get(_BY, "")))
            parts[when].append(str(fields[_FORMER]))
        return [
            Join(unit, tuple(sorted(parts[on, unit, by])), {name: {} for name in by.split()}, on)
            for on, unit, by in sorted(parts, reverse=True)
        ]

    def ties(self, unit: str) -> dict[str, Tie]:
        """The documents of a unit that have keys, by their digests."""
        found = self._find(_UNIT, [unit]).values()
        return {str(fields[_DOCUMENT]): _tie(fields) for fields in found if _DOCUMENT in fields}

    def documents(self, digests: Iterable[str]) -> dict[str, str | None]:
        """The unit of each document that is known; None of one that was forgotten."""
        found = self._read(map(_document, digests)).values()
        return {
            str(fields[_DOCUMENT]): None if fields.get(_FORGOTTEN) else str(fields[_UNIT])
            for fields in found
        }

    def record(
        self,
        keys: Mapping[str, str],
        offers: Mapping[str, Iterable[str]],
        documents: Mapping[str, tuple[str, Tie]],
    ) -> None:
        """Note the unit of each key, the units that offer one, and the unit of each document."""
        self._write({key_hash(key): {_UNIT: unit} for key, unit in keys.items()})
        self._write(_offers({key_hash(key): units for key, units in offers.items()}))
        there = self._read(map(_document, documents))
        records: dict[str, Fields] = {}
        for digest, (unit, tie) in documents.items():
            # Of a message that is there twice, both copies tie.
            before = _tie(there.get(_document(digest), {}))
            records[_document(digest)] = {
                _DOCUMENT: digest,
                _UNIT: unit,
                _NAME: before.name or tie.name,
                _KEYS: " ".join(dict.fromkeys((*before.keys, *tie.keys))),
                _OFFERS: " ".join(dict.fromkeys((*before.offers, *tie.offers))),
            }
        self._write(records)

    def merge(self, joins: Iterable[Join]) -> None:
        """Give all that belongs to each unit that goes to the one that it is part of."""
        for join in joins:
            moved: dict[str, Fields] = {
                id: {_UNIT: join.unit} for id in self._find(_UNIT, join.parts)
            }
            names = {
                key_hash(name_key(part)): {
                    _UNIT: join.unit,
                    _FORMER: part,
                    _MERGED: True,
                    _ON: join.on,
                    _BY: " ".join(join.documents),
                }
                for part in join.parts
            }
            self._write(moved | names)

    def pending(self) -> Separation | None:
        """The separation that was begun and did not come to its end."""
        found = self._read([_PENDING]).get(_PENDING)
        return None if found is None else Separation.from_json(str(found[_PENDING]))

    def begin(self, separation: Separation) -> None:
        """Note what is to be done, whatever comes between."""
        self._write({_PENDING: {_PENDING: separation.to_json()}})

    def end(self) -> None:
        """Note that it is done."""
        self._records.delete(ids=[_PENDING])

    def separate(self, separation: Separation) -> None:
        """Give documents, keys and names to the units that they belong to from now on."""
        unit, keys, names = separation.unit, separation.keys, separation.names
        offered = self._find(_OFFERED, separation.offers).items()
        gone = [key for key, where in keys.items() if where is None]
        gone += [id for id, fields in offered if fields[_UNIT] == unit]
        for page in pages(gone, _PAGE):
            self._records.delete(ids=list(page))
        self._write({key: {_UNIT: where} for key, where in keys.items() if where is not None})
        self._write(_offers(separation.offers))
        self._write({key_hash(name_key(name)): {_SPLIT: True} for name in separation.split})
        own = [name for name, where in names.items() if name == where]
        self._write({key_hash(name_key(name)): _BY_ITSELF for name in own})
        self._write({_document(d): {_UNIT: where} for d, where in separation.documents.items()})
        self._write(
            {
                f"{_PARTED} {key_hash(made)} {key_hash(unit)}": {
                    _UNIT: made,
                    _PARTED: True,
                    _FORMER: json.dumps([name for name in separation.stored if name != made]),
                }
                for made in separation.made
            }
        )
        empty = dict.fromkeys((_UNIT, _NAME, _KEYS, _OFFERS), "")
        gone_document = {**empty, _DOCUMENT: separation.document, _FORGOTTEN: True}
        self._write({_document(separation.document): gone_document})

    def _read(self, ids: Iterable[str]) -> dict[str, Fields]:
        """Records by their ids, of those that are there."""
        found: dict[str, Fields] = {}
        for page in pages(list(dict.fromkeys(ids)), _PAGE):
            records = self._records.get(ids=list(page), include=["metadatas"])
            found.update(zip(records["ids"], records["metadatas"] or [], strict=True))
        return found

    def _find(self, field: str, values: Iterable[str | bool]) -> dict[str, Fields]:
        """Records by the value of a field."""
        found: dict[str, Fields] = {}
        for page in pages(list(values), _WANTED):
            records = self._records.get(where={field: {"$in": list(page)}}, include=["metadatas"])
            found.update(zip(records["ids"], records["metadatas"] or [], strict=True))
        return found

    def _write(self, records: Mapping[str, Fields]) -> None:
        """Give records these fields, beside those that they have."""
        for page in pages(list(records), _PAGE):
            there = self._read(page)
            ids = [id for id in page if not records[id].items() <= there.get(id, {}).items()]
            if ids:
                self._records.upsert(
                    ids, embeddings=_vectors(ids), metadatas=[dict(records[id]) for id in ids]
                )


def pages(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Pieces of a sequence, in order."""
    for first in range(0, len(items), size):
        yield items[first : first + size]


def refill(keys: Collection) -> None:
    """Give the index of a register, which was removed, all its vectors again."""
    for page in pages(keys.get(include=[])["ids"], _PAGE):
        keys.upsert(list(page), embeddings=_vectors(page))


def register_name(corpus: str) -> str:
    """Name of the collection that is the register of a corpus."""
    # Hashed, for a name with anything before it may be longer than the database takes.
    return PREFIX + hashlib.sha256(corpus.encode()).hexdigest()[:32]


def _vectors(ids: Sequence[str]) -> npt.NDArray[np.float32]:
    # A collection has vectors; nobody searches these.
    return np.ones((len(ids), 1), dtype=np.float32)


def key_hash(key: str) -> str:
    """What a key is known by."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _document(digest: str) -> str:
    return f"{_DOCUMENT} {digest}"


def _offers(units: Mapping[str, Iterable[str]]) -> dict[str, Fields]:
    """Records of offers, by hashes of keys."""
    return {
        f"{_OFFERED} {key} {key_hash(unit)}": {_OFFERED: key, _UNIT: unit}
        for key, those in units.items()
        for unit in those
    }


def _tie(fields: Fields) -> Tie:
    return Tie(
        str(fields.get(_NAME, "")),
        tuple(str(fields.get(_KEYS, "")).split()),
        tuple(str(fields.get(_OFFERS, "")).split()),
    )
