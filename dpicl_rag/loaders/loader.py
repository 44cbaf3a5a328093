"""Loading: from a path to documents with privacy units, and an account of all that was seen."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from dpicl_rag.documents import THREAD_OR_DOCUMENT, Document, Origin
from dpicl_rag.errors import ConfigurationError, LoaderError
from dpicl_rag.identity import name_key
from dpicl_rag.loaders.limits import FileTooLargeError, allowance, weight
from dpicl_rag.loaders.mbox import read_mbox
from dpicl_rag.loaders.records import (
    DAMAGED,
    FILE_TOO_LARGE,
    NO_KEY,
    NO_TEXT_FIELD,
    NO_UNIT,
    UNSUPPORTED,
    Entry,
    Options,
    Record,
)
from dpicl_rag.loaders.report import LoadReport, LoadResult, Skipped
from dpicl_rag.loaders.sources import SUPPORTED, Kind, Source, Stream, find_sources, open_stream
from dpicl_rag.loaders.tables import read_csv, read_jsonl
from dpicl_rag.loaders.text import read_eml, read_html, read_text
from dpicl_rag.loaders.threads import thread_ids, thread_keys

_Reader = Callable[[Stream, str, Options], Iterator[Entry]]
# Files that hold many records put their name before each record's position; the others are one.
_MANY: dict[Kind, _Reader] = {"mbox": read_mbox, "csv": read_csv, "jsonl": read_jsonl}
_ONE: dict[Kind, _Reader] = {"eml": read_eml, "text": read_text, "html": read_html}
_NAMES_IN_ERROR = 30
_NAME_LENGTH = 40


def load(
    path: str | Path,
    *,
    unit: str | None = None,
    text_field: str | None = None,
    key_field: str | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> LoadResult:
    """Read documents from a mailbox, a table, a text file or a directory of these.

    Read are mbox, maildir, ``.eml``, CSV and TSV, JSON Lines, text and HTML, each file also
    compressed as ``.gz``, and directories of any mix of them, all the way down. A record that
    cannot be read is skipped and reported; it never stops the load. So are links inside a
    directory, records beyond 16 MiB, and what a file takes beyond 128 MiB and 100 times its size
    when it is unpacked and read.

    **The unit is what is protected.** Adding or removing one unit is the change that an answer
    hides, so everything that shares a secret belongs to one unit. Messages quote each other: for
    mail the unit is the thread, and thread resolution (``dpicl_rag.loaders.threads``) defines what
    the units are. With ``"sender"`` or ``"document"`` quoted mail is cut from the texts as well as
    it can be, but what a person retells of another's mail is then protected only as the former's.

    Args:
        path: The file or directory.
        unit: ``"thread"`` (the default for mail), ``"document"`` (each record by itself; the
            default for the others), ``"sender"`` (the address in From, in lower case), or the name
            of a header or a column. Records without a value for it are skipped.
        text_field: The column that holds the text of a table. By default a column called text,
            body, content or message, else all columns as lines ``name: value``.
        key_field: The column that names a row, so that an edited row stays the unit that it was.
            By default a column called id, _id, uuid, guid, record_id or row_id. Rows of one value
            are one unit, in whatever table they stand. A row without a key is known by its content:
            edited, it is a new unit beside the old one.
        on_progress: Called with the number of records seen so far, after each.

    Returns:
        Documents and the report. Metadata of mail: subject, from, to, date, message_id, sender,
        thread. Of a row: its columns. Of a text: file. All values are strings; those that a record
        lacks are empty.

    Raises:
        LoaderError: The path does not exist, cannot be read, is of no supported kind, or not one
            record of it could be read.
        ConfigurationError: No record has a value for the ``unit``, the ``text_field`` or the
            ``key_field``; the message names the fields that there are.
    """
    options = Options(unit, text_field, key_field)
    entries: list[Entry] = []
    for entry in _entries(_existing(Path(path)), options):
        entries.append(entry)
        if on_progress is not None:
            on_progress(len(entries))
    if not entries:
        raise LoaderError(f"{path} holds no records; supported: {SUPPORTED}")
    if text_field is not None:
        entries = _with_column(entries, "text field", text_field, NO_TEXT_FIELD)
    if key_field is not None:
        entries = _with_column(entries, "key field", key_field, NO_KEY)
    placed = _with_units(_with_threads(entries), unit)
    documents = [item for item in placed if isinstance(item, Document)]
    skipped = tuple(item for item in placed if isinstance(item, Skipped))
    if not documents:
        first = skipped[0]
        where = f" ({first.position})" if first.position else ""
        raise LoaderError(
            f"none of the {len(skipped)} records in {path} can be read; "
            f"the first{where}: {first.reason}; supported: {SUPPORTED}"
        )
    return LoadResult(documents, LoadReport(len(entries), len(documents), skipped))


def _existing(path: Path) -> Path:
    try:
        if path.is_dir():
            next(path.iterdir(), None)
        elif path.is_file():
            path.open("rb").close()
        else:
            raise LoaderError(f"{path} does not exist, or is neither a file nor a directory")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no valid path"
        raise LoaderError(f"{path} cannot be read: {reason}") from None
    return path


def _entries(path: Path, options: Options) -> Iterator[Entry]:
    for source in find_sources(path):
        if isinstance(source, Skipped):
            yield source
        else:
            yield from _entries_of(source, options)


def _entries_of(source: Source, options: Options) -> Iterator[Entry]:
    name = source.name or source.path.name
    if source.kind is None:
        yield Skipped(name, UNSUPPORTED)
        return
    if source.kind in _ONE:
        reader, prefix = _ONE[source.kind], name
    else:
        reader, prefix = _MANY[source.kind], f"{source.name}: " if source.name else ""
    file = os.fsencode(source.path.resolve()).hex()
    count = 0
    try:
        left = allowance(source.path)
        with open_stream(source.path) as stream:
            for entry in reader(stream, prefix, options):
                left -= weight(entry)
                if left < 0:
                    raise FileTooLargeError
                count += 1
                yield replace(entry, file=file) if isinstance(entry, Record) else entry
    except (OSError, EOFError, zlib.error, FileTooLargeError) as error:
        # A damaged archive, or a file that may not be read. What came before it is kept.
        reason = FILE_TOO_LARGE if isinstance(error, FileTooLargeError) else DAMAGED
        yield Skipped(f"{name}, after record {count}" if count else name, reason)


def _with_column(entries: list[Entry], what: str, name: str, reason: str) -> list[Entry]:
    """Skip the rows of tables that lack a value in a column; mail and texts need none."""
    rows = [entry for entry in entries if isinstance(entry, Record) and not entry.identity]
    if not any(row.metadata.get(name) for row in rows):
        raise _missing(what, name, rows)
    return [
        Skipped(entry.position, reason)
        if isinstance(entry, Record) and not entry.identity and not entry.metadata.get(name)
        else entry
        for entry in entries
    ]


def _with_threads(entries: list[Entry]) -> list[Entry]:
    keys = [entry.thread for entry in entries if isinstance(entry, Record) and entry.thread]
    threads = iter(thread_ids(keys))
    return [
        replace(entry, metadata={**entry.metadata, "thread": next(threads)})
        if isinstance(entry, Record) and entry.thread
        else entry
        for entry in entries
    ]


def _with_units(entries: Iterable[Entry], unit: str | None) -> list[Document | Skipped]:
    placed: list[Document | Skipped] = []
    records: list[Record] = []
    seen: Counter[str] = Counter()
    for entry in entries:
        if isinstance(entry, Skipped):
            placed.append(entry)
            continue
        records.append(entry)
        natural = "thread" if entry.thread else "document"
        name = unit or natural
        value = entry.metadata.get(name, "")
        keys: tuple[str, ...] = ()
        if name == "document":
            value, *others = _identities(entry, seen)
            keys = tuple(map(name_key, others))
        elif entry.thread and name == "thread":
            keys = thread_keys(entry.thread)
        if value:
            chosen = THREAD_OR_DOCUMENT if name == natural else name
            origin = Origin(chosen, keys, _record_name(entry, seen))
            placed.append(Document(entry.text, value, entry.metadata, origin))
        else:
            placed.append(Skipped(entry.position, NO_UNIT))
    if unit and records and not any(isinstance(item, Document) for item in placed):
        raise _missing("privacy unit", unit, records)
    return placed


def _identities(record: Record, seen: Counter[str]) -> list[str]:
    """Names for a record that is a unit by itself, which no other record has a part in.

    Messages and files have one; a row is known by its key. Without one it is known by its content
    and by how many equal rows came before it, as in ``as_documents``: its place in the file would
    be another's after a row came or went above it. A row with a key has that name as well, for it
    may have been read before anyone said which column is the key.
    """
    if record.identity:
        return [_digest(record.identity)]
    content = _digest(json.dumps([record.text, dict(record.metadata)], sort_keys=True))
    seen[content] += 1
    by_content = f"{content}-{seen[content]}"
    return [_digest(f"row {record.key}"), by_content] if record.key else [by_content]


def _record_name(record: Record, seen: Counter[str]) -> str:
    """A name for what takes the place of what was read before; empty where nothing does.

    That is a text file, or a row with a key, of the very same file: two tables may use the same
    keys for different things. Messages do not change.
    """
    if record.thread or not (record.identity or record.key):
        return ""
    name = _digest(f"{record.file}\n{record.identity or record.key}")
    seen[name] += 1
    return f"{name}-{seen[name]}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _missing(what: str, name: str, records: Iterable[Record]) -> ConfigurationError:
    found: dict[str, None] = {}
    for record in records:
        found.update(dict.fromkeys(record.fields or record.metadata))
    # A table without a header row shows its first row here, so long names are shortened.
    names = [repr(field[:_NAME_LENGTH]) for field in found][:_NAMES_IN_ERROR]
    there = f"there are: {', '.join(names)}" if names else "the source has no named fields"
    return ConfigurationError(f"no record has a value for the {what} {name!r}; {there}")
