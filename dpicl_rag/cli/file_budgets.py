"""Budgets that the settings file gives to corpora which have none in the ledger yet."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.cli import console, data_folder, settings_file

if TYPE_CHECKING:
    from dpicl_rag.ledger import Ledger


@contextmanager
def open_book(ledger: Path | None, corpus: str | None) -> Iterator[Ledger | None]:
    """Open the ledger that answers of a corpus are booked in.

    Args:
        ledger: Its file; that of the data folder if None.
        corpus: The name that they are booked under; None books nothing.
    """
    if corpus is None:
        yield None
        return
    with data_folder.open_ledger(ledger) as book:
        give_budgets(book, [corpus])
        yield book


def give_budgets(book: Ledger, corpora: Iterable[str]) -> None:
    """Give corpora the budgets of the settings file where they have none.

    Where the ledger has another budget that one holds, and a line says so: a file must not raise
    what somebody has lowered.
    """
    found = settings_file.current()
    tables = found.budgets()
    for corpus in sorted(tables.keys() & set(corpora)):
        table = tables[corpus]
        if not book.has_budget(corpus):
            book.set_budget(corpus=corpus, **table.budget_settings, only_if_none=True)
        if not is_in_ledger(book, corpus, table):
            console.note(
                f"corpus {corpus}: the budget in the ledger holds, which is another than that of "
                f"{found.path} ({in_words(table)}); {_remedy(corpus, table)}"
            )


def is_in_ledger(book: Ledger, corpus: str, table: settings_file.CorpusTable) -> bool:
    """True where the budget of the file is that of the ledger."""
    from dpicl_rag.ledger.budgets import budgets, is_budget

    given = budgets(**table.budget_settings)
    return any(
        (one.kind, one.name) == ("corpus", corpus) and is_budget(one, given)
        for one in book.status()
    )


def standing(found: settings_file.ChosenSettings, ledger: Path | None) -> dict[str, str]:
    """The standing of each budget of the file, in words. Makes no ledger.

    Args:
        found: The file.
        ledger: File of the ledger; that of the data folder if None.
    """
    tables = found.budgets()
    said = dict.fromkeys(tables, "not in the ledger yet: set when the corpus is first asked")
    if not (ledger or data_folder.default_ledger()).exists():
        return said
    with data_folder.open_ledger(ledger) as book:
        for corpus, table in tables.items():
            if is_in_ledger(book, corpus, table):
                said[corpus] = "in the ledger"
            elif book.has_budget(corpus):
                said[corpus] = f"another in the ledger, which holds; {_remedy(corpus, table)}"
    return said


def in_words(table: settings_file.CorpusTable) -> str:
    """A budget of the file, such as ``epsilon 20 a month, strict``."""
    ends = "for life" if table.period == "lifetime" else f"a {table.period}"
    kinds = [name for name in ("strict", "gaussian") if getattr(table, name)]
    return ", ".join([f"epsilon {table.budget:g} {ends}", *kinds])


def _remedy(corpus: str, table: settings_file.CorpusTable) -> str:
    name = shlex.quote(corpus)
    given = [f"--{kind}" for kind in ("strict", "gaussian") if getattr(table, kind)]
    if table.answers != SHARES.answers:
        given.append(f"--answers {table.answers}")
    more = "".join(f" {one}" for one in given)
    return (
        f"to take that: `dpicl-rag budget set --corpus {name} --epsilon {table.budget!r} "
        f"--period {table.period}{more}`"
    )
