"""Loading: from a path to documents with privacy units, and an account of all that was seen."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from dpicl_rag.conversion import Conversions
from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError, LoaderError
from dpicl_rag.language_models.base import Progress
from dpicl_rag.loaders import parsing, reasons
from dpicl_rag.loaders.columns import (
    column_roles,
    columns_instead,
    require_columns,
    table_options,
    unit_in_words,
)
from dpicl_rag.loaders.framework_documents import (
    FrameworkDocument,
    is_of_framework,
    records_of_framework,
)
from dpicl_rag.loaders.identities import with_units
from dpicl_rag.loaders.mbox import read_mbox
from dpicl_rag.loaders.records import (
    LoaderItem,
    LoadReport,
    LoadResult,
    Options,
    Record,
    RecordOrSkipped,
    Skipped,
    TableHeader,
    Unparsed,
    UnreadableError,
)
from dpicl_rag.loaders.shared_keys import Joins
from dpicl_rag.loaders.sources import (
    CONVERTED,
    SUPPORTED,
    FileFormat,
    SourceFile,
    existing_paths,
    find_sources,
    is_signed,
    shown,
    suffix_of,
    unsupported,
)
from dpicl_rag.loaders.streams import Allowance, Stream, open_stream
from dpicl_rag.loaders.table_files import columns_of, read_csv, read_json, read_jsonl
from dpicl_rag.loaders.text_files import (
    read_converted,
    read_eml,
    read_markup,
    read_rows,
    read_sheet,
    read_text,
)

_CSV, _JSON = (".csv", ".tsv"), (".jsonl", ".ndjson")
_Reader = Callable[[Stream, str, Options], Iterator[LoaderItem]]
# Files that hold many records put their name before each record's position; the others are one.
_MANY: dict[FileFormat, _Reader] = {
    "mbox": read_mbox,
    "csv": read_csv,
    "json": read_json,
    "jsonl": read_jsonl,
}
_ONE: dict[FileFormat, _Reader] = {
    "eml": read_eml,
    "text": read_text,
    "html": partial(read_markup, "html"),
    "calendar": partial(read_markup, "calendar"),
    **{kind: partial(read_converted, kind) for kind in CONVERTED},
    "sheet": read_sheet,
}


def load(
    path: str | Path | Iterable[str | Path] | Iterable[FrameworkDocument],
    *,
    unit: str | None = None,
    text_field: str | None = None,
    key_field: str | None = None,
    header: TableHeader | Literal[False] = None,
    delimiter: str | None = None,
    records: str | None = None,
    joins: Joins = "ask",
    spam: bool = False,
    on_progress: Progress | None = None,
) -> LoadResult:
    """Read documents from a mailbox, a table, a text file or a directory of these.

    Read are mbox, maildir, ``.eml``, CSV and TSV, JSON (an array of objects, or an object per
    line), text and HTML; with the extra ``files`` PDF, Word, PowerPoint, spreadsheets,
    OpenDocument texts, RTF, EPUB and Outlook's ``.msg``, in a process of their own
    (`dpicl_rag.conversion`); each file also compressed as ``.gz``, and directories of any mix of
    them, all the way down. A record that cannot be read is skipped and reported; it never stops the
    load and changes no other record. So are links inside a directory, folders that cannot be
    listed, damaged archives, records beyond 16 MiB and attachments that have no text. Nothing is
    loaded of a mailbox or table beyond 4 GiB, on disk, unpacked or in memory, nor of an archive
    that holds more than 1 GiB and 100 times its size.

    **The unit is what is protected.** Adding or removing one unit is the change that an answer
    hides, so everything that shares a secret belongs to one unit. Messages quote each other: for
    mail the unit is the thread, and thread resolution (``dpicl_rag.loaders.threads``) defines what
    the units are. With ``"sender"`` or ``"document"`` quoted mail is cut from the texts as well as
    it can be, but what a person retells of another's mail is then protected only as the former's.

    Args:
        path: The file or directory, or several of them. Several are one load: threads go over all
            of them, and their order is that of the documents and nothing else. Or documents of
            LangChain or LlamaIndex, whose ``unit`` is to be named: a field of their metadata.
        unit: ``"thread"`` (the default for mail), ``"document"`` (each record by itself; the
            default for the others), ``"sender"`` (the address in From, in lower case), or the name
            of a header or a column. Records without a value for it are skipped. Values that differ
            in blanks, in how letters are composed, or as 5 and 5.0 do, are one.
        text_field: The column that holds the text of a table. By default a column called text,
            body, content or message, else all columns as lines ``name: value``. A spreadsheet is a
            table where this, ``key_field`` or ``unit`` names a column, or ``path`` is it and
            ``header`` is given; else it is one document.
        key_field: The column that names a row, so that an edited row stays the unit that it was.
            By default a column called id, _id, uuid, guid, record_id or row_id. Rows of one value
            are one unit, in whatever table they stand. A row without a key is known by its content:
            edited, it is a new unit beside the old one. A text file is known by where it lies and
            by its content.
        header: Where the names of a table's columns are: the number of a line, ``False`` where they
            are nowhere, or names for a table that has none. By default they are the first row; one
            that looks like a record or a title is refused.
        delimiter: What stands between the fields of CSV, a character of ASCII. By default what is
            most often in the header; without a header a comma.
        records: Where a ``.json`` file is one object, the name of the list in it whose objects are
            the records. Its other fields are not read.
        joins: What becomes of a message that would make more than three conversations one:
            ``"ask"`` skips it and reports it, ``"allow"`` makes them one. As for `Corpus.add`.
        spam: Read what Gmail's archive labels as spam, trash or a draft, too.
        on_progress: Called with the number of records seen so far, and None: after each, and now
            and then while one is parsed. What it raises ends the load.

    Returns:
        Documents and the report. Metadata of mail: subject, from, to, date, message_id, sender,
        thread. Of a row: its columns. Of a text: file. All values are strings; those that a record
        lacks are empty. There may be no documents: no error tells whether somebody is there.

    Raises:
        LoaderError: A path does not exist or cannot be read, or lies in another; it is a file of no
            supported kind, too large, a damaged archive or a damaged JSON array. Inside a
            directory such a file is skipped.
        ConfigurationError: A path is a CSV table whose header lacks the ``unit``, the
            ``text_field`` or the ``key_field``, and the message names the columns; or what is given
            is no path, or ``header`` or ``delimiter`` is none.
    """
    entries: list[RecordOrSkipped] = []

    def tell() -> None:
        if on_progress is not None:
            on_progress(len(entries), None)

    with _children(tell) as (conversions, parser):
        table = table_options(header, delimiter)
        options = Options(unit, text_field, key_field, conversions, parser, *table, spam, records)
        paths, theirs = records_of_framework(path, options)
        items = _items(existing_paths(paths), options) if theirs is None else theirs
        for entry in _with_attachments(parsing.parsed(items, options)):
            entries.append(entry)
            tell()
    read = [entry for entry in entries if isinstance(entry, Record)]
    text, unread, persons = column_roles(read, options)
    if text_field is not None:
        entries = _with_column(entries, text_field, reasons.NO_TEXT_FIELD)
    if key_field is not None:
        entries = _with_column(entries, key_field, reasons.NO_KEY)
    placed, joined = with_units(entries, unit, joins)
    documents = [item for item in placed if isinstance(item, Document)]
    return LoadResult(
        documents,
        LoadReport(
            len(entries),
            len(documents),
            tuple(item for item in placed if isinstance(item, Skipped)),
            joined,
            columns_instead(read, options),
            unit_in_words(read, unit),
            text,
            unread,
            persons,
            sum("\ufffd" in document.text for document in documents),
        ),
    )


def load_mails(
    mails: Iterable[tuple[str, bytes]], unit: str | None = None, joins: Joins = "ask"
) -> tuple[list[Document | Skipped], list[Skipped]]:
    """Messages as `load` makes documents of them.

    Args:
        mails: Where each stands, for the report, and its bytes.
        unit: As for `load`. Threads go over all of them.
        joins: As for `load`.

    Returns:
        Each as a document, or why there is none, in the order given; and the attachments that were
        not read.
    """
    with _children(lambda: None) as (conversions, parser):
        options = Options(unit, conversions=conversions, parser=parser)
        items = [Unparsed(where, "mail", raw) for where, raw in mails]
        read = list(parsing.parsed(items, options))
    unread = [one for entry in read for one in _unread(entry)]
    return with_units(read, unit, joins)[0], unread


@contextmanager
def _children(
    while_waiting: Callable[[], None],
) -> Iterator[tuple[Conversions, Conversions | None]]:
    """Child processes of a load: that which converts files, and that which parses mail and HTML."""
    with Conversions() as conversions, parsing.parser(while_waiting) as parser:
        conversions.while_waiting = while_waiting
        yield conversions, parser


def _items(paths: Sequence[Path], options: Options) -> Iterator[LoaderItem]:
    for path in paths:
        for item in _items_in(path, options):
            # Of several paths a position names its own.
            yield item if len(paths) == 1 else replace(item, position=_within(path, item))


def _with_attachments(entries: Iterable[RecordOrSkipped]) -> Iterator[RecordOrSkipped]:
    """The entries, and behind each message the attachments that were not read."""
    for entry in entries:
        yield entry
        yield from _unread(entry)


def _unread(entry: RecordOrSkipped) -> Iterator[Skipped]:
    if isinstance(entry, Record):
        for attachment in entry.unread:
            yield replace(attachment, position=f"{entry.position}, {attachment.position}")


def _within(path: Path, entry: LoaderItem) -> str:
    whole = not path.is_dir() and entry.position == shown(Path(path.name))
    return shown(path) if whole else f"{shown(path)}: {entry.position}"


def _items_in(path: Path, options: Options) -> Iterator[LoaderItem]:
    for source in find_sources(path):
        if isinstance(source, Skipped):
            yield source
            continue
        try:
            items = _items_of(source, options)
            # Of what is skipped inside a folder no part is loaded.
            yield from items if source.folder is None else list(items)
        except UnreadableError as error:
            if source.folder is None:  # it was asked for by its name
                known = f"; supported: {SUPPORTED}" if source.kind is None else ""
                raise LoaderError(f"{shown(path)}: {error}{error.hint}{known}") from None
            yield Skipped(source.name, str(error))


def _items_of(source: SourceFile, options: Options) -> Iterator[LoaderItem]:
    if source.kind is None:
        raise UnreadableError(unsupported(source.path.name))
    path = os.fsencode(source.path.resolve())
    said = options.names_column or (options.header is not None and source.folder is None)
    as_rows = source.kind == "sheet" and said
    if source.kind in _ONE and not as_rows:
        exact = {"file": source.exact} if source.exact else {}
        file = re.sub(rb"(?i)\.gz$", b"", path).hex()  # packed or not it is the same text
        with _reasons(), open_stream(source.path) as stream:
            items = list(_ONE[source.kind](stream, source.name, options))
        for item in items:
            if not isinstance(item, Skipped):
                item = replace(item, file=file, exact={**exact, **item.exact})
            yield item
        return
    file, prefix = path.hex(), f"{source.name}: " if source.folder else ""
    with _reasons():
        allowance = Allowance(source.path)
        if source.kind == "csv" and source.folder is None:
            with open_stream(source.path) as stream:
                require_columns(columns_of(stream, options), options)
        with open_stream(source.path) as stream:
            # The first row of a table is public, so it may decide; a line of JSON may not.
            if source.kind == "csv" and is_signed(stream.peek()):
                raise UnreadableError(reasons.BINARY)
            read = read_rows if as_rows else _MANY[source.kind]
            for entry in parsing.parsed(read(stream, prefix, options), options):
                allowance.take(entry)
                if isinstance(entry, Record):
                    entry = replace(entry, file=file + entry.file)
                yield entry


@contextmanager
def _reasons() -> Iterator[None]:
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise UnreadableError(reasons.DAMAGED) from None
    except OSError:
        raise UnreadableError(reasons.UNREADABLE_FILE) from None


def _with_column(entries: list[RecordOrSkipped], name: str, reason: str) -> list[RecordOrSkipped]:
    """Skip the rows of tables that lack a value in a column; mail and texts need none."""
    return [
        Skipped(entry.position, reason)
        if isinstance(entry, Record) and entry.is_row and not entry.metadata.get(name)
        else entry
        for entry in entries
    ]


def framework_documents_as_ours(items: Iterable[Any], unit: str | None) -> Iterator[Any]:
    """Documents of frameworks as `load` makes them, for a corpus; other items as they are.

    Raises:
        ConfigurationError: A document has no text or no value for the unit, or no unit was named;
            or one was, for documents that have theirs.
    """
    for are_theirs, some in groupby(items, is_of_framework):
        part = list(some)
        if not are_theirs:
            if unit is not None:
                raise ConfigurationError(
                    "unit= names the field of documents of LangChain and LlamaIndex; leave it out "
                    "for texts and Documents, which have their units"
                )
            yield from part
            continue
        loaded = load(part, unit=unit)
        if loaded.report.skipped:
            first = loaded.report.skipped[0]
            raise ConfigurationError(
                f"{len(loaded.report.skipped)} of the documents lack their text or the field "
                f"{unit!r}: {first.position}: {first.reason}; add(load(documents, "
                f"unit={unit!r}).documents) leaves them out"
            )
        yield from loaded.documents


def load_private_table(
    path: str | Path,
    columns: Iterable[str],
    *,
    unit: str = "document",
    text_field: str | None = None,
) -> list[Document]:
    """Rows of a private table as documents, each with its columns as metadata, for a release.

    A release is public, and so is every error before it. What is refused follows from the path, the
    name of the file and the first row of a CSV table, which names its columns. JSON Lines have no
    such row: a column that nobody has a value in is empty, and what is released of it is noise. A
    row that cannot be read, or has no value for the unit, is left out. A table
    without any is empty, as it would be had that row never come.

    Args:
        path: A CSV or JSON Lines file, which may be compressed as ``.gz``.
        columns: Public names of those that are needed.
        unit: As for ``load``.
        text_field: As for ``load``.

    Raises:
        LoaderError: There is no such file, it cannot be opened, or it is no table by its name.
        ConfigurationError: A CSV table has no such column by its first row.
    """
    check_private_table(path, columns, unit=unit)
    return load(Path(path), unit=unit, text_field=text_field, header=1).documents


def check_private_table(path: str | Path, columns: Iterable[str], *, unit: str) -> None:
    """Refuse all that `load_private_table` refuses; no row but a CSV table's first one is read.

    Arguments and errors as there.
    """
    file = Path(path)
    suffix = suffix_of(file.name)
    if suffix not in (*_CSV, *_JSON):
        raise LoaderError(
            f"{file} is no table by its name; give a file that ends in "
            f"{', '.join((*_CSV, *_JSON))}, or in one of these and .gz"
        )
    if not file.is_file():
        raise LoaderError(f"{file} does not exist, or is no file")
    if suffix in _CSV:
        _require_columns(file, [*columns, *({unit} - {"document"})])


def _require_columns(file: Path, wanted: Sequence[str]) -> None:
    try:
        with open_stream(file) as stream:
            present = columns_of(stream, Options(header=1))
    except (OSError, EOFError, zlib.error) as error:
        reason = isinstance(error, OSError) and error.strerror
        raise LoaderError(f"{file} cannot be read: {reason or 'it is damaged'}") from None
    if not present:
        raise ConfigurationError(
            f"{file} is empty, or its first row cannot be read; begin it with a row that names the "
            f"columns: {','.join(wanted)}"
        )
    for name in wanted:
        if name not in present:
            raise ConfigurationError(
                f"the table has no column {name!r}; name one that stands in its first row"
            )
