"""Tables of an evaluation on the screen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dpicl_rag.cli import console

if TYPE_CHECKING:
    from dpicl_rag.research.run_tables import Table


def show_tables(tables: Iterable[Table]) -> None:
    """Print tables as results."""
    from rich import table

    for words in tables:
        shown = table.Table(title=words.title, title_justify="left")
        for number, column in enumerate(words.columns):
            shown.add_column(column, overflow="fold", no_wrap=number == 0)
        for row in words.rows:
            shown.add_row(*row)
        console.stdout().print(shown)
