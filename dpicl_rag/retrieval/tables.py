"""What a local Chroma database holds, read from its tables.

Chroma loads the whole index of a collection, vectors and all, before it answers anything about
it. Numbers of writes, units and texts of a few records are read here without it, in one statement
each, while other programs read and write.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpicl_rag._unobserved import unobserved
from dpicl_rag.corpora.defects import Defect, record_of
from dpicl_rag.corpora.passages import Record
from dpicl_rag.corpora.register import pages
from dpicl_rag.documents import unit_of
from dpicl_rag.errors import CorpusError
from dpicl_rag.retrieval.filters import clause
from dpicl_rag.retrieval.vectors import Where

_WAIT_S = 60.0  # for a writer's commit
_PAGE = 5000  # records named in a statement
_TEXT = "chroma:document"

_COLLECTION = """
SELECT collections.id, segments.id, coalesce(max_seq_id.seq_id, 0)
FROM collections
JOIN databases ON databases.id = collections.database_id
JOIN segments ON segments.collection = collections.id AND segments.scope = 'METADATA'
LEFT JOIN max_seq_id ON max_seq_id.segment_id = segments.id
WHERE collections.name = ? AND databases.name = ? AND databases.tenant_id = ?
"""
_LOGGED = "SELECT coalesce(max(seq_id), 0) FROM embeddings_queue WHERE topic LIKE '%' || ?"
_COUNT = "SELECT count(*) FROM embeddings WHERE segment_id = ?"
# Old versions of Chroma numbered writes by bytes; any write since has made a number of them.
_STAMPS = """
SELECT id, stamp
FROM (
    SELECT id, CASE typeof(seq_id) WHEN 'blob' THEN 0 ELSE seq_id END AS stamp
    FROM embeddings WHERE segment_id = ?
)
WHERE stamp > ?
"""
_RECORDS = """
SELECT id, CASE typeof(seq_id) WHEN 'blob' THEN 0 ELSE seq_id END, embedding_id
FROM embeddings WHERE segment_id = ? AND id IN ({})
"""
_OF_SEGMENT = "SELECT id FROM embeddings WHERE segment_id = ?"
_NUMBERS = "SELECT id FROM embeddings WHERE segment_id = ? AND embedding_id IN ({})"
_STAMPED = """
SELECT embedding_id, id, CASE typeof(seq_id) WHEN 'blob' THEN 0 ELSE seq_id END
FROM embeddings WHERE segment_id = ? AND embedding_id IN ({})
"""
_FIELDS = """
SELECT id, key, string_value, int_value, float_value, bool_value
FROM embedding_metadata WHERE id IN ({})
"""
# What tells whose a record is, and that it has a text, without reading the text.
_HEADS = """
SELECT id, key, iif(key = 'chroma:document', '', string_value), int_value, float_value, bool_value
FROM embedding_metadata WHERE id IN ({}) AND key IN ('chroma:document', ?)
"""
_LISTS = """
SELECT id, key, string_value, int_value, float_value, bool_value
FROM embedding_metadata_array WHERE id IN ({}) ORDER BY rowid
"""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Listing:
    """Where a collection is in the tables.

    Attributes:
        collection: Its id, which no other has.
        segment: Id of the segment that records are under.
        behind: Whether its log holds writes that the tables do not.
    """

    collection: str
    segment: str
    behind: bool


@dataclass(frozen=True, slots=True, repr=False)
class Row:
    """A record and the write that it is from. Private.

    Attributes:
        number: Of the record.
        stamp: Of the last write to it; later ones are higher.
        id: Identifier of the record.
        unit: Its unit, if it has one.
        fields: Its metadata.
        record: The record, or why it is none.
    """

    number: int
    stamp: int
    id: str
    unit: str | None
    fields: Mapping[str, Any]
    record: Record | Defect


class Tables:
    """The tables of one collection.

    Args:
        database: The SQLite file.
        name: Of the collection.
        place: Database and tenant of Chroma that it is in.
        unit_field: Metadata field that holds the privacy unit.
    """

    def __init__(self, database: Path, name: str, place: tuple[str, str], unit_field: str) -> None:
        self._database = database
        self._key = (name, *place)
        self._unit_field = unit_field

    def __repr__(self) -> str:
        return "Tables(<private>)"

    def listing(self) -> Listing | None:
        """Where the collection is now; None if there is none."""
        with self._reading() as connection:
            found = connection.execute(_COLLECTION, self._key).fetchone()
            if found is None:
                return None
            collection, segment, taken_in = found
            ((logged,),) = connection.execute(_LOGGED, (collection,)).fetchall()
        return Listing(collection, segment, logged > taken_in)

    def count(self, listing: Listing) -> int:
        """Number of records."""
        with self._reading() as connection:
            ((count,),) = connection.execute(_COUNT, (listing.segment,)).fetchall()
        return int(count)

    def stamps(self, listing: Listing, after: int = -1) -> tuple[Numbers, Numbers]:
        """Numbers and stamps of the records that were written after a stamp, in no order."""
        with self._reading() as connection:
            rows = connection.execute(_STAMPS, (listing.segment, after))
            found: npt.NDArray[Any] = np.fromiter(rows, dtype=np.dtype((np.int64, 2)))
        return found[:, 0], found[:, 1]

    def numbers(self, listing: Listing, ids: Sequence[str]) -> list[int]:
        """Numbers of records by their identifiers, in no order."""
        found: list[int] = []
        with self._reading() as connection:
            for page in pages(ids, _PAGE):
                statement = _NUMBERS.format(_marks(page))
                rows = connection.execute(statement, (listing.segment, *page))
                found.extend(number for (number,) in rows)
        return found

    def stamped(self, listing: Listing, ids: Sequence[str]) -> list[tuple[int, int]]:
        """Number and stamp of each record that is there, in the order of the identifiers."""
        found: dict[str, tuple[int, int]] = {}
        with self._reading() as connection:
            for page in pages(ids, _PAGE):
                rows = connection.execute(_STAMPED.format(_marks(page)), (listing.segment, *page))
                found.update((id, (number, stamp)) for id, number, stamp in rows)
        return [found[id] for id in ids if id in found]

    def matching(self, listing: Listing, where: Where) -> Numbers | None:
        """Numbers of the records that pass a filter; None where only Chroma can tell."""
        condition = clause(where)
        if condition is None:
            return None
        statement, values = condition
        with self._reading() as connection:
            rows = connection.execute(
                f"{_OF_SEGMENT} AND ({statement})", (listing.segment, *values)
            )
            return np.fromiter((number for (number,) in rows), dtype=np.int64)

    def collections(self) -> set[str]:
        """Ids of all collections of the database."""
        with self._reading() as connection:
            return {id for (id,) in connection.execute("SELECT id FROM collections")}

    def rows(
        self, listing: Listing, numbers: Sequence[int], *, whole: bool = True
    ) -> Iterator[Row]:
        """Records by their numbers, in no order; those that are gone are left out.

        Args:
            listing: Where the collection is.
            numbers: Of the records.
            whole: With texts and all fields; without, texts are empty.
        """
        with self._reading() as connection:
            for page in pages(numbers, _PAGE):
                yield from self._page(connection, listing, page, whole)

    def _page(
        self,
        connection: sqlite3.Connection,
        listing: Listing,
        numbers: Sequence[int],
        whole: bool,
    ) -> Iterator[Row]:
        marks = _marks(numbers)
        # One transaction: a writer must not come between a record and its fields.
        connection.execute("BEGIN")
        heads = connection.execute(_RECORDS.format(marks), (listing.segment, *numbers)).fetchall()
        fields: dict[int, dict[str, Any]] = {number: {} for number, _, _ in heads}
        if whole:
            found = connection.execute(_FIELDS.format(marks), numbers)
        else:
            found = connection.execute(_HEADS.format(marks), (*numbers, self._unit_field))
        for number, key, *values in found:
            if number in fields:
                fields[number][key] = _value(values)
        for number, key, *values in connection.execute(_LISTS.format(marks), numbers):
            if number in fields:
                fields[number].setdefault(key, [])
                if isinstance(fields[number][key], list):
                    fields[number][key].append(_value(values))
        connection.execute("COMMIT")
        for number, stamp, id in heads:
            own: Mapping[str, Any] = fields[number]
            text = own.get(_TEXT)
            own = {key: value for key, value in own.items() if not key.startswith("chroma:")}
            record = record_of(id, own, text, self._unit_field)
            yield Row(number, stamp, id, unit_of(id, own, self._unit_field), own, record)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            with (
                unobserved(),
                closing(
                    sqlite3.connect(
                        self._database.as_uri() + "?mode=ro",
                        uri=True,
                        timeout=_WAIT_S,
                        isolation_level=None,
                    )
                ) as connection,
            ):
                yield connection
        except sqlite3.Error as error:
            raise CorpusError(
                f"the Chroma database refused or failed ({type(error).__name__}); check that it "
                "is there, and that chromadb is of a version that pyproject.toml names"
            ) from None


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


def _value(values: Iterable[Any]) -> object:
    """The value of a field, which has a column for each kind."""
    text, whole, number, truth = values
    if text is not None:
        return text
    if whole is not None:
        return whole
    return number if number is not None else None if truth is None else bool(truth)
