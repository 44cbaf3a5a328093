"""Columns of tables: which row names them, which are the text, and which are persons'."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Literal

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.languages.person_names import is_person
from dpicl_rag.loaders.records import MAX_FIELDS, Options, Record, TableHeader

# A column that is called so is the text. "request" and the like are not among them: in a record of
# several fields such a column is one part of what there is to know.
TEXT_FIELDS = ("text", "body", "content", "message")
MOST = 30
"""Names of columns that an error or a report shows."""

_LONGEST = 40
# What a cell says that is no name of a column: a number, an amount, a time, an address.
_VALUE = re.compile(
    r"[-+(]?\W?\d[\d.,:/\s-]*\W?|\d{4}-\d\d?-\d\d?[T ].*|[^\s@]+@[^\s@]+\.\w+|https?://\S+"
    r"|[0-9a-f]{8}-[0-9a-f-]{27}|true|false|null|none|nan",
    re.IGNORECASE,
)
_YEAR = re.compile(r"(?:19|20)\d\d")
_ONE_NAME = re.compile(r"[a-z_]\w*")
_MOST_SEARCHED = 30
# What looks like a person's key or name, written in a cell.
_PERSONAL = re.compile(
    r"[^\s@]+@[^\s@]+\.\w+|\+\d[\d ()/-]{6,}|[A-Za-z]{1,5}[-_#]?\d{2,12}|0\d{3,11}|\d{5,12}"
    r"|[^\W\d_][\w'’.-]*,? [^\W\d_][\w'’.-]*(?: [^\W\d_][\w'’.-]*)?"
)
_DATE = re.compile(r"(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])")
_FEWEST = 8  # rows, from which a column's values are looked at
_ROWS_A_PERSON = 20
_SHARE = 0.9


def header_as_written(said: str | None, delimiter: str | None = None) -> int | list[str] | None:
    """Where the names of columns are, in words: the number of a line, or the names."""
    if said is None:
        return None
    if said.isdecimal():
        return int(said)
    return next(csv.reader([said], delimiter=delimiter or ","))


def table_options(
    header: TableHeader | Literal[False], delimiter: str | None
) -> tuple[TableHeader, str | None]:
    """What the owner says of tables, checked.

    Raises:
        ConfigurationError: It is none of what may be said.
    """
    if header is False:
        header = ()
    if isinstance(header, str) or header is True or (isinstance(header, int) and header < 1):
        raise ConfigurationError(
            "header is the number of a line from 1 on, False, or a list of names"
        )
    if not isinstance(header, int | None):
        header = named(header)
    if delimiter is not None and not (
        len(delimiter) == 1 and delimiter.isascii() and delimiter not in '"\r\n'
    ):
        raise ConfigurationError("delimiter is one character of ASCII, and no quote or line end")
    return header, delimiter


def is_doubtful(cells: Sequence[str]) -> bool:
    """Test for a first row that is more likely a record, or a title, than names of columns.

    It is a function of that row alone: what stands below it is somebody's.
    """
    said = [cell.strip() for cell in cells]
    said = said[bool(said) and not said[0] :]  # pandas leaves the name of its index out
    filled = [cell for cell in said if cell]
    # One cell alone is what a title is. That of a table of one column is as programs write names.
    if len(filled) == 1 and (len(said) > 1 or not _is_name_alone(filled[0])):
        return True
    if 2 * len(filled) < len(said):
        return True
    values = [cell for cell in filled if _VALUE.fullmatch(cell)]
    # Tables of figures have a column for each year.
    years = [cell for cell in values if _YEAR.fullmatch(cell)]
    return len(values) > len(years) or (bool(years) and said[0] in years)


def _is_name_alone(cell: str) -> bool:
    return bool(_ONE_NAME.fullmatch(cell)) or cell.lower() in TEXT_FIELDS


def header_line(rows: Iterable[tuple[int, Sequence[str]]]) -> int | None:
    """Number of the first line that may name columns, as a hint for the owner; None without one."""
    for seen, (number, cells) in enumerate(rows):
        if seen == _MOST_SEARCHED:
            break
        if len(cells) > 1 and all(cell.strip() for cell in cells) and not is_doubtful(cells):
            return number
    return None


def header_hint(rows: Iterable[tuple[int, Sequence[str]]]) -> str:
    """What an error tells the owner of the line that `header_line` finds; nothing without one."""
    line = header_line(rows)
    return f"; line {line} looks like names: --header {line}" if line else ""


def until_blank(cells: Sequence[str]) -> list[str]:
    """The cells of a row up to the last that says something."""
    return list(cells[: max((at for at, cell in enumerate(cells, 1) if cell), default=0)])


def named(columns: Iterable[str]) -> list[str]:
    """Names of columns, each its own.

    One without a name gets a number: no database takes an empty one. One that stands there already
    gets one as well, so that none takes another's place.
    """
    names: dict[str, None] = {}
    written = [column.strip() for column in columns]
    taken = set(written)
    tried: dict[str, int] = {}  # a row of one name again and again would take hours
    for at, column in enumerate(written, 1):
        column = name = column or f"column {at}"
        number = tried.get(column, 1)
        while name in names or (number > 1 and name in taken):
            number += 1
            name = f"{column} ({number})"
        names[name], tried[column] = None, number
    return list(names)


def numbered(count: int) -> list[str]:
    """Names of the columns of a table that has none."""
    return [f"column {at}" for at in range(1, min(count, MAX_FIELDS + 1) + 1)]


def repeats_of(field: str, columns: Container[str]) -> list[str]:
    """The column of a name, and those that had the same name in the table."""
    names = [field]
    while (again := f"{field} ({len(names) + 1})") in columns:
        names.append(again)
    return names


def column_roles(
    records: Iterable[Record], options: Options
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Columns of all tables: the text, those unread, and of both those of persons.

    A person's is told by its name, or by what stands in it. The owner alone is told.
    """
    tables: defaultdict[str, dict[str, None]] = defaultdict(dict)
    values: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    naming = {name for name in (options.unit, options.key_field) if name}  # read as such
    within: dict[str, None] = {}
    for record in records:
        within.update(dict.fromkeys(record.persons))
        if record.is_row:
            tables[record.file].update(dict.fromkeys(record.metadata))
            naming.update([record.key] if record.key else [])
            for name, value in record.metadata.items():
                values[record.file, name].append(value)
    text: dict[str, None] = {}
    columns: dict[str, None] = {}
    for table in map(tuple, tables.values()):
        columns.update(dict.fromkeys(table))
        text.update(dict.fromkeys(_text(table, options.text_field)))
    by_shape = [name for (_, name), cells in values.items() if is_personal(cells)]
    persons = [
        one
        for one in dict.fromkeys([*filter(is_person, columns), *within, *by_shape])
        if one not in naming
    ]
    unread = [one for one in columns if one not in text and one not in naming]
    return few(text), few(unread), few(persons)


