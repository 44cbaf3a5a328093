"""Contents of a corpus, within one transaction, and its tables: documents under their units.

What is known of keys outlives the documents: a unit that was forgotten is known when it comes back,
and goes on with the budget that it had. Keys stand there as hashes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpicl_rag._unobserved import Private
from dpicl_rag.corpora.passages import CutDocument
from dpicl_rag.errors import CorpusError
from dpicl_rag.files.tables import CheckedTable, FileKind, require_whole
from dpicl_rag.retrieval.stored_record import MetadataFilter, StoredRecord
from dpicl_rag.retrieval.vector_rows import VectorFile

META = CheckedTable("meta", ("name", "value"))
UNIT = CheckedTable("unit", ("number", "name"))
DOCUMENT = CheckedTable("document", ("number", "digest", "unit", "record", "tie", "fields"))
PASSAGE = CheckedTable("passage", ("row", "document", "position", "vector", "text"))
PENDING = CheckedTable("pending", ("row", "unit"))
KEY = CheckedTable("unit_key", ("hash", "unit", "former", "joined_on", "joined_by", "split"))
OFFER = CheckedTable("offer", ("id", "key", "unit"))
PARTED = CheckedTable("parted", ("id", "unit", "former"))
TIE = CheckedTable("tie", ("document", "unit", "name", "keys", "offers", "forgotten"))
SOURCE = CheckedTable("source", ("id", "kind", "spec"))
HELD = CheckedTable("held", ("id", "source", "part", "known_by", "document"))

CORPUS = FileKind(
    noun="corpus",
    holds="its documents",
    error=CorpusError,
    application_id=0x64706372,  # "dpcr"
    version=3,
    schema=(
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT, checksum INTEGER) WITHOUT ROWID",
        # Numbers are not given again: a question that began before knows units by them.
        "CREATE TABLE unit (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, "
        "checksum INTEGER)",
        "CREATE TABLE document (number INTEGER PRIMARY KEY, digest BLOB UNIQUE, unit INTEGER, "
        "record TEXT, tie TEXT, fields TEXT, checksum INTEGER)",
        "CREATE INDEX document_unit ON document (unit)",
        "CREATE INDEX document_record ON document (record) WHERE record <> ''",
        "CREATE INDEX document_tie ON document (tie) WHERE tie <> ''",
        # row: of the file of vectors. vector: checksum of what stands there.
        "CREATE TABLE passage (row INTEGER PRIMARY KEY, document INTEGER, position INTEGER, "
        "vector INTEGER, text TEXT, checksum INTEGER)",
        "CREATE INDEX passage_document ON passage (document)",
        # Units of rows that the file of vectors may not have yet; 0 for a row that went.
        "CREATE TABLE pending (row INTEGER PRIMARY KEY, unit INTEGER, checksum INTEGER)",
        "CREATE TABLE unit_key (hash TEXT PRIMARY KEY, unit TEXT, former TEXT, joined_on TEXT, "
        "joined_by TEXT, split INTEGER, checksum INTEGER) WITHOUT ROWID",
        "CREATE INDEX unit_key_unit ON unit_key (unit)",
        "CREATE INDEX unit_key_former ON unit_key (former) WHERE former <> ''",
        "CREATE TABLE offer (id TEXT PRIMARY KEY, key TEXT, unit TEXT, checksum INTEGER) "
        "WITHOUT ROWID",
        "CREATE INDEX offer_key ON offer (key)",
        "CREATE INDEX offer_unit ON offer (unit)",
        "CREATE TABLE parted (id TEXT PRIMARY KEY, unit TEXT, former TEXT, checksum INTEGER) "
        "WITHOUT ROWID",
        "CREATE TABLE tie (document TEXT PRIMARY KEY, unit TEXT, name TEXT, keys TEXT, "
        "offers TEXT, forgotten INTEGER, checksum INTEGER) WITHOUT ROWID",
        "CREATE INDEX tie_unit ON tie (unit)",
        # Where documents come from, and what was there when it was last looked at.
        "CREATE TABLE source (id TEXT PRIMARY KEY, kind TEXT, spec TEXT, checksum INTEGER) "
        "WITHOUT ROWID",
        "CREATE TABLE held (id TEXT PRIMARY KEY, source TEXT, part TEXT, known_by TEXT, "
        "document TEXT, checksum INTEGER) WITHOUT ROWID",
        "CREATE INDEX held_source ON held (source)",
        "CREATE INDEX held_document ON held (document) WHERE document <> ''",
    ),
    remedy="go on with that version, or delete the file and the one of vectors beside it and "
    "ingest the documents again: which units were joined or forgotten is then not known",
    checked_when_opened=False,  # each row is when it is read, and a large corpus opens at once
    erases=True,
)

_SIZE = "version, dimensions, rows, passages"

Embedded = tuple[CutDocument, npt.NDArray[np.float32]]
"""A document, and the gridded vectors of its passages."""


class Size(NamedTuple):
    """The size of a corpus.

    Attributes:
        version: Another after each transaction.
        dimensions: Length of its vectors; 0 before the first.
        rows: Of the file of vectors that it takes up.
        passages: How many of them are somebody's.
    """

    version: int
    dimensions: int
    rows: int
    passages: int


class StoredDocument(NamedTuple):
    """A row of the table of documents. Private."""

    number: int
    digest: bytes
    unit: int
    record: str
    tie: str
    fields: str


class InTransaction(Private):
    """Some tables of a corpus, within one transaction.

    Args:
        connection: In a transaction; one that writes, for what changes anything.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection


