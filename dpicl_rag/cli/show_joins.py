"""Joins on the terminal, for the owner of the documents, and the question about them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from dpicl_rag.cli import console

if TYPE_CHECKING:
    from dpicl_rag.corpora import Corpus, Join
    from dpicl_rag.corpora.adding import Ingested
    from dpicl_rag.loaders.shared_keys import Joins

_SHOWN = 10


def view(join: Join) -> dict[str, Any]:
    """A join as ``--json`` shows it."""
    return {
        "on": join.on,
        "unit": join.unit,
        "parts": list(join.parts),
        "messages": [
            {"message": name, "subject": fields.get("subject", "")}
            for name, fields in join.documents.items()
        ],
    }


def lines(join: Join, titles: Mapping[str, str] | None = None) -> list[str]:
    """A join in words."""
    units = (join.unit, *join.parts)
    shown = [f"  unit {unit}{_quoted((titles or {}).get(unit, ''))}" for unit in units[:_SHOWN]]
    left = len(units) - len(shown)
    by = [
        f"  by message {name}{_quoted(fields.get('subject', ''))}"
        for name, fields in list(join.documents.items())[:_SHOWN]
    ]
    when = f" since {join.on}" if join.on else ""
    more = [f"  and {left:,} more"] if left else []
    return [f"{len(units):,} units are one{when}:", *shown, *more, *by]


def show(joins: Iterable[Join], titles: Mapping[str, str] | None = None) -> None:
    """Print joins to stdout."""
    for join in joins:
        for line in lines(join, titles):
            console.show(line)


def show_withheld(joins: Iterable[Join]) -> None:
    """Print to stdout what was withheld."""
    for join in joins:
        console.show(
            f"withheld, for it would make {1 + len(join.parts):,} units one, as somebody does who "
            "answers in conversations of others; --yes takes it:"
        )
        for line in lines(join)[1:]:
            console.show(line)


def accepted(joins: Sequence[Join], opened: Corpus) -> bool:
    """Show what was withheld and ask whether it shall be one, where somebody can answer."""
    if not sys.stdin.isatty():
        return False
    wanted = {unit for join in joins for unit in (join.unit, *join.parts)}
    titles: dict[str, str] = {}
    for record in opened.records():
        if record.unit in wanted:
            titles.setdefault(record.unit, record.metadata.get("subject", ""))
    for join in joins:
        for line in lines(join, titles):
            console.note(line)
    return typer.confirm("Shall they be one?", err=True)


def asking(
    add: Callable[[Joins], Ingested],
    opened: Corpus,
    *,
    yes: bool,
    before: Callable[[], None] = lambda: None,
) -> Ingested:
    """Add documents, and ask about those that would make many units one."""
    added = add("allow" if yes else "ask")
    if added.withheld:
        before()
        if accepted(added.withheld, opened):
            known = added.known
            again = add("allow")
            return replace(again, passages=added.passages + again.passages, known=known)
    return added


def _quoted(text: str) -> str:
    return f" ({text})" if text else ""
