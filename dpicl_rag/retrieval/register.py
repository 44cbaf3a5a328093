"""The register of a corpus: by which keys its units are known.

It is a collection beside the passages, a record per key under a hash of it, and outlives them: a
unit that was forgotten is known when it comes back, and goes on with the budget that it had.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from dpicl_rag.identity import name_key

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

T = TypeVar("T")

PREFIX = "dpicl-units-"
"""What names of collections begin with that are registers, not corpora."""

_VERSION = "version"  # no hash, so no key's record
_UNIT, _FORMER, _MERGED = "unit", "former", "merged"
_PAGE = 1000


class Register:
    """Keys of the units of one corpus. Use it while the store is held for writing.

    Args:
        client: Where the corpus is.
        corpus: Its name.
    """

    def __init__(self, client: ClientAPI, corpus: str) -> None:
        self._keys: Collection = client.get_or_create_collection(
            register_name(corpus), embedding_function=None
        )

    @staticmethod
    def version_of(client: ClientAPI, corpus: str) -> str | None:
        """What `renew` wrote last; None if it never did."""
        from chromadb.errors import NotFoundError

        try:
            keys = client.get_collection(register_name(corpus), embedding_function=None)
        except NotFoundError:
            return None
        found = keys.get(ids=[_VERSION], include=["metadatas"])["metadatas"]
        return str(found[0][_VERSION]) if found else None

    def renew(self) -> None:
        """Write a random version: the corpus is another from now on."""
        self._write({_VERSION: {_VERSION: uuid4().hex}})

    def units(self, keys: Sequence[str]) -> dict[str, str]:
        """The unit of each key that is known."""
        names = {_hash(key): key for key in keys}
        found: dict[str, str] = {}
        for page in pages(list(names), _PAGE):
            records = self._keys.get(ids=list(page), include=["metadatas"])
            for id, fields in zip(records["ids"], records["metadatas"] or [], strict=True):
                found[names[id]] = str(fields[_UNIT])
        return found

    def former_names(self) -> dict[str, list[str]]:
        """By unit, the units that became part of it."""
        names: defaultdict[str, list[str]] = defaultdict(list)
        found = self._keys.get(where={_MERGED: True}, include=["metadatas"])
        for fields in found["metadatas"] or []:
            names[str(fields[_UNIT])].append(str(fields[_FORMER]))
        return dict(names)

    def record(self, units: Mapping[str, str]) -> None:
        """Note the unit of each key."""
        self._write({_hash(key): {_UNIT: unit} for key, unit in units.items()})

    def merge(self, survivors: Mapping[str, str]) -> None:
        """Give all keys of each unit that goes to the one that it is part of."""
        for goes, stays in survivors.items():
            moved = self._keys.get(where={_UNIT: goes}, include=[])["ids"]
            for page in pages(moved, _PAGE):
                self._keys.update(list(page), metadatas=[{_UNIT: stays}] * len(page))
        self._write(
            {
                _hash(name_key(goes)): {_UNIT: stays, _FORMER: goes, _MERGED: True}
                for goes, stays in survivors.items()
            }
        )

    def _write(self, records: Mapping[str, Mapping[str, Any]]) -> None:
        for page in pages(list(records), _PAGE):
            self._keys.upsert(
                list(page),
                embeddings=_vectors(page),
                metadatas=[dict(records[id]) for id in page],
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


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
