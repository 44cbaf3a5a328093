"""The adoption of a Chroma collection: its owner says once what a privacy unit of it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpicl_rag.errors import ConfigurationError, CorpusError
from dpicl_rag.languages.person_names import is_person
from dpicl_rag.retrieval.stored_record import require_kind
from dpicl_rag.stores.chroma import CollectionAddress, collection_named
from dpicl_rag.stores.chroma_client import (
    guarded,
    length_of_vectors,
    note_unit,
    opened,
    require_field,
    unit_on_record,
)

if TYPE_CHECKING:
    from chromadb.api.models.Collection import Collection

    from dpicl_rag.ledger import Ledger

_PAGE = 1000
_MOST = 30  # fields that are named


@dataclass(frozen=True, slots=True)
class CollectionAccount:
    """What is in a collection. For its owner; private.

    Attributes:
        name: Of the collection.
        unit: The field of the unit under which it was adopted; None where it was not.
        asked: The field that the address names; None where it names none.
        records: How many there are.
        without_text: How many have no text, and so are never found.
        fields: By name, how many records have it; at most 30.
        dimension: Numbers of a vector; None without records.
        distance: Chroma's name of it.
        candidates: Fields that every record has and that several share, those of persons first.
    """

    name: str
    unit: str | None
    asked: str | None
    records: int
    without_text: int
    fields: dict[str, int]
    dimension: int | None
    distance: str
    candidates: tuple[str, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """What keeps questions from it, a line each."""
        field = self.unit if self.asked is None else self.asked
        lacks = self.records - self.fields.get(field or "", 0)
        told = {
            "no unit is on record: `dpicl-rag corpora adopt`": self.unit is None,
            f"the unit on record is {self.unit!r}, not {self.asked!r}": (
                None not in (self.unit, self.asked) and self.unit != self.asked
            ),
            f"{lacks:,} records without the unit {field!r}": bool(
                field not in (None, "document") and lacks
            ),
            f"{self.without_text:,} records without a text": bool(self.without_text),
            "no records": not self.records,
        }
        return tuple(line for line, holds in told.items() if holds)


def adopt(address: str, unit_field: str | None = None, ledger: Ledger | None = None) -> str:
    """Put on record what a privacy unit of a collection is.

    Args:
        address: See `CollectionAddress`.
        unit_field: Metadata field that holds it; that of the address if None.
        ledger: Knows what was paid for, if there is one.

    Returns:
        The field.

    Raises:
        CorpusError: No record has it, or it was adopted under another, or answers were paid for by
            another.
        ConfigurationError: No field was named, or it is no address.
    """
    with _reached(address) as (wanted, collection):
        field = unit_field or wanted.unit_field
        if field is None:
            raise ConfigurationError(
                "say which metadata field holds the privacy unit, by --unit FIELD; document makes "
                "each record a unit"
            )
        if not require_kind(wanted.name, unit_on_record(collection), field):
            require_field(collection, field)
            for former in _charged(ledger, wanted.name) - {None, field}:
                raise CorpusError(
                    f"answers from {wanted.name!r} were paid for by the unit {former!r}: by "
                    f"{field!r} a person would have a second budget; adopt it with --unit {former}"
                )
            note_unit(collection, field)
        return field


def release(address: str, ledger: Ledger | None = None) -> str | None:
    """Take back what is on record as the unit of a collection, and give it back.

    Raises:
        CorpusError: Answers were paid for by it: under another, who has spent would begin anew.
    """
    with _reached(address) as (wanted, collection):
        former = unit_on_record(collection)
        if _charged(ledger, wanted.name) & {None, former}:
            raise CorpusError(
                f"answers from {wanted.name!r} were paid for under its unit, so it stays: under "
                "another, who has spent would begin anew"
            )
        if former is not None:
            note_unit(collection, None)
        return former


def account_of(address: str) -> CollectionAccount:
    """What is in a collection, for its owner.

    Raises:
        CorpusError: It cannot be read.
    """
    with _reached(address) as (wanted, collection):
        fields: Counter[str] = Counter()
        values: dict[str, set[Any]] = {}
        records = without_text = 0
        while True:
            page = collection.get(include=["metadatas", "documents"], limit=_PAGE, offset=records)
            if not page["ids"]:
                break
            records += len(page["ids"])
            without_text += sum(not text for text in page["documents"] or page["ids"])
            for some in page["metadatas"] or []:
                for name, value in (some or {}).items():
                    if value not in (None, ""):
                        fields[name] += 1
                        values.setdefault(name, set()).add(str(value))
        shared = [
            name for name, count in fields.items() if count == records > len(values[name]) > 1
        ]
        persons = [name for name in fields if is_person(name)]
        settings: Any = collection.configuration or {}
        space = (settings.get("hnsw") or settings.get("spann") or {}).get("space")
        return CollectionAccount(
            wanted.name,
            unit_on_record(collection),
            wanted.unit_field,
            records,
            without_text,
            dict(fields.most_common(_MOST)),
            length_of_vectors(collection),
            str(space or "l2"),
            tuple(dict.fromkeys([*persons, *shared])),
        )


def _charged(ledger: Ledger | None, corpus: str) -> set[str | None]:
    return set() if ledger is None else ledger.units_charged(corpus)


@contextmanager
def _reached(address: str) -> Iterator[tuple[CollectionAddress, Collection]]:
    wanted = CollectionAddress.of(address)
    if wanted is None:
        raise CorpusError(
            f"{address!r} is no collection of Chroma, whose address is chroma:FOLDER-OR-URL#NAME; "
            "a corpus of this store has its unit from `dpicl-rag ingest`"
        )
    with guarded(), opened(wanted.place) as client:
        yield wanted, collection_named(client, wanted.name)
