"""The question of ``ingest`` for a unit, where a column of a new corpus looks like a person's."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from dpicl_rag.cli import console
from dpicl_rag.errors import ConfigurationError

if TYPE_CHECKING:
    from dpicl_rag.loaders import LoadReport

_KEEP = "document"


def chosen(report: LoadReport, *, yes: bool) -> str | None:
    """The unit of a corpus that is new, where nobody has chosen one; None is the default.

    Args:
        report: Of the load by the default unit.
        yes: Warn, and ask nobody.

    Raises:
        ConfigurationError: A column looks like a person's, and nobody is there to ask.
    """
    if not report.persons:
        return None
    if yes:
        console.note(
            f"warning: {report.doubt}; someone who is in several units is protected less "
            f"(--unit {report.persons[0]} protects the same {report.persons[0]} as one)"
        )
        return None
    keep = "--unit document" if report.unit == "one row" else "--yes"
    if not sys.stdin.isatty():
        raise ConfigurationError(
            f"{report.doubt}, and a corpus keeps its unit; nothing was stored. Choose --unit "
            f"{report.persons[0]} (the same {report.persons[0]} is protected as one) or {keep} "
            f"({report.unit} is)"
        )
    console.note(report.summary)
    console.note(f"What is protected as one? A corpus keeps its unit, and {report.doubt}.")
    console.note(f"A column's name: everything of the same value. {_KEEP}: {report.unit}.")
    while True:
        unit: str = typer.prompt(f"Unit ({', '.join([*report.persons, _KEEP])})", err=True)
        if unit in (*report.persons, _KEEP):
            return None if unit == _KEEP else unit
