"""Tables: CSV, JSON and JSON Lines, a record per row."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import BufferedReader, BytesIO

from dpicl_rag.loaders import reasons
from dpicl_rag.loaders.characters import characters, characters_of, written
from dpicl_rag.loaders.columns import (
    TEXT_FIELDS,
    are_known,
    few,
    header_hint,
    is_doubtful,
    named,
    numbered,
    repeats_of,
    until_blank,
)
from dpicl_rag.loaders.delimited import DELIMITERS, DelimitedRow, DelimitedRows, whole_lines
from dpicl_rag.loaders.records import (
    MAX_FIELDS,
    MAX_RECORD_BYTES,
    Options,
    Record,
    RecordOrSkipped,
    Skipped,
    UnreadableError,
    tidy,
)
from dpicl_rag.loaders.streams import Stream, lines_of

# A column that is called so names the row. "key" and "name" do not: many rows may share them.
_KEY_FIELDS = ("id", "_id", "uuid", "guid", "record_id", "row_id")
# A quote by itself is one that nobody closed.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["\[\]{},]', re.DOTALL)
_MEMBER = re.compile(rb'\s*("(?:[^"\\]++|\\.)*+")\s*:', re.DOTALL)
_PAIRS = {b"]": b"[", b"}": b"{"}


def read_csv(stream: Stream, prefix: str, options: Options) -> Iterator[RecordOrSkipped]:
    """Read a table whose first row names the columns and shows the delimiter.

    Yields:
        A record for each row that is not blank, or why there is none. A row with fewer fields than
        columns has empty ones; one with more is skipped, for it is likely cut in the wrong places.
        See ``loaders.delimited`` for what is damaged.

    Raises:
        UnreadableError: Its first row is no row of names, and nobody said which one is; or the
            line that shall be one is not there.
    """
    rows = _rows(stream, options)
    if options.has_header:
        header = rows.read(MAX_FIELDS)
        if header is None:
            if isinstance(options.header, int) and options.header > 1:
                raise UnreadableError(reasons.NO_LINE)
            return
        if header.reason:
            yield Skipped(f"{prefix}line {header.line}", reasons.BAD_HEADER)
            return
        columns = _columns(header)
        _require_header([characters(name)[0] for name in header.fields], columns, options)
    else:
        columns = options.given
    number = 0
    # Without names a row is as wide as it is: the first one is somebody's, as all are.
    while row := rows.read(len(columns) or MAX_FIELDS):
        number += 1
        position = f"{prefix}row {number} (line {row.line})"
        if row.reason:
            yield Skipped(position, row.reason)
            continue
        names = columns or numbered(len(row.fields))
        yield _record(names, map(characters, row.fields), position, options)


def _rows(stream: Stream, options: Options) -> DelimitedRows:
    """The rows of a table, from its header on."""
    lines = whole_lines(lines_of(stream))
    if options.has_header:
        start = options.header or 1
        return DelimitedRows(lines, options.separator, start if isinstance(start, int) else 1)
    # The first row is somebody's, and must not decide how others' are read.
    return DelimitedRows(lines, options.separator or b",")


def _require_header(cells: Sequence[str], columns: Sequence[str], options: Options) -> None:
    """Refuse a first row that nobody has said to be names, and that does not look like them.

    Raises:
        UnreadableError: It is one.
    """
    if options.header is None and is_doubtful(cells) and not are_known(columns, options):
        raise UnreadableError(reasons.NO_HEADER)


def row_of(
    columns: Sequence[str], cells: Sequence[str], position: str, options: Options
) -> RecordOrSkipped:
    """A record of a row whose cells are characters, as those of spreadsheets are.

    Args:
        columns: As `columns_in` gives them.
        cells: The row's; those behind the last that says something count for nothing.
        position: Where it stands.
        options: As in ``load``.
    """
    if any(cells[len(columns) :]):
        return Skipped(position, reasons.TOO_MANY_FIELDS)
    return _record(columns, map(written, cells), position, options)


def columns_in(cells: Sequence[str], options: Options) -> list[str]:
    """The columns that a row of characters names; none where they are too many.

    Raises:
        UnreadableError: As `read_csv`.
    """
    said = until_blank(cells)
    columns = named(written(cell)[0] for cell in said) if len(said) <= MAX_FIELDS else []
    _require_header(said, columns, options)
    return columns


def columns_of(stream: Stream, options: Options) -> list[str]:
    """The columns of a table, by its header; none where that cannot be read.

    Raises:
        UnreadableError: As `read_csv`. It says which line may be the header: for the owner.
    """
    rows = _rows(stream, options)
    if not options.has_header:
        if options.separator is None and rows.likely != rows.delimiter:
            likely = rows.likely.decode()
            raise UnreadableError(f"{reasons.NO_SEPARATOR}: --delimiter {likely!r}")
        return options.given
    header = rows.read(MAX_FIELDS)
    if header is None or header.reason:
        return []
    columns = _columns(header)
    try:
        _require_header([characters(name)[0] for name in header.fields], columns, options)
    except UnreadableError as error:
        raise UnreadableError(f"{error}{header_hint(_first_rows(rows))}") from None
    return columns


def _first_rows(rows: DelimitedRows) -> Iterator[tuple[int, list[str]]]:
    while row := rows.read(MAX_FIELDS):
        fields = list(row.fields)
        if len(fields) == 1:  # a title above tells nothing of what stands between fields
            fields = fields[0].split(max(DELIMITERS, key=fields[0].count))
        yield row.line, [characters(field)[0] for field in fields]


def read_jsonl(
    stream: Stream, prefix: str, options: Options, *, lists: bool = True
) -> Iterator[RecordOrSkipped]:
    """Read a file of one JSON object per line. Arguments and yields as ``read_csv``.

    Where ``lists`` is not set an object that holds a list of objects is skipped.
    """
    for number, whole in enumerate(whole_lines(lines_of(stream)), 1):
        position = f"{prefix}line {number}"
        entry = _row(whole.raw, position, options, lists=lists)
        if entry is not None:
            yield entry


def read_json(stream: Stream, prefix: str, options: Options) -> Iterator[RecordOrSkipped]:
    """Read a file of one array of JSON objects, or of one object per line.

    What the file begins with decides. An element that is no object, or is damaged within its
    brackets, is skipped by itself; so is a line that holds a list of objects, for these may be
    the records. One object that has a list of the name ``records`` is read as that list is.
    Arguments and yields as ``read_csv``.

    Raises:
        UnreadableError: It begins as an array and is none, or is one object over several lines, or
            one that holds a list of objects.
    """
    whole = BytesIO()
    whole.writelines(lines_of(stream))  # joined, each short line would be held by itself
    raw = whole.getvalue()
    named_list = lists_within(raw).get(options.records) if options.records else None
    if named_list is None and not raw.lstrip().startswith(b"["):
        if is_one_object(raw):
            raise UnreadableError(reasons.JSON_OBJECT, _lists_hint(raw))
        lines = read_jsonl(BufferedReader(BytesIO(raw)), prefix, options, lists=False)
        if raw.strip().count(b"\n") == 0:
            lines = _of_one_line(lines, raw)
        yield from lines
        return
    elements = split_array(raw) if named_list is None else named_list
    if elements is None:
        raise UnreadableError(reasons.JSON_ARRAY)
    for number, element in enumerate(elements, 1):
        large = len(element) > MAX_RECORD_BYTES
        entry = _row(None if large else element, f"{prefix}item {number}", options)
        if entry is not None:
            yield entry


def _of_one_line(entries: Iterable[RecordOrSkipped], raw: bytes) -> Iterator[RecordOrSkipped]:
    """The record of a file of one line. On one line or on many, a list within is the same."""
    for entry in entries:
        if isinstance(entry, Skipped) and entry.reason == reasons.JSON_OBJECT:
            raise UnreadableError(reasons.JSON_OBJECT, _lists_hint(raw))
        yield entry


def _lists_hint(raw: bytes) -> str:
    """What an error tells the owner of the lists of objects in an object; nothing without one."""
    lists = lists_within(raw).items()
    found = [name for name, items in lists if any(one.lstrip()[:1] == b"{" for one in items)]
    return f"; it holds {', '.join(map(repr, few(found)))}" if found else ""


def _row(
    raw: bytes | None, position: str, options: Options, *, lists: bool = True
) -> RecordOrSkipped | None:
    """A row from one JSON object; None of blanks. Without bytes it is too large."""
    if raw is None:
        return Skipped(position, reasons.TOO_LARGE)
    try:
        text, read = raw.decode("utf-8").strip(), written
    except UnicodeDecodeError:
        text, read = raw.decode("utf-8", "surrogateescape").strip(), characters_of
    if not text:
        return None
    try:
        row = json.loads(text, parse_float=_Number)
        if not isinstance(row, dict):
            return Skipped(position, reasons.NOT_AN_OBJECT)
        if not lists and any(map(_is_list_of_objects, row.values())):
            return Skipped(position, reasons.JSON_OBJECT)
        names = named(read(name)[0] for name in row)
        values = [read(_as_text(value)) for value in row.values()]
    except ValueError:
        return Skipped(position, reasons.NOT_JSON)
    except RecursionError:
        return Skipped(position, reasons.NESTED)
    return _record(names, values, position, options)


def _record(
    columns: Sequence[str], values: Iterable[tuple[str, str]], position: str, options: Options
) -> RecordOrSkipped:
    """A record of a row, its values as `characters` gives them; columns behind these are empty."""
    fields = dict.fromkeys(columns, "")
    exact: dict[str, str] = {}
    for column, (shown, differs) in zip(columns, values, strict=False):
        fields[column] = tidy(shown)
        if differs:
            exact[column] = differs
    if not any(fields.values()):
        return Skipped(position, reasons.EMPTY)
    if len(fields) > MAX_FIELDS:
        return Skipped(position, reasons.TOO_MANY_COLUMNS)
    name = options.text_field or _first(fields, TEXT_FIELDS)
    key = options.key_field or _first(fields, _KEY_FIELDS) or ""
    if name is None:
        text = "\n".join(f"{field}: {value}" for field, value in fields.items() if value)
    else:
        # Without its text, a row still tells the loader which names there are.
        texts = [fields.get(one, "") for one in repeats_of(name, fields)]
        text = "\n\n".join(one for one in texts if one)
    return Record(position, text, fields, key=key if fields.get(key) else "", exact=exact)


def _columns(header: DelimitedRow) -> list[str]:
    return named(characters(name)[0] for name in header.fields)


def _first(fields: Mapping[str, str], names: Iterable[str]) -> str | None:
    """The field that has the first of these names and a value, whatever its case."""
    by_name = {field.lower(): field for field in fields if fields[field]}
    return next((by_name[name] for name in names if name in by_name), None)


def _as_text(value: object) -> str:
    """A JSON value in words: strings as they are, a list's items separated by commas."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, _Number):
        return value.written
    if isinstance(value, list):
        return ", ".join(item for item in (_as_text(item).strip() for item in value) if item)
    return json.dumps(value, ensure_ascii=False)


