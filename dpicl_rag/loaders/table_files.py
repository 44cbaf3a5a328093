"""Tables: CSV, JSON and JSON Lines, a record per row, and the roles of their columns."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BufferedReader, BytesIO

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.loaders.characters import characters, characters_of, written
from dpicl_rag.loaders.delimited import DelimitedRow, DelimitedRows, whole_lines
from dpicl_rag.loaders.records import (
    BAD_HEADER,
    EMPTY,
    JSON_ARRAY,
    JSON_OBJECT,
    MAX_FIELDS,
    MAX_RECORD_BYTES,
    NESTED,
    NOT_AN_OBJECT,
    NOT_JSON,
    TOO_LARGE,
    TOO_MANY_COLUMNS,
    TOO_MANY_FIELDS,
    Options,
    Record,
    RecordOrSkipped,
    Skipped,
    UnreadableError,
    tidy,
)
from dpicl_rag.loaders.streams import Stream, lines_of

# A column that is called so is the text. "request" and the like are not among them: in a record of
# several fields such a column is one part of what there is to know.
TEXT_FIELDS = ("text", "body", "content", "message")
MOST = 30
"""Names of columns that an error or a report shows."""

_LONGEST = 40
_PERSONS = frozenset(
    """
    account author buyer caller citizen client contact customer debtor donor e_mail email employee
    guest insured learner member mail name patient payer person phone player policyholder
    recipient requester resident respondent sender seller student subscriber telephone tenant
    user username first_name last_name full_name given_name family_name surname nickname login
    ssn mobile kunde kundin patientin nutzer mitglied
    """.split()  # noqa: SIM905 - read as a list of words
)
# What stands after the noun in the name of a column, as in customer_id.
_KEY_WORDS = frozenset(
    "id ids no nr num number key code ref uuid guid name mail email address".split()  # noqa: SIM905
)
_WORDS = re.compile(r"[^\W\d_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# A column that is called so names the row. "key" and "name" do not: many rows may share them.
_KEY_FIELDS = ("id", "_id", "uuid", "guid", "record_id", "row_id")
# A quote by itself is one that nobody closed.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["\[\]{},]', re.DOTALL)
_PAIRS = {b"]": b"[", b"}": b"{"}


def read_csv(stream: Stream, prefix: str, options: Options) -> Iterator[RecordOrSkipped]:
    """Read a table whose first row names the columns and shows the delimiter.

    Args:
        stream: The table, decompressed.
        prefix: Put before each position.
        options: As in ``load``.

    Yields:
        A record for each row that is not blank, or why there is none. A row with fewer fields than
        columns has empty ones; one with more is skipped, for it is likely cut in the wrong places.
        See ``loaders.delimited`` for what is damaged.
    """
    rows = DelimitedRows(whole_lines(lines_of(stream)))
    header = rows.read(MAX_FIELDS)
    if header is None:
        return
    if header.reason:
        yield Skipped(f"{prefix}line {header.line}", BAD_HEADER)
        return
    columns = _columns(header)
    number = 0
    while row := rows.read(len(columns)):
        number += 1
        position = f"{prefix}row {number} (line {row.line})"
        if row.reason:
            yield Skipped(position, row.reason)
            continue
        yield _record(columns, map(characters, row.fields), position, options)


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
        return Skipped(position, TOO_MANY_FIELDS)
    return _record(columns, map(written, cells), position, options)


def columns_in(cells: Sequence[str]) -> list[str]:
    """The columns that a row of characters names; none where they are too many."""
    last = max((at for at, cell in enumerate(cells, 1) if cell), default=0)
    return _names(written(cell)[0] for cell in cells[:last]) if last <= MAX_FIELDS else []


def columns_of(stream: Stream) -> list[str]:
    """The columns of a table, by its first row; none where that cannot be read."""
    header = DelimitedRows(whole_lines(lines_of(stream))).read(MAX_FIELDS)
    return _columns(header) if header else []


def read_jsonl(stream: Stream, prefix: str, options: Options) -> Iterator[RecordOrSkipped]:
    """Read a file of one JSON object per line. Arguments and yields as ``read_csv``."""
    for number, whole in enumerate(whole_lines(lines_of(stream)), 1):
        position = f"{prefix}line {number}"
        entry = _row(whole.raw, position, options)
        if entry is not None:
            yield entry


def read_json(stream: Stream, prefix: str, options: Options) -> Iterator[RecordOrSkipped]:
    """Read a file of one array of JSON objects, or of one object per line.

    What the file begins with decides. An element that is no object, or is damaged within its
    brackets, is skipped by itself. Arguments and yields as ``read_csv``.

    Raises:
        UnreadableError: It begins as an array and is none, or is one object over several lines.
    """
    raw = b"".join(lines_of(stream))
    if not raw.lstrip().startswith(b"["):
        if is_one_object(raw):
            raise UnreadableError(JSON_OBJECT)
        yield from read_jsonl(BufferedReader(BytesIO(raw)), prefix, options)
        return
    elements = split_array(raw)
    if elements is None:
        raise UnreadableError(JSON_ARRAY)
    for number, element in enumerate(elements, 1):
        large = len(element) > MAX_RECORD_BYTES
        entry = _row(None if large else element, f"{prefix}item {number}", options)
        if entry is not None:
            yield entry


def _row(raw: bytes | None, position: str, options: Options) -> RecordOrSkipped | None:
    """A row from one JSON object; None of blanks. Without bytes it is too large."""
    if raw is None:
        return Skipped(position, TOO_LARGE)
    try:
        text, read = raw.decode("utf-8").strip(), written
    except UnicodeDecodeError:
        text, read = raw.decode("utf-8", "surrogateescape").strip(), characters_of
    if not text:
        return None
    try:
        row = json.loads(text, parse_float=_Number)
        if not isinstance(row, dict):
            return Skipped(position, NOT_AN_OBJECT)
        names = _names(read(name)[0] for name in row)
        values = [read(_as_text(value)) for value in row.values()]
    except ValueError:
        return Skipped(position, NOT_JSON)
    except RecursionError:
        return Skipped(position, NESTED)
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
        return Skipped(position, EMPTY)
    if len(fields) > MAX_FIELDS:
        return Skipped(position, TOO_MANY_COLUMNS)
    name = options.text_field or _first(fields, TEXT_FIELDS)
    key = options.key_field or _first(fields, _KEY_FIELDS) or ""
    if name is None:
        text = "\n".join(f"{field}: {value}" for field, value in fields.items() if value)
    else:
        # Without its text, a row still tells the loader which names there are.
        text = fields.get(name, "")
    return Record(position, text, fields, key=key if fields.get(key) else "", exact=exact)


def _columns(header: DelimitedRow) -> list[str]:
    return _names(characters(name)[0] for name in header.fields)


def _names(columns: Iterable[str]) -> list[str]:
    """Names of columns. One without gets a number: no database takes an empty name."""
    return [name.strip() or f"column {at}" for at, name in enumerate(columns, 1)]


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


def column_roles(
    records: Iterable[Record], options: Options
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Columns of all tables by their names: the text, those unread, and of these the persons'."""
    tables: defaultdict[str, dict[str, None]] = defaultdict(dict)
    naming = {name for name in (options.unit, options.key_field) if name}  # read as such
    for record in records:
        if record.is_row:
            tables[record.file].update(dict.fromkeys(record.metadata))
            naming.update([record.key] if record.key else [])
    text: dict[str, None] = {}
    columns: dict[str, None] = {}
    for table in map(tuple, tables.values()):
        columns.update(dict.fromkeys(table))
        text.update(dict.fromkeys(_text(table, options.text_field)))
    persons = [one for one in columns if one not in naming and is_person(one)]
    unread = [one for one in columns if one not in text and one not in naming]
    return _few(text), _few(unread), _few(persons)


