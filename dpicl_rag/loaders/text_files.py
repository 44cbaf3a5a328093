"""Files of one text: plain, HTML, one message, and what is converted (PDF, office, book, Outlook).

Each is one record; of a spreadsheet that is a table each row is one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from dpicl_rag.conversion import Conversions, NotConvertedError
from dpicl_rag.conversion.conversions import REASONS, Outcome, is_installed, row_in_words
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.loaders import reasons
from dpicl_rag.loaders.characters import decode, fingerprint
from dpicl_rag.loaders.columns import (
    header_hint,
    header_line,
    is_doubtful,
    named,
    numbered,
    persons_of,
    require_columns,
    until_blank,
)
from dpicl_rag.loaders.records import (
    MAX_CONVERTED_BYTES,
    MAX_RECORD_BYTES,
    LoaderItem,
    Options,
    Record,
    RecordOrSkipped,
    Skipped,
    Unparsed,
    UnreadableError,
    tidy,
)
from dpicl_rag.loaders.sources import FileFormat, is_binary
from dpicl_rag.loaders.streams import Stream
from dpicl_rag.loaders.table_files import columns_in, row_of

NO_TEXT = REASONS[Outcome.NO_TEXT]

_EMLX = re.compile(rb"\s*(\d{1,9})[ \t]*\r?\n")
_GAP = re.compile(r"(?<=\S) {3,}")
_SHORTEST_RULE = "-----"
_FEWEST_COLUMNS = 2  # of a sheet that is a table

SheetRow = tuple[int, list[str]]
"""A row's number and its cells."""


def read_text(stream: Stream, name: str, options: Options) -> Iterator[RecordOrSkipped]:
    """Read a text file, which is one record."""
    raw = stream.read(MAX_RECORD_BYTES + 1)
    if reason := _refused(raw):
        yield Skipped(name, reason)
    else:
        yield record_of_text(tidy(decode(raw)), raw, name)


def read_markup(
    kind: Literal["html", "calendar"], stream: Stream, name: str, options: Options
) -> Iterator[LoaderItem]:
    """Read an HTML file or a calendar as ``read_text`` does, as the text that a reader sees."""
    raw = stream.read(MAX_RECORD_BYTES + 1)
    reason = _refused(raw)
    yield Skipped(name, reason) if reason else Unparsed(name, kind, raw)


def read_eml(stream: Stream, name: str, options: Options) -> Iterator[LoaderItem]:
    """Read a file that holds one message, also one of Apple Mail.

    There a line with the message's length stands before it, and what the program notes behind it.
    """
    raw = stream.read(MAX_RECORD_BYTES + 1)
    if length := _EMLX.match(raw):
        raw = raw[length.end() :][: int(length[1])]
    yield Unparsed(name, "mail", raw)


def record_of_text(text: str, raw: bytes, name: str) -> RecordOrSkipped:
    """A record of a file that is one text, or why there is none."""
    if not text:
        return Skipped(name, reasons.EMPTY)
    return Record(name, text, {"file": name}, content=fingerprint(raw))


def read_converted(
    kind: FileFormat, stream: Stream, name: str, options: Options
) -> Iterator[LoaderItem]:
    """Read a file that is one record. What cannot be read of it is skipped with its reason.

    Raises:
        UnreadableError: Files of this kind are not read here.
    """
    conversions = require_conversions(kind, options)
    raw = stream.read(MAX_CONVERTED_BYTES + 1)
    try:
        if kind == "msg":
            yield Unparsed(name, "mail", converted(kind, raw, conversions))
        else:
            yield record_of_text(converted_text(kind, raw, conversions), raw, name)
    except UnreadableError as error:
        yield Skipped(name, str(error))


def read_sheet(stream: Stream, name: str, options: Options) -> Iterator[RecordOrSkipped]:
    """Read a spreadsheet that is one record, and its columns: one of them may be the unit."""
    conversions = require_conversions("sheet", options)
    raw = stream.read(MAX_CONVERTED_BYTES + 1)
    try:
        book = json.loads(converted("rows", raw, conversions))
        sheets = ("\n".join(row_in_words(cells) for _, cells in rows) for rows in book["sheets"])
        record = record_of_text(_text_of("\n\n".join(filter(None, sheets))), raw, name)
    except UnreadableError as error:
        yield Skipped(name, str(error))
        return
    if isinstance(record, Record):
        persons: dict[str, None] = {}
        for rows in book["sheets"]:
            persons.update(dict.fromkeys(_persons_in(rows)))
        record = replace(record, persons=tuple(persons))
    yield record
    if book["unsaved"]:
        yield Skipped(name, reasons.UNSAVED)


