"""The register of a corpus: by which keys its units are known, and which document has which.

It outlives the documents: a unit that was forgotten is known when it comes back, and goes on with
the budget that it had. Keys stand there as hashes.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import NamedTuple

from dpicl_rag.corpora.contents import KEY, META, OFFER, PARTED, InTransaction
from dpicl_rag.corpora.contents import TIE as TIES
from dpicl_rag.corpora.joins import Join, Separation, Tie
from dpicl_rag.loaders.shared_keys import name_key, own_digest

_PENDING = "separation"
_FORGOTTEN = 1
# Of a message with attachments it was forgotten, and of those own words no other was known. Another
# that has them, and other attachments, was not.
_FORGOTTEN_WITH_MORE = 2


class RegisteredKey(NamedTuple):
    """A key and what is known of it. Private.

    Attributes:
        hash: Of the key.
        unit: Who has it.
        former: Of a name: the unit that was called so and became part of ``unit``; else empty.
        on: The day on which it did.
        by: Digests of the documents that came then.
        split: Of a name: whether documents of several units have it.
    """

    hash: str
    unit: str
    former: str = ""
    on: str = ""
    by: str = ""
    split: int = 0


class Register(InTransaction):
    """The keys, joins and ties of the units of one corpus."""

    def units(self, keys: Iterable[str]) -> dict[str, str]:
        """The unit of each key that is known."""
        names = {key_hash(key): key for key in keys}
        return {names[found.hash]: found.unit for found in self._keys("hash", names)}

    def offering(self, keys: Iterable[str]) -> dict[str, list[str]]:
        """By key, the units that offer it."""
        names = {key_hash(key): key for key in keys}
        units: defaultdict[str, set[str]] = defaultdict(set)
        for _, key, unit in OFFER.among(self._connection, "key", names):
            units[names[key]].add(unit)
        return {key: sorted(found) for key, found in units.items()}

    def split(self, names: Iterable[str]) -> set[str]:
        """Names of units that documents of several units have; see `identify`."""
        hashes = {key_hash(name_key(name)): name for name in names}
        return {hashes[found.hash] for found in self._keys("hash", hashes) if found.split}

    def former_names(self) -> dict[str, list[str]]:
        """By unit, the units that became part of it."""
        names: defaultdict[str, list[str]] = defaultdict(list)
        for found in self._merged():
            names[found.unit].append(found.former)
        return dict(names)

    def stored_names(self) -> dict[str, list[str]]:
        """By unit, other units under whose names its passages may be stored."""
        names = defaultdict(list, self.former_names())
        for _, unit, former in PARTED.rows(self._connection):
            names[unit] += json.loads(former)
        return dict(names)

    def joins(self) -> list[Join]:
        """Every join that was not undone, the latest first."""
        parts: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
        for found in self._merged():
            parts[found.on, found.unit, found.by].append(found.former)
        return [
            Join(unit, tuple(sorted(parts[on, unit, by])), {name: {} for name in by.split()}, on)
            for on, unit, by in sorted(parts, reverse=True)
        ]

    def ties(self, unit: str) -> dict[str, Tie]:
        """The documents of a unit that have keys, by their digests."""
        rows = TIES.among(self._connection, "unit", [unit])
        return {document: _tie(*rest) for document, _, *rest, _ in rows}

    def documents(self, digests: Iterable[str]) -> dict[str, str | None]:
        """The unit of each document that is known; None of one that was forgotten."""
        found = TIES.among(self._connection, "document", digests)
        return {document: None if forgotten else unit for document, unit, *_, forgotten in found}

    def forgotten(self, digests: Iterable[str]) -> set[str]:
        """Documents that were forgotten; of a message with attachments, also as it was without."""
        wanted = list(digests)
        found = TIES.among(self._connection, "document", {*wanted, *map(own_digest, wanted)})
        marks = {document: forgotten for document, *_, forgotten in found}
        return {one for one in wanted if marks.get(one) or marks.get(own_digest(one)) == _FORGOTTEN}

    def replace(self, readings: Mapping[str, str]) -> None:
        """Know messages by other readings of them: what tied a former one is tied still.

        Args:
            readings: By the digest of each that is no more, that of the one that is.
        """
        there = {row[0]: row for row in TIES.among(self._connection, "document", readings)}
        for former, (_, unit, *told) in there.items():
            self.record({}, {}, {readings[former]: (unit, _tie(*told[:3]))})
        TIES.drop(self._connection, "document", there)
        for found in self._merged():
            by = " ".join(readings.get(one, one) for one in found.by.split())
            if by != found.by:
                KEY.put(self._connection, [found._replace(by=by)])

    def record(
        self,
        keys: Mapping[str, str],
        offers: Mapping[str, Iterable[str]],
        documents: Mapping[str, tuple[str, Tie]],
    ) -> None:
        """Note the unit of each key, the units that offer one, and the unit of each document."""
        self._give({key_hash(key): unit for key, unit in keys.items()})
        self._offer({key_hash(key): units for key, units in offers.items()})
        there = {row[0]: row for row in TIES.among(self._connection, "document", documents)}
        rows = []
        for digest, (unit, tie) in documents.items():
            # Of a message that is there twice, both copies tie.
            before = _tie(*there[digest][2:5]) if digest in there else Tie("")
            forgotten = there[digest][5] if digest in there else 0
            keys_of = dict.fromkeys((*before.keys, *tie.keys))
            offers_of = dict.fromkeys((*before.offers, *tie.offers))
            name = before.name or tie.name
            rows.append((digest, unit, name, " ".join(keys_of), " ".join(offers_of), forgotten))
        TIES.put(self._connection, rows)

    def merge(self, joins: Iterable[Join]) -> None:
        """Give all that belongs to each unit that goes to the one that it is part of."""
        for join in joins:
            keys = [found._replace(unit=join.unit) for found in self._keys("unit", join.parts)]
            KEY.put(self._connection, keys)
            offered = list(OFFER.among(self._connection, "unit", join.parts))
            OFFER.drop(self._connection, "id", (id for id, *_ in offered))
            self._offer({key: [join.unit] for _, key, _ in offered})
            ties = list(TIES.among(self._connection, "unit", join.parts))
            TIES.put(self._connection, [(one, join.unit, *rest) for one, _, *rest in ties])
            parted = list(PARTED.among(self._connection, "unit", join.parts))
            PARTED.put(self._connection, [(id, join.unit, former) for id, _, former in parted])
            names = {key_hash(name_key(part)): part for part in join.parts}
            split = {found.hash: found.split for found in self._keys("hash", names)}
            by = " ".join(join.documents)
            KEY.put(
                self._connection,
                [
                    RegisteredKey(hash, join.unit, part, join.on, by, split.get(hash, 0))
                    for hash, part in names.items()
                ],
            )

    def pending(self) -> Separation | None:
        """The separation that has not come to its end in the ledger."""
        for _, value in META.among(self._connection, "name", [_PENDING]):
            return Separation(**json.loads(value))
        return None

    def begin(self, separation: Separation) -> None:
        """Note what is to be done, whatever comes between."""
        META.put(self._connection, [(_PENDING, json.dumps(asdict(separation)))])

    def end(self) -> None:
        """Note that it is done."""
        META.drop(self._connection, "name", [_PENDING])

    def separate(self, separation: Separation) -> None:
        """Give documents, keys and names to the units that they belong to from now on."""
        unit, keys, names = separation.unit, separation.keys, separation.names
        offered = OFFER.among(self._connection, "key", separation.offers)
        OFFER.drop(self._connection, "id", [id for id, _, by in offered if by == unit])
        KEY.drop(self._connection, "hash", [key for key, where in keys.items() if where is None])
        self._give({key: where for key, where in keys.items() if where is not None})
        self._offer(separation.offers)
        split = {key_hash(name_key(name)) for name in separation.split}
        KEY.put(self._connection, [k._replace(split=1) for k in self._keys("hash", split)])
        own = {key_hash(name_key(name)) for name, where in names.items() if name == where}
        KEY.put(
            self._connection,
            [k._replace(former="", on="", by="") for k in self._keys("hash", own)],
        )
        ties = list(TIES.among(self._connection, "document", separation.documents))
        TIES.put(
            self._connection,
            [(one, separation.documents[one], *rest) for one, _, *rest in ties],
        )
        PARTED.put(
            self._connection,
            [
                (
                    f"{key_hash(made)} {key_hash(unit)}",
                    made,
                    json.dumps([name for name in separation.stored if name != made]),
                )
                for made in separation.made
            ],
        )
        forgotten = [(separation.document, "", "", "", "", _FORGOTTEN)]
        words = own_digest(separation.document)
        if words != separation.document and not self.documents([words]):
            forgotten.append((words, "", "", "", "", _FORGOTTEN_WITH_MORE))
        TIES.put(self._connection, forgotten)

    def _keys(self, column: str, values: Iterable[str]) -> list[RegisteredKey]:
        return [RegisteredKey(*row) for row in KEY.among(self._connection, column, values)]

    def _merged(self) -> list[RegisteredKey]:
        return [RegisteredKey(*row) for row in KEY.rows(self._connection, "former <> ''")]

    def _give(self, units: Mapping[str, str]) -> None:
        """Give keys to units, by their hashes; what else is known of a key stays."""
        there = {found.hash: found for found in self._keys("hash", units)}
        KEY.put(
            self._connection,
            [
                there.get(key, RegisteredKey(key, ""))._replace(unit=unit)
                for key, unit in units.items()
            ],
        )

    def _offer(self, units: Mapping[str, Iterable[str]]) -> None:
        """Note units that offer keys, by the hashes of these."""
        OFFER.put(
            self._connection,
            [
                (f"{key} {key_hash(unit)}", key, unit)
                for key, those in units.items()
                for unit in those
            ],
        )


def key_hash(key: str) -> str:
    """The hash that a key is known by."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _tie(name: str, keys: str, offers: str) -> Tie:
    return Tie(name, tuple(keys.split()), tuple(offers.split()))
