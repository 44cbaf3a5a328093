"""Reports of runs: figures as tables of words, as Markdown and for JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

Line = TypeVar("Line", bound=Any)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of words.

    Attributes:
        title: Above it.
        columns: Names.
        rows: As long as ``columns``.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """As a Markdown table under a heading."""
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        return f"## {self.title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


class Report(ABC):
    """Figures of a run."""

    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """The figures by name, for JSON."""

    def heading(self) -> str:
        """Subject of the figures; empty where the titles of the tables say it."""
        return ""

    @abstractmethod
    def tables(self) -> list[Table]:
        """The tables that there are figures for."""

    def markdown(self) -> str:
        """All tables under the heading."""
        return "\n".join([f"# {self.heading()}\n", *(table.markdown() for table in self.tables())])


@dataclass(frozen=True)
class LinesReport(Report, Generic[Line]):
    """Figures that are a line for each arm, beside the settings of the run."""

    settings: Mapping[str, Any]
    lines: Sequence[Line]

    def summary(self) -> dict[str, Any]:
        """See `Report`."""
        return {**self.settings, "lines": [asdict(line) for line in self.lines]}


def side_by_side(
    title: str,
    heads: tuple[str, ...],
    columns: Mapping[Any, str],
    cells: Iterable[tuple[tuple[str, ...], Any, str]],
) -> Table:
    """A table with a row for each head of ``cells``; a cell that nobody has is empty."""
    rows: dict[tuple[str, ...], dict[Any, str]] = {}
    for head, column, words in cells:
        rows.setdefault(head, {})[column] = words
    shown = tuple((*head, *(own.get(at, "") for at in columns)) for head, own in rows.items())
    return Table(title, (*heads, *columns.values()), shown)


def percent(mean: float, error: float | None, digits: int = 1) -> str:
    """A share in percent with its standard error."""
    found = f"{100 * mean:.{digits}f}"
    return found if error is None else f"{found} ± {100 * error:.{digits}f}"