def _persons_in(rows: Sequence[SheetRow]) -> Sequence[str]:
    """The columns of persons of a sheet, whichever row names its columns, and where none does."""
    below = [(number, until_blank(cells)) for number, cells in rows]
    columns = numbered(max((len(cells) for _, cells in below), default=0))
    start = header_line(below)
    if below and len(first := below[0][1]) >= _FEWEST_COLUMNS and not is_doubtful(first):
        start = below[0][0]
    if start is not None:
        (_, header), *below = (row for row in below if row[0] >= start)
        columns = named(header)
    if not below or len(columns) < _FEWEST_COLUMNS:
        return ()
    return persons_of(columns, [dict(zip(columns, row, strict=False)) for _, row in below])


def read_rows(stream: Stream, prefix: str, options: Options) -> Iterator[RecordOrSkipped]:
    """Read a spreadsheet whose sheets are tables: the first row of each names its columns.

    Yields:
        A record for each row that is not blank, or why there is none.

    Raises:
        UnreadableError: Nothing of the file can be read, or no sheet has the columns asked for.
    """
    conversions = require_conversions("sheet", options)
    book = json.loads(converted("rows", stream.read(MAX_CONVERTED_BYTES + 1), conversions))
    tables: list[tuple[int, list[str], Sequence[SheetRow]]] = []
    refused: list[Skipped] = []
    for number, rows in enumerate(book["sheets"], 1):
        try:
            tables += [(number, *_table_in(rows, options))] if rows else []
        except UnreadableError as error:
            refused.append(Skipped(f"{prefix}sheet {number}", str(error)))
    if refused and not tables:
        raise UnreadableError(refused[0].reason)
    yield from refused
    for number, columns, rows in tables:
        for row, cells in rows:
            names = columns or numbered(len(cells))
            entry = row_of(names, cells, f"{prefix}sheet {number}, row {row}", options)
            if number > 1 and isinstance(entry, Record):  # each sheet is a table of its own
                entry = replace(entry, file=f" {number}")
            yield entry
    if book["unsaved"]:
        yield Skipped(f"{prefix}formulas", reasons.UNSAVED)


def _table_in(rows: Sequence[SheetRow], options: Options) -> tuple[list[str], Sequence[SheetRow]]:
    """The columns of a sheet, and the rows below their names.

    Raises:
        UnreadableError: They cannot be read, or lack one that was asked for. For the owner it says
            which row may name them.
    """
    columns = options.given
    if options.has_header:
        start = options.header if isinstance(options.header, int) else 1
        (_, header), *rows = [row for row in rows if row[0] >= start] or [(start, [])]
        try:
            columns = columns_in(header, options)
        except UnreadableError as error:
            hint = header_hint((number, until_blank(cells)) for number, cells in rows)
            raise UnreadableError(f"{error}{hint}") from None
        if not columns:
            raise UnreadableError(reasons.BAD_HEADER)
    try:
        require_columns(columns, options)
    except ConfigurationError as error:
        raise UnreadableError(str(error)) from None
    return columns, rows


def require_conversions(kind: FileFormat, options: Options) -> Conversions:
    """The converter of files of a kind.

    Raises:
        UnreadableError: Nothing does, whatever the file.
    """
    if options.conversions is None or not is_installed(kind):
        raise UnreadableError(reasons.NOT_CONVERTED)
    if not hasattr(os, "fork"):
        raise UnreadableError(reasons.NOT_HERE)
    return options.conversions


def converted(kind: str, content: bytes, conversions: Conversions) -> bytes:
    """The content of a file, as its reader gives it.

    Raises:
        UnreadableError: Nothing of it can be read, or it is too large.
    """
    if len(content) > MAX_CONVERTED_BYTES:
        raise UnreadableError(reasons.FILE_TOO_LARGE)
    try:
        return conversions.convert(kind, content)
    except NotConvertedError as error:
        raise UnreadableError(str(error)) from None


def converted_text(kind: str, content: bytes, conversions: Conversions) -> str:
    """The text of a file.

    Raises:
        UnreadableError: As `converted`, or it has none.
    """
    return _text_of(converted(kind, content, conversions).decode("utf-8", "replace"))


def _text_of(told: str) -> str:
    # Tables come with rules and in columns as wide as their longest cell.
    lines = (_GAP.sub("  ", line) for line in told.splitlines() if not _is_rule(line))
    text = tidy("\n".join(lines))
    if not text:
        raise UnreadableError(NO_TEXT)
    return text


def _is_rule(line: str) -> bool:
    return _SHORTEST_RULE in line and not line.strip(" -")


def _refused(raw: bytes) -> str:
    if len(raw) > MAX_RECORD_BYTES:
        return reasons.TOO_LARGE
    return reasons.BINARY if is_binary(raw) else ""
