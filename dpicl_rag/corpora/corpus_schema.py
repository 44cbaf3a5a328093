"""Tables of a corpus: passages, documents and units, and by which keys the units are known.

What is known of keys outlives the documents: a unit that was forgotten is known when it comes back,
and goes on with the budget that it had. Keys stand there as hashes.
"""

from __future__ import annotations

from dpicl_rag.errors import CorpusError
from dpicl_rag.files.checked_table import CheckedTable
from dpicl_rag.files.database import FileKind

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