def require_columns(columns: Sequence[str], options: Options) -> None:
    """Check that a table has the columns that were asked for, by its header alone.

    Raises:
        ConfigurationError: It lacks one.
    """
    asked = {
        "privacy unit": None if options.unit == "document" else options.unit,
        "text field": options.text_field,
        "key field": options.key_field,
    }
    for what, name in asked.items():
        if name and name not in columns:
            there = (
                f"there are: {', '.join(map(repr, _few(columns)))}"
                if columns
                else "it is empty, or its first row, which names the columns, cannot be read"
            )
            raise ConfigurationError(f"the table has no column for the {what} {name!r}; {there}")


def columns_instead(records: Iterable[Record], options: Options) -> tuple[str, ...]:
    """The names that there are, where none is one that was asked for."""
    asked = {options.unit, options.text_field, options.key_field} - {None, "document", "thread"}
    found: dict[str, None] = {}
    for record in records if asked else ():
        found.update(dict.fromkeys(record.fields or record.metadata))
    return () if asked <= found.keys() else _few(found)


def is_person(column: str) -> bool:
    """Test for the name of a column of persons, as ``customer`` and ``User ID`` look like."""
    words = [word.lower() for word in _WORDS.findall(_HUMP.sub(" ", column))]
    while len(words) > 1 and "_".join(words) not in _PERSONS and words[-1] in _KEY_WORDS:
        words.pop()
    return "_".join(words) in _PERSONS


def _few(names: Iterable[str]) -> tuple[str, ...]:
    """The first names, as an error or a report shows them."""
    # A table without a header row shows its first row here, so long names are shortened.
    return tuple(name[:_LONGEST] for name in list(names)[:MOST])


def _text(columns: Sequence[str], text_field: str | None) -> Sequence[str]:
    if text_field is not None:
        return [text_field] if text_field in columns else []
    by_name = {column.lower(): column for column in columns}
    return next(([by_name[one]] for one in TEXT_FIELDS if one in by_name), columns)


def unit_in_words(records: Iterable[Record], unit: str | None) -> str:
    """Name of the unit of a load.

    Args:
        records: All that was read; of them only the kinds count.
        unit: As for ``load``.
    """
    if unit not in (None, "document", "thread"):
        return f"the same {unit}"
    if unit == "thread":
        return "one email thread"
    mail = "one email thread" if unit is None else "one email"
    kinds = {mail if one.thread else "one row" if one.is_row else "one document" for one in records}
    return " or ".join(sorted(kinds)) or "one document"