def _is_list_of_objects(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(item, dict) for item in value)


class _Number(float):
    """A number, and how it was written: as floats, two long numbers could be one."""

    written: str

    def __new__(cls, written: str) -> _Number:
        made = super().__new__(cls, written)
        made.written = written
        return made


def split_array(raw: bytes) -> list[bytes] | None:
    """The elements of an array that fills a file; None where it does not.

    Only brackets, commas and strings are looked at: what stands between them is its reader's.

    Args:
        raw: The bytes, in a superset of ASCII.
    """
    elements: list[bytes] = []
    open_brackets: list[bytes] = []
    start = 0
    for match in _TOKEN.finditer(raw):
        token = match[0]
        if token == b'"':
            return None
        if token[:1] == b'"':
            continue
        if not open_brackets and (elements or token != b"[" or raw[: match.start()].strip()):
            return None
        if token in (b"[", b"{"):
            if not open_brackets:
                start = match.end()
            open_brackets.append(token)
            continue
        if len(open_brackets) == 1 and token in (b",", b"]"):
            elements.append(raw[start : match.start()])
            start = match.end()
        if token == b",":
            continue
        if open_brackets.pop() != _PAIRS[token]:
            return None
        if not open_brackets:
            if raw[match.end() :].strip():
                return None
            # An empty array has one element of blanks, and so has a comma before its end.
            return elements if elements[-1].strip() else elements[:-1]
    return None


def is_one_object(raw: bytes) -> bool:
    """Test for one JSON object that stands in several lines, as programs write it."""
    # In a file of an object per line, a damaged first line alone must not look like one.
    if raw.lstrip().partition(b"\n")[0].strip() != b"{":
        return False
    return len(split_array(b"[" + raw + b"]") or ()) == 1


def lists_within(raw: bytes) -> dict[str, list[bytes]]:
    """The elements of each list that an object has which fills a file, by its name.

    As in an array only brackets, commas and strings are looked at.
    """
    whole, lists = raw.strip(), dict[str, list[bytes]]()
    if (whole[:1], whole[-1:]) == (b"{", b"}"):
        for member in split_array(b"[" + whole[1:-1] + b"]") or ():
            name = _MEMBER.match(member)
            elements = split_array(member[name.end() :]) if name else None
            if name and elements is not None:
                with suppress(ValueError):  # of a name that is none
                    lists.setdefault(json.loads(name[1]), []).extend(elements)
    return lists
