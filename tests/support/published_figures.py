"""What the four papers print: their figures by paper, table, row and column."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).parents[1] / "unit" / "research" / "published_figures.toml"


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """One table, or what a section or a figure says in numbers.

    Attributes:
        over: What the columns are.
        columns: Their names.
        rows: Values by the row's name, one for each column.
    """

    over: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[float]]

    def value(self, row: str, column: str) -> float:
        """One figure.

        Raises:
            KeyError: There is no such row.
            ValueError: There is no such column.
        """
        return self.rows[row][self.columns.index(column)]


PAPERS: Mapping[str, Mapping[str, PublishedTable]] = {
    paper: {name: PublishedTable(**table) for name, table in tables.items()}
    for paper, tables in tomllib.loads(FILE.read_text("utf-8")).items()
}
"""By paper and table."""
