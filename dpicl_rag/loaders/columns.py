"""Columns of tables: the text, those that are not read, those that name a person."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

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


def judge(
    tables: Iterable[Sequence[str]], text_field: str | None, naming: Collection[str]
) -> Columns:
    """Judge tables by the names of their columns.

    Args:
        tables: The columns of each.
        text_field: The column that was asked for as text.
        naming: Columns that name units or rows: they are read as such.
    """
    text: dict[str, None] = {}
    columns: dict[str, None] = {}
    for table in tables:
        columns.update(dict.fromkeys(table))
        text.update(dict.fromkeys(_text(table, text_field)))
    persons = [one for one in columns if one not in naming and is_person(one)]
    unread = [one for one in columns if one not in text and one not in naming]
    return Columns(few(text), few(unread), few(persons))


def is_person(column: str) -> bool:
    """Whether the name of a column looks like a person's, as ``customer`` and ``User ID`` do."""
    words = [word.lower() for word in _WORDS.findall(_HUMP.sub(" ", column))]
    while len(words) > 1 and "_".join(words) not in _PERSONS and words[-1] in _KEY_WORDS:
        words.pop()
    return "_".join(words) in _PERSONS


def few(names: Iterable[str]) -> tuple[str, ...]:
    """The first names, as an error or a report shows them."""
    # A table without a header row shows its first row here, so long names are shortened.
    return tuple(name[:_LONGEST] for name in list(names)[:MOST])


def _text(columns: Sequence[str], text_field: str | None) -> Sequence[str]:
    if text_field is not None:
        return [text_field] if text_field in columns else []
    by_name = {column.lower(): column for column in columns}
    return next(([by_name[one]] for one in TEXT_FIELDS if one in by_name), columns)
