"""Columns of tables: the text, those that are not read, those that name a person or a unit."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.loaders.records import Options, Record

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


@dataclass(frozen=True, slots=True)
class Columns:
    """Roles of the columns in the tables of a load. Names only.

    Attributes:
        text: Those that the text was taken from.
        unread: Those that were not read.
        persons: Those whose name looks like a person's.
    """

    text: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    persons: tuple[str, ...] = ()


def judge(records: Iterable[Record], options: Options) -> Columns:
    """Roles of the columns of all tables, by their names."""
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
    return Columns(_few(text), _few(unread), _few(persons))


def require_columns(columns: Sequence[str], options: Options) -> None:
    """See that a table has the columns that were asked for, by its header alone.

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
    """Whether the name of a column looks like a person's, as ``customer`` and ``User ID`` do."""
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
