"""docs/papers.md as its tests read it: the rows of its tables, and the commands in them."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "papers.md"
HEADS = ("part", "command", "here", "published", "why they differ")

Row = Mapping[str, str]
"""Cells by the heads of their columns; ``paper`` is the heading above."""


def rows_of(text: str) -> list[Row]:
    """The rows of all tables."""
    found, paper = [], ""
    for line in text.splitlines():
        if line.startswith("## "):
            paper = line.removeprefix("## ")
        if line.startswith("|") and not line.startswith(("|---", f"| {HEADS[0]} |")):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            found.append({**dict(zip(HEADS, cells, strict=True)), "paper": paper})
    return found


def commands_of(rows: Iterable[Row]) -> list[str]:
    """Each command once, in the order in which they stand."""
    each = (command for row in rows for command in re.findall("`([^`]+)`", row["command"]))
    return list(dict.fromkeys(each))


ROWS = rows_of(PAGE.read_text(encoding="utf-8"))
COMMANDS = commands_of(ROWS)


def collected(words: Sequence[str]) -> int:
    """How many tests a call of pytest would run. The suite runs them by itself."""

    class Counting:
        found = 0

        def pytest_collection_finish(self, session: pytest.Session) -> None:
            self.found = len(session.items)

    counting = Counting()
    asked = ["--collect-only", "-qq", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    paths = [str(ROOT / word) if word.endswith(".py") else word for word in words]
    with contextlib.redirect_stdout(io.StringIO()):
        status = pytest.main([*asked, *paths], plugins=[counting])
    return counting.found if status == pytest.ExitCode.OK else 0