def persons_of(columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """The columns of a table that are persons', by name or by what stands in them."""
    found = [
        one for one in columns if is_person(one) or is_personal([row.get(one, "") for row in rows])
    ]
    return few(found)


def is_personal(values: Sequence[str]) -> bool:
    """Test for a column whose values look like keys or names that a few rows each share.

    Where no two rows share one, a row is a unit of the same person anyway.
    """
    said = [value for value in values if value]
    different = set(said)
    if len(said) < _FEWEST or len(different) == len(said):
        return False
    if len(said) > _ROWS_A_PERSON * len(different) or len(different) < _FEWEST // 2:
        return False
    return sum(map(_looks_personal, different)) >= _SHARE * len(different)


def _looks_personal(value: str) -> bool:
    if not _PERSONAL.fullmatch(value) or _DATE.fullmatch(value):
        return False
    words = value.replace(",", " ").split()
    return len(words) == 1 or "+" in value or all(word[:1].isupper() for word in words)


def require_columns(columns: Sequence[str], options: Options) -> None:
    """Check that a table has the columns that were asked for, by its header alone.

    Raises:
        ConfigurationError: It lacks one.
    """
    for what, name in _asked(options).items():
        if name not in columns:
            if columns:
                there = f"there are: {', '.join(map(repr, few(columns)))}"
            elif options.has_header:
                there = "it is empty, or its first row, which names the columns, cannot be read"
            else:
                there = "no line names its columns: name them by --header NAME,NAME"
            raise ConfigurationError(f"the table has no column for the {what} {name!r}; {there}")


def are_known(columns: Sequence[str], options: Options) -> bool:
    """Test for columns of which one was asked for by its name: they are names."""
    return any(name in columns for name in _asked(options).values())


def _asked(options: Options) -> dict[str, str]:
    asked = {
        "privacy unit": None if options.unit == "document" else options.unit,
        "text field": options.text_field,
        "key field": options.key_field,
    }
    return {what: name for what, name in asked.items() if name}


def columns_instead(records: Iterable[Record], options: Options) -> tuple[str, ...]:
    """The names that there are, where none is one that was asked for."""
    asked = {options.unit, options.text_field, options.key_field} - {None, "document", "thread"}
    found: dict[str, None] = {}
    for record in records if asked else ():
        found.update(dict.fromkeys(record.fields or record.metadata))
    return () if asked <= found.keys() else few(found)


def unit_in_words(records: Iterable[Record], unit: str | None) -> str:
    """Name of the unit of a load."""
    if unit not in (None, "document", "thread"):
        return f"the same {unit}"
    if unit == "thread":
        return "one email thread"
    mail = "one email thread" if unit is None else "one email"
    kinds = {mail if one.thread else "one row" if one.is_row else "one document" for one in records}
    return " or ".join(sorted(kinds)) or "one document"


def few(names: Iterable[str]) -> tuple[str, ...]:
    """The first names, as an error or a report shows them."""
    return tuple(name[:_LONGEST] for name in list(names)[:MOST])


def _text(columns: Sequence[str], text_field: str | None) -> Sequence[str]:
    if text_field is not None:
        return repeats_of(text_field, columns) if text_field in columns else []
    by_name = {column.lower(): column for column in columns}
    return next(
        (repeats_of(by_name[one], columns) for one in TEXT_FIELDS if one in by_name), columns
    )
