"""PDF, office, book and Outlook files: a record per file, or per row of a spreadsheet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from dpicl_rag.loaders.converted_text import converted, converted_text, require_conversions
from dpicl_rag.loaders.file_kinds import FileFormat
from dpicl_rag.loaders.load_report import Skipped
from dpicl_rag.loaders.records import (
    BAD_HEADER,
    MAX_CONVERTED_BYTES,
    LoaderItem,
    Options,
    Record,
    RecordOrSkipped,
    Unparsed,
    UnreadableError,
)
from dpicl_rag.loaders.streams import Stream
from dpicl_rag.loaders.table_files import columns_in, row_of
from dpicl_rag.loaders.text_files import record_of_text


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
