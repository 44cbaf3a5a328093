"""Tables: CSV and JSON Lines, a record per row."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping

from dpicl_rag.loaders.records import (
    EMPTY,
    MAX_FIELDS,
    MAX_RECORD_BYTES,
    NESTED,
    NOT_AN_OBJECT,
    NOT_CSV,
    NOT_JSON,
    TOO_LARGE,
    TOO_MANY_COLUMNS,
    TOO_MANY_FIELDS,
    UNCLOSED_QUOTE,
    Entry,
    Options,
    Record,
    clean,
    tidy,
)
from dpicl_rag.loaders.report import Skipped
from dpicl_rag.loaders.sources import Stream, decode, lines_of

# A column that is called so is the text. "request" and the like are not among them: in a record of
# several fields such a column is one part of what there is to know.
_TEXT_FIELDS = ("text", "body", "content", "message")
# A column that is called so names the row. "key" and "name" do not: many rows may share them.
_KEY_FIELDS = ("id", "_id", "uuid", "guid", "record_id", "row_id")
_DELIMITERS = ",;\t|"
_SAMPLE_LINES = 20
_SAMPLE_CHARACTERS = 4_000


def read_csv(stream: Stream, prefix: str, options: Options) -> Iterator[Entry]:
    """Read a table whose first row names the columns; the delimiter is found out.

    Args:
        stream: The table, decompressed.
        prefix: Put before each position.
        options: As in ``load``.

    Yields:
        A record for each row that is not blank, or why there is none. A row with fewer fields than
        columns has empty ones; one with more is skipped, for it is likely cut in the wrong places.
    """
    limit = csv.field_size_limit(MAX_RECORD_BYTES)
    try:
        yield from _csv_rows(_Lines(stream), prefix, options)
    finally:
        csv.field_size_limit(limit)


def read_jsonl(stream: Stream, prefix: str, options: Options) -> Iterator[Entry]:
    """Read a file of one JSON object per line. Arguments and yields as ``read_csv``."""
    number = 0
    for pieces in _whole_lines(lines_of(stream)):
        number += 1
        position = f"{prefix}line {number}"
        if len(pieces) > 1:
            yield Skipped(position, TOO_LARGE)
            continue
        line = decode(pieces[0]).strip()
        if not line:
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                yield Skipped(position, NOT_AN_OBJECT)
                continue
            fields = dict(zip(_names(row), map(_as_text, row.values()), strict=True))
        except ValueError:
            yield Skipped(position, NOT_JSON)
            continue
        except RecursionError:
            yield Skipped(position, NESTED)
            continue
        yield _record(fields, position, options)


def _csv_rows(lines: _Lines, prefix: str, options: Options) -> Iterator[Entry]:
    reader = csv.reader(lines, delimiter=_delimiter(lines.sample))
    columns: list[str] = []
    number = 0
    while True:
        lines.start_row()
        try:
            row = next(reader)
        except StopIteration:
            return
        except (csv.Error, _RowTooLargeError) as error:
            number += 1
            reason = NOT_CSV if isinstance(error, csv.Error) else TOO_LARGE
            yield Skipped(f"{prefix}row {number} (line {lines.row_start})", reason)
            continue
        if not columns:
            columns = _names(row)
            continue
        if not row:
            continue
        number += 1
        position = f"{prefix}row {number} (line {lines.row_start})"
        if lines.ended and lines.quotes % 2:
            yield Skipped(position, UNCLOSED_QUOTE)
        elif len(row) > len(columns):
            yield Skipped(position, TOO_MANY_FIELDS)
        else:
            pairs = itertools.zip_longest(columns, row, fillvalue="")
            yield _record({name: tidy(value) for name, value in pairs}, position, options)


def _record(fields: Mapping[str, str], position: str, options: Options) -> Entry:
    if not any(fields.values()):
        return Skipped(position, EMPTY)
    if len(fields) > MAX_FIELDS:
        return Skipped(position, TOO_MANY_COLUMNS)
    name = options.text_field or _first(fields, _TEXT_FIELDS)
    key_field = options.key_field or _first(fields, _KEY_FIELDS)
    key = f"{key_field.lower()} {fields[key_field]}" if key_field and fields.get(key_field) else ""
    if name is None:
        text = "\n".join(f"{field}: {value}" for field, value in fields.items() if value)
    else:
        # Without its text, a row still tells the loader which names there are.
        text = fields.get(name, "")
    return Record(position, text, fields, key=key)


def _names(columns: Iterable[str]) -> list[str]:
    """Names of columns. One without gets a number: no database takes an empty name."""
    return [clean(name).strip() or f"column {at}" for at, name in enumerate(columns, 1)]


def _first(fields: Mapping[str, str], names: Iterable[str]) -> str | None:
    """The field that has the first of these names and a value, whatever its case."""
    by_name = {field.lower(): field for field in fields if fields[field]}
    return next((by_name[name] for name in names if name in by_name), None)


def _as_text(value: object) -> str:
    """A JSON value in words: strings as they are, a list's items separated by commas."""
    if value is None:
        return ""
    if isinstance(value, str):
        return tidy(value)
    if isinstance(value, list):
        return ", ".join(item for item in map(_as_text, value) if item)
    return clean(json.dumps(value, ensure_ascii=False))


def _whole_lines(pieces: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Put the pieces of an over-long line together, keeping none but the first two."""
    line: list[bytes] = []
    for piece in pieces:
        if len(line) < 2:
            line.append(piece)
        if piece.endswith(b"\n"):
            yield line
            line = []
    if line:
        yield line


def _delimiter(sample: str) -> str:
    """The delimiter of a table. Only one that stands in the first line is believed."""
    header = sample.partition("\n")[0]
    try:
        found = csv.Sniffer().sniff(sample, _DELIMITERS).delimiter
    except csv.Error:
        found = ""
    if found and found in header:
        return found
    return max(_DELIMITERS, key=header.count)


class _RowTooLargeError(Exception):
    """A row is larger than a record may be."""


class _Lines:
    """Lines of a table as text, with what is needed to place a row and to see a lost quote."""

    def __init__(self, stream: Stream) -> None:
        self._lines = _whole_lines(lines_of(stream))
        first = list(itertools.islice(self._lines, _SAMPLE_LINES))
        sample = (decode(pieces[0][:_SAMPLE_CHARACTERS]) for pieces in first)
        self.sample = "".join(sample)[:_SAMPLE_CHARACTERS]
        self._all = itertools.chain(first, self._lines)
        self._number = 0
        self.row_start = 1
        self.quotes = 0
        self._size = 0
        self.ended = False

    def start_row(self) -> None:
        self.row_start = self._number + 1
        self.quotes = 0
        self._size = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        pieces = next(self._all, None)
        if pieces is None:
            self.ended = True
            raise StopIteration
        self._number += 1
        self._size += len(pieces[0])
        if len(pieces) > 1 or self._size > MAX_RECORD_BYTES:
            raise _RowTooLargeError
        line = decode(pieces[0])
        self.quotes += line.count('"')
        return line