class Contents(InTransaction):
    """The tables of documents. Private."""

    # What is said of the whole.

    def meta(self) -> dict[str, Any]:
        """The corpus's account of itself. Public, but for what is pending."""
        return {name: json.loads(value) for name, value in META.rows(self._connection)}

    def set_meta(self, values: Mapping[str, Any]) -> None:
        """Write what the corpus says of itself; None takes a value away."""
        META.drop(self._connection, "name", [n for n, value in values.items() if value is None])
        kept = [(n, json.dumps(value)) for n, value in values.items() if value is not None]
        META.put(self._connection, kept)

    def begin(self) -> None:
        """Make the size of a corpus that has none, because it was made just now."""
        if not dict(META.among(self._connection, "name", [_SIZE])):
            self.set_meta({_SIZE: Size(0, 0, 0, 0)})

    def renew(self) -> None:
        """The corpus is another from this transaction on."""
        size = self.size()
        self.set_meta({_SIZE: size._replace(version=size.version + 1)})

    def size(self) -> Size:
        """Its version, and how large it is."""
        found: dict[str, str] = dict(META.among(self._connection, "name", [_SIZE]))
        require_whole(found)
        return Size(*json.loads(found[_SIZE]))

    def pending(self) -> dict[int, int]:
        """By row, the number of a unit that the file of vectors may not say yet."""
        return dict(PENDING.rows(self._connection))

    def settled(self) -> None:
        """The file of vectors says all that was pending."""
        self._connection.execute("DELETE FROM pending")

    # Units.

    def units(self, numbers: Iterable[int]) -> dict[int, str]:
        """Names of units by their numbers, of those that are there."""
        return dict(UNIT.among(self._connection, "number", numbers))

    def numbers(self, names: Iterable[str]) -> dict[str, int]:
        """Numbers of the units that have documents, by their names."""
        return {name: number for number, name in UNIT.among(self._connection, "name", names)}

    def names(self) -> dict[int, str]:
        """Names of all units that have documents, by their numbers."""
        return dict(UNIT.rows(self._connection))

    def every_unit(self) -> set[str]:
        """Names of all units that have documents."""
        return {*self.names().values()}

    # Documents.

    def documents(self, column: str, values: Iterable[Any]) -> list[StoredDocument]:
        """Documents that have one of the values in a column; none that are empty."""
        condition = f"{column} <> ''" if column in ("record", "tie") else "1"
        found = DOCUMENT.among(self._connection, column, values, condition)
        return [StoredDocument(*row) for row in found]

    def every_document(self) -> Iterator[StoredDocument]:
        """All documents."""
        return (StoredDocument(*row) for row in DOCUMENT.rows(self._connection))

    def texts(self, documents: Iterable[int]) -> dict[int, list[str]]:
        """By document, the texts of its passages."""
        found: dict[int, list[str]] = {}
        for _, document, _, _, text in PASSAGE.among(self._connection, "document", documents):
            found.setdefault(document, []).append(text)
        return found

    def store(self, documents: Sequence[Embedded], file: VectorFile, free: Sequence[int]) -> None:
        """Add documents that are not there.

        Args:
            documents: With the vectors of their passages.
            file: Where vectors go.
            free: Rows of it that are nobody's.
        """
        size = self.size()
        there = {one.digest for one in self.documents("digest", [d.digest for d, _ in documents])}
        new = [(one, vectors) for one, vectors in documents if one.digest not in there]
        if not new:
            return
        vectors = np.concatenate([vectors for _, vectors in new])
        if size.dimensions and vectors.shape[1] != size.dimensions:
            raise CorpusError("the embedder's vectors have another length than those of the corpus")
        numbers = self._made({one.unit for one, _ in new})
        count = len(vectors)
        unit_numbers = np.array(
            [numbers[one.unit] for one, found in new for _ in found], dtype=np.int64
        )
        reused = np.array(free[:count], dtype=np.int64)
        appended = np.arange(size.rows, size.rows + count - len(reused), dtype=np.int64)
        places = np.concatenate([reused, appended])
        # A row that was there is nobody's for questions that began before, until this is committed.
        units = np.where(np.arange(count) < len(reused), 0, unit_numbers)
        checks = file.write(places, vectors, units).view(np.int64).tolist()
        PENDING.put(
            self._connection,
            zip(reused.tolist(), unit_numbers[: len(reused)].tolist(), strict=True),
        )
        ((first,),) = self._connection.execute(
            "SELECT coalesce(max(number), 0) + 1 FROM document"
        ).fetchall()
        DOCUMENT.put(
            self._connection,
            (
                (first + place, one.digest, numbers[one.unit], one.record, one.tie, one.fields)
                for place, (one, _) in enumerate(new)
            ),
        )
        texts = (
            (first + place, position, text)
            for place, (one, _) in enumerate(new)
            for position, text in enumerate(one.texts)
        )
        PASSAGE.put(
            self._connection,
            (
                (row, document, position, check, text)
                for row, check, (document, position, text) in zip(
                    places.tolist(), checks, texts, strict=True
                )
            ),
        )
        grown = size._replace(
            dimensions=vectors.shape[1],
            rows=size.rows + len(appended),
            passages=size.passages + count,
        )
        self.set_meta({_SIZE: grown})

    def update(self, documents: Iterable[StoredDocument]) -> None:
        """Write what is known of documents beside their passages and their units."""
        DOCUMENT.put(self._connection, documents)

    def move(self, units: Mapping[int, str]) -> None:
        """Give documents to other units, by their names."""
        documents = self.documents("number", units)
        numbers = self._made(set(units.values()))
        DOCUMENT.put(
            self._connection, [d._replace(unit=numbers[units[d.number]]) for d in documents]
        )
        of = {document: numbers[name] for document, name in units.items()}
        rows = list(PASSAGE.among(self._connection, "document", units))
        PENDING.put(self._connection, [(row, of[document]) for row, document, *_ in rows])
        self._drop_empty({document.unit for document in documents})

    def merge(self, merged: Mapping[str, str]) -> None:
        """Give all documents of units to the units that these are part of."""
        numbers = self.numbers(merged)
        into = {number: merged[name] for name, number in numbers.items()}
        self.move({d.number: into[d.unit] for d in self.documents("unit", into)})

    def delete(self, documents: Iterable[StoredDocument]) -> None:
        """Delete documents; their vectors are overwritten after the commit."""
        gone = list(documents)
        numbers = [document.number for document in gone]
        rows = [row for row, *_ in PASSAGE.among(self._connection, "document", numbers)]
        PENDING.put(self._connection, ((row, 0) for row in rows))
        PASSAGE.drop(self._connection, "row", rows)
        size = self.size()
        self.set_meta({_SIZE: size._replace(passages=size.passages - len(rows))})
        DOCUMENT.drop(self._connection, "number", numbers)
        self._drop_empty({document.unit for document in gone})

    def clear(self) -> None:
        """Delete documents, units, sources and the rest; what is known of keys stays."""
        for table in (UNIT, DOCUMENT, PASSAGE, PENDING, SOURCE, HELD):
            self._connection.execute(f"DELETE FROM {table.name}")  # noqa: S608
        # The version goes on: questions of other processes know what they have read by it.
        version = self.size().version
        self._connection.execute("DELETE FROM meta")
        self.set_meta({_SIZE: Size(version, 0, 0, 0)})

    # Passages.

    def records(self, rows: Iterable[int] | None = None) -> dict[int, tuple[StoredRecord, int]]:
        """Passages by their rows, of those that are there, each with its vector's checksum.

        Args:
            rows: All if None.
        """
        everything = rows is None
        passages = list(
            PASSAGE.rows(self._connection)
            if rows is None
            else PASSAGE.among(self._connection, "row", rows)
        )
        wanted = {document for _, document, *_ in passages}
        documents = {
            document.number: (document, json.loads(document.fields))
            for document in (
                self.every_document() if everything else self.documents("number", wanted)
            )
        }
        numbers = {document.unit for document, _ in documents.values()}
        names = self.names() if everything else self.units(numbers)
        records = {}
        for row, number, position, check, text in passages:
            require_whole(number in documents)
            document, fields = documents[number]
            require_whole(document.unit in names)
            id = f"{document.digest.hex()}-{position}"
            records[row] = StoredRecord(id, names[document.unit], text, fields), check
        return records

    def allowed(self, filter: MetadataFilter) -> npt.NDArray[np.int64]:
        """Rows of the passages whose documents' fields pass a filter."""
        # SQLite narrows down what it can; the filter decides.
        equal = [
            (f'$."{name}"', values)
            for name, values in filter.equal.items()
            if '"' not in name and all(isinstance(value, str) for value in values)
        ]
        marks = [f"json_extract(fields, ?) IN ({','.join('?' * len(some))})" for _, some in equal]
        given = [one for path, some in equal for one in (path, *some)]
        documents = DOCUMENT.rows(self._connection, " AND ".join(["1", *marks]), given)
        numbers = np.array(
            [
                document.number
                for document in (StoredDocument(*row) for row in documents)
                if filter.passes(json.loads(document.fields))
            ],
            dtype=np.int64,
        )
        rows = self._connection.execute("SELECT row, document FROM passage")
        both: npt.NDArray[Any] = np.fromiter(rows, dtype=np.dtype((np.int64, 2)))
        found: npt.NDArray[np.int64] = both[np.isin(both[:, 1], numbers), 0]
        return found

    def _made(self, names: Collection[str]) -> dict[str, int]:
        """Numbers of units, which are given to those that have none."""
        there = self.numbers(names)
        new = sorted(set(names).difference(there))
        if new:
            ((last,),) = self._connection.execute(
                "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'unit'"
            ).fetchall()
            made = {name: last + 1 + place for place, name in enumerate(new)}
            UNIT.put(self._connection, ((number, name) for name, number in made.items()))
            there |= made
        return there

    def _drop_empty(self, units: Iterable[int]) -> None:
        """Forget the names of units that have no documents any more."""
        units = set(units)
        left = {document.unit for document in self.documents("unit", units)}
        UNIT.drop(self._connection, "number", units - left)
