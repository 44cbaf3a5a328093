"""Files of one text: plain, HTML, one message, and what is converted (PDF, office, book, Outlook).

Each is one record; of a spreadsheet that is a table each row is one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace

from dpicl_rag.conversion import Conversions, NotConvertedError
from dpicl_rag.conversion.conversions import REASONS, Outcome, is_installed
from dpicl_rag.loaders.characters import decode, fingerprint
from dpicl_rag.loaders.records import (
    BAD_HEADER,
    BINARY,
    EMPTY,
    FILE_TOO_LARGE,
    MAX_CONVERTED_BYTES,
    MAX_RECORD_BYTES,
    NOT_CONVERTED,
    NOT_HERE,
    TOO_LARGE,
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


def read_text(stream: Stream, name: str, options: Options) -> Iterator[RecordOrSkipped]:
    """Read a text file, which is one record."""
    raw = stream.read(MAX_RECORD_BYTES + 1)
    if reason := _refused(raw):
        yield Skipped(name, reason)
    else:
        yield record_of_text(tidy(decode(raw)), raw, name)


def read_html(stream: Stream, name: str, options: Options) -> Iterator[LoaderItem]:
    """Read an HTML file as ``read_text`` does, as the text that a reader sees."""
    raw = stream.read(MAX_RECORD_BYTES + 1)
    reason = _refused(raw)
    yield Skipped(name, reason) if reason else Unparsed(name, "html", raw)


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
        return Skipped(name, EMPTY)
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


def read_rows(stream: Stream, prefix: str, options: Options) -> Iterator[RecordOrSkipped]:
    """Read a spreadsheet whose sheets are tables: the first row of each names its columns.

    Args:
        stream: The file.
        prefix: Put before each position.
        options: As in ``load``.

    Yields:
        A record for each row that is not blank, or why there is none.

    Raises:
        UnreadableError: Nothing of the file can be read.
    """
    conversions = require_conversions("sheet", options)
    sheets = converted("rows", stream.read(MAX_CONVERTED_BYTES + 1), conversions)
    for number, sheet in enumerate(json.loads(sheets), 1):
        if not sheet:
            continue
        (_, header), *rows = sheet
        columns = columns_in(header)
        if not columns:
            yield Skipped(f"{prefix}sheet {number}", BAD_HEADER)
            continue
        for row, cells in rows:
            entry = row_of(columns, cells, f"{prefix}sheet {number}, row {row}", options)
            if number > 1 and isinstance(entry, Record):  # each sheet is a table of its own
                entry = replace(entry, file=f" {number}")
            yield entry


def require_conversions(kind: FileFormat, options: Options) -> Conversions:
    """The converter of files of a kind.

    Raises:
        UnreadableError: Nothing does, whatever the file.
    """
    if options.conversions is None or not is_installed(kind):
        raise UnreadableError(NOT_CONVERTED)
    if not hasattr(os, "fork"):
        raise UnreadableError(NOT_HERE)
    return options.conversions


def converted(kind: str, content: bytes, conversions: Conversions) -> bytes:
    """The content of a file, as its reader gives it.

    Raises:
        UnreadableError: Nothing of it can be read, or it is too large.
    """
    if len(content) > MAX_CONVERTED_BYTES:
        raise UnreadableError(FILE_TOO_LARGE)
    try:
        return conversions.convert(kind, content)
    except NotConvertedError as error:
        raise UnreadableError(str(error)) from None


def converted_text(kind: str, content: bytes, conversions: Conversions) -> str:
    """The text of a file.

    Raises:
        UnreadableError: As `converted`, or it has none.
    """
    told = converted(kind, content, conversions).decode("utf-8", "replace")
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
        return TOO_LARGE
    return BINARY if is_binary(raw) else ""
