"""docs/papers.md: commands exist with all options and names, figures stand in the guides."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.exceptions import TyperException

from dpicl_rag.cli import app
from dpicl_rag.methods import METHODS
from dpicl_rag.research.synthetic_shots import PUBLISHED
from dpicl_rag.research.tasks import TASK_NAMES
from dpicl_rag.research.written_shots import is_writer

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "papers.md"
HEADS = ("part", "command", "here", "published", "why they differ")


def rows() -> list[dict[str, str]]:
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("|") and not line.startswith(("|---", f"| {HEADS[0]} |")):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            found.append(dict(zip(HEADS, cells, strict=True)))
    return found


ROWS = rows()
COMMANDS = sorted({c for row in ROWS for c in re.findall("`([^`]+)`", row["command"])})


def check(command: str) -> None:
    """Raise unless a command of the page would start: its options, and names of what is known."""
    first, *words = shlex.split(command)
    if first == "pytest":
        assert [(ROOT / word).exists() for word in words if word.endswith(".py")] == [True]
        return
    if first == "python":
        assert words[0] == "-m"
        assert importlib.util.find_spec(words[1])
        return
    assert first == "dpicl-rag"
    found = typer.main.get_command(app)
    while hasattr(found, "commands"):
        name = words.pop(0)
        found = found.commands[name]
    given = found.make_context(name, words).params
    known = (*METHODS, "all", PUBLISHED)
    named = given.get("methods") or given.get("method") or ""
    for method in [] if name == "local" else named.split(","):  # a choice, which is checked above
        assert not method or method in known or is_writer(method), method
    if name in ("run", "membership", "synthetic", "synthetic-membership", "radius"):
        assert given["task"] in TASK_NAMES


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_exists_with_all_its_options(command):
    check(command)


@pytest.mark.parametrize(
    "command",
    [
        "dpicl-rag evaluate nothing",
        "dpicl-rag evaluate run --task agnews --method poe",  # it is --methods
        "dpicl-rag evaluate run --task agnews --methods peo",
        "dpicl-rag evaluate run --methods poe",  # no task
        "dpicl-rag evaluate membership --task imdb",
        "dpicl-rag evaluate report",
        "pytest -s tests/unit/research/test_nothing.py",
        "python -m benchmarks.nothing",
    ],
)
def test_a_command_that_does_not_exist_is_found(command):
    with pytest.raises((AssertionError, KeyError, TyperException)):
        check(command)


def test_every_row_has_a_command():
    assert len(ROWS) > 20
    assert all(re.search("`(dpicl-rag|pytest|python) ", row["command"]) for row in ROWS)


def figures(row: dict[str, str]) -> tuple[list[str], str]:
    """The numbers of a row's figure, and the text of the guides that it links."""
    guides = [PAGE.parent / name for name in re.findall(r"\]?\(?([a-z_]+\.md)", row["here"])]
    words = re.sub(r"\([^)]*\.(md|png)[^)]*\)|`[^`]*`|\[[^]]*\]", " ", row["here"])
    words = re.sub(r"\b\d+ (?:and \d+ )?(?:examples|pairs|queries)|ε [\d, ]*\d", " ", words)
    return re.findall(r"\d+(?:[.,]\d+)*", words), "\n".join(map(Path.read_text, guides))


@pytest.mark.parametrize("row", ROWS, ids=[row["part"][:40] for row in ROWS])
def test_a_figure_stands_in_the_guide_that_the_row_links(row):
    numbers, guide = figures(row)
    if numbers:
        assert guide, "a figure without the guide that has it"
    for number in numbers:
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d]|\.\d)", guide), number
    for picture in re.findall(r"\((figures/[^)]+)\)", row["here"]):
        assert (PAGE.parent / picture).exists()


def test_a_figure_that_stands_nowhere_is_found():
    row = dict(ROWS[1], here="`poe` 55.3, 99.9 ([methods](methods.md))")
    with pytest.raises(AssertionError, match=r"99\.9"):
        test_a_figure_stands_in_the_guide_that_the_row_links(row)
