"""Holdings: which document stands at which place of a source that a corpus follows.

A place is noted in the transaction that stores its document. So whatever instant a process is
killed at, a corpus has both or neither, and what it has not is read again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from dpicl_rag._unobserved import Private
from dpicl_rag.corpora.contents import HELD, SOURCE, Contents, InTransaction
from dpicl_rag.corpora.register import Register
from dpicl_rag.corpora.storage import Storage
from dpicl_rag.loaders.shared_keys import name_key

P = ParamSpec("P")
T = TypeVar("T")

_HELD_UP = "deletions held up of "


class StoredSource(NamedTuple):
    """A source that a corpus follows. For the owner.

    Attributes:
        id: Names it in the corpus.
        kind: What reads it, such as ``"files"``.
        spec: How to read it, as JSON. No secret stands there.
    """

    id: str
    kind: str
    spec: str


class Holding(NamedTuple):
    """The document at a place of a source. Private.

    Attributes:
        id: The source and the place.
        source: The source.
        part: The part of the source, such as a folder of mail.
        known_by: What the same thing is known by at other places, such as a hash of a Message-ID;
            empty where nothing tells.
        document: Digest of the document, in hexadecimal; empty where it has no text, or may not be
            in the corpus.
    """

    id: str
    source: str
    part: str
    known_by: str
    document: str = ""

    def __repr__(self) -> str:
        return "Holding(<private>)"


@dataclass(frozen=True, slots=True, repr=False)
class Held(Private):
    """A source, and what was found at some of its places. Private."""

    source: StoredSource
    holdings: Sequence[Holding]


class Holdings(InTransaction):
    """The sources of one corpus and what they hold."""

    def sources(self) -> list[StoredSource]:
        """The sources that are followed."""
        return [StoredSource(*row) for row in SOURCE.rows(self._connection)]

    def follow(self, source: StoredSource) -> None:
        """Follow a source, or note that it is read in another way."""
        SOURCE.put(self._connection, [source])

    def leave(self, source: str) -> None:
        """Follow a source no more; its documents stay."""
        self.hold_up(source, on=False)
        SOURCE.drop(self._connection, "id", [source])
        HELD.drop(self._connection, "source", [source])

    def clear(self) -> None:
        """Follow nothing any more."""
        for one in self.sources():
            self.leave(one.id)

    def held(self, source: str) -> list[Holding]:
        """The holdings of a source when it was last read."""
        return self._among("source", [source])

    def note(self, holdings: Iterable[Holding]) -> None:
        """Write what stands at places, in the place of what stood there.

        Where that was the same text as another document, for its unit became part of another, the
        former one is deleted.
        """
        new = {one.id: one for one in holdings}
        there = {one.id: one for one in self._among("id", new)}
        HELD.put(self._connection, new.values())
        self._drop_unheld(
            before.document
            for before in there.values()
            if before.document and new[before.id].document != before.document
        )

    def replaced(self, documents: Iterable[str]) -> None:
        """Note that documents are at their places no more, for others are."""
        HELD.drop(self._connection, "document", documents)

    def release_shared(self, documents: Iterable[str]) -> None:
        """Note that documents which stand at several places stand at none; they are not deleted."""
        held = self._among("document", documents)
        places = Counter(one.document for one in held)
        HELD.drop(self._connection, "id", [one.id for one in held if places[one.document] > 1])

    def is_held_up(self, source: str) -> bool:
        """Test for a source whose deletions wait for a word of the owner."""
        return _HELD_UP + source in Contents(self._connection).meta()

    def hold_up(self, source: str, *, on: bool) -> None:
        """Let what is gone of a source wait for a word of the owner, or wait no more."""
        Contents(self._connection).set_meta({_HELD_UP + source: True if on else None})

    def whose(self, source: str) -> dict[str, tuple[str, str]]:
        """By each document that a source holds, its unit and its sender, which may be the unit."""
        contents = Contents(self._connection)
        held = {bytes.fromhex(one.document) for one in self.held(source)}
        stored = contents.documents("digest", held)
        names = contents.units({one.unit for one in stored})
        found = {}
        for one in stored:
            unit = names[one.unit]
            found[one.digest.hex()] = unit, json.loads(one.fields).get("sender") or unit
        return found

    def forgotten(self, source: str) -> set[str]:
        """Places of a source whose documents the owner had forgotten, though they are there."""
        held = [one for one in self.held(source) if one.document]
        wanted = {bytes.fromhex(one.document) for one in held}
        stored = Contents(self._connection).documents("digest", wanted)
        there = {document.digest.hex() for document in stored}
        return {one.id for one in held if one.document not in there}

    def units_at(self, ids: Iterable[str]) -> set[str]:
        """Units of the documents at places. Private."""
        digests = {bytes.fromhex(one.document) for one in self._among("id", ids) if one.document}
        contents = Contents(self._connection)
        numbers = {one.unit for one in contents.documents("digest", digests)}
        return set(contents.units(numbers).values())

    def release(self, ids: Iterable[str]) -> int:
        """Note that nothing stands at places any more, and delete what stands nowhere else.

        What units have spent is the ledger's, and by which keys they are known stays: a document
        that comes back finds its unit.

        Returns:
            How many documents were deleted.
        """
        ids = list(ids)
        left = {one.document for one in self._among("id", ids) if one.document}
        HELD.drop(self._connection, "id", ids)
        return self._drop_unheld(left)

    def _drop_unheld(self, documents: Iterable[str]) -> int:
        left = set(documents)
        left -= {one.document for one in self._among("document", left, "document <> ''")}
        if not left:
            return 0
        contents, register = Contents(self._connection), Register(self._connection)
        gone = contents.documents("digest", map(bytes.fromhex, left))
        # As where a unit is deleted: known by its name when it comes back, whatever it is called.
        names = contents.units({document.unit for document in gone}).values()
        known = register.units(map(name_key, names))
        register.record({name_key(name): known.get(name_key(name), name) for name in names}, {}, {})
        contents.delete(gone)
        return len(gone)

    def _among(self, column: str, values: Iterable[str], condition: str = "1") -> list[Holding]:
        found = HELD.among(self._connection, column, values, condition)
        return [Holding(*row) for row in found]


def _by_itself(
    method: Callable[Concatenate[Holdings, P], T], *, writes: bool = False
) -> Callable[Concatenate[Followed, P], T]:
    """A method of `Holdings` in a transaction of its own."""

    @wraps(method)
    def run(followed: Followed, /, *args: P.args, **options: P.kwargs) -> T:
        transact = followed.storage.write if writes else followed.storage.read
        return transact(lambda c: method(Holdings(c), *args, **options))

    return run


class Followed(Private):
    """Sources of a corpus, each call a transaction of its own. For the owner; private."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    sources = _by_itself(Holdings.sources)
    held = _by_itself(Holdings.held)
    is_held_up = _by_itself(Holdings.is_held_up)
    whose = _by_itself(Holdings.whose)
    forgotten = _by_itself(Holdings.forgotten)
    units_at = _by_itself(Holdings.units_at)
    follow = _by_itself(Holdings.follow, writes=True)
    leave = _by_itself(Holdings.leave, writes=True)
    note = _by_itself(Holdings.note, writes=True)

    def hold_up(self, source: str, *, on: bool) -> None:
        """Let what is gone of a source wait for a word of the owner, or wait no more."""
        if on != self.is_held_up(source):
            self.storage.write(lambda c: Holdings(c).hold_up(source, on=on))

    def release(self, ids: Iterable[str]) -> int:
        """Delete what stands nowhere else, see `Holdings.release`; no log holds it then.

        Returns:
            How many documents were deleted.
        """
        count = self.storage.write(lambda c: Holdings(c).release(ids))
        self.storage.flush()
        return count
