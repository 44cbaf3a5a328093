"""docs/papers.md: commands exist with all options, values and names, figures stand in the guides.

The programs' own parsers read the commands; `test_cli_papers_commands` runs them.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shlex
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer
from typer.exceptions import TyperException

from dpicl_rag.cli import app
from dpicl_research.expert_settings import COMPARED_METHODS
from dpicl_research.synthetic_shots import PUBLISHED
from dpicl_research.tasks import TASK_NAMES
from dpicl_research.written_shots import is_writer
from tests.support.papers_page import COMMANDS, PAGE, ROWS, collected

PROGRAM = typer.main.get_command(app)


def parsed(words: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The name of a command of the program, and the values of its options."""
    found, rest = PROGRAM, list(words)
    while hasattr(found, "commands"):
        name = rest.pop(0)
        found = found.commands[name]
    return name, found.make_context(name, rest).params


def parse_module(words: Sequence[str]) -> None:
    """Raise unless a module's own parser takes its options; the module goes no further."""
    flag, name, *rest = words
    assert flag == "-m"
    parse_args = ArgumentParser.parse_args

    def only_parse(self: ArgumentParser) -> NoReturn:
        parse_args(self, rest)
        raise SystemExit(0)

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(io.StringIO()):
        patch.setattr(ArgumentParser, "parse_args", only_parse)
        with pytest.raises(SystemExit) as ended:
            importlib.import_module(name).main()
    assert ended.value.code == 0


def check(command: str) -> None:
    """Raise unless a command of the page would start: its options, and names of what is known."""
    first, *words = shlex.split(command)
    if first == "pytest":
        assert collected(words) > 0, f"no test is named by {command}"
        return
    if first == "python":
        parse_module(words)
        return
    assert first == "dpicl-rag"
    name, given = parsed(words)
    known = (*COMPARED_METHODS, "all", PUBLISHED)
    named = given.get("methods") or given.get("method") or ""
    for method in [] if name == "local" else named.split(","):  # a choice, which is checked above
        assert not method or method in known or is_writer(method), method
    if name in ("run", "membership", "synthetic", "synthetic-membership", "radius"):
        assert given["task"] in TASK_NAMES


@pytest.mark.one_in(3)
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
        "dpicl-rag evaluate run --task agnews --seeds five",
        "dpicl-rag evaluate run --task agnews --seeds 0",
        "dpicl-rag tabular local --schema heart --epsilon 10 --method one-hit --row {}",
        "pytest -s tests/unit/research/test_nothing.py",
        "pytest -s tests/unit/tabular/test_tabular_aggregates.py -k papyrus",
        "python -m benchmarks.nothing",
        "python -m benchmarks.tabular --publish it",
        "python -m benchmarks.tabular --runs ten",
    ],
)
def test_a_command_that_does_not_exist_is_found(command):
    with pytest.raises((AssertionError, ImportError, KeyError, TyperException)):
        check(command)


FREE = {"synthetic": ("method", "epsilon", "seeds"), "tabular": ("seeds",)}
"""In what runs of one folder may differ; see the `going_on` of each."""


def run_of(command: str) -> tuple[object, ...] | None:
    """The kind and the folder of a run, and all that runs in one folder must have alike."""
    first, *words = shlex.split(command)
    if first != "dpicl-rag" or words[0] != "evaluate":
        return None
    name, given = parsed(words)
    if name in ("report", "convergence", "radius"):
        return None  # what they write is a run's no more
    out = given.pop("out") or given.get("task")
    fixed = {key: value for key, value in given.items() if key not in FREE.get(name, ())}
    return name, str(out), repr(sorted(fixed.items()))


def colliding(commands: Iterable[str]) -> list[str]:
    """Folders that two commands would write runs of other settings to."""
    runs = {run for command in commands if (run := run_of(command)) is not None}
    folders = Counter((name, folder) for name, folder, _ in runs)
    return [folder for (_, folder), number in folders.items() if number > 1]


@pytest.mark.heavy
def test_runs_of_one_folder_have_the_same_settings():
    """The tiny runs of the page have sizes of their own, which would hide it."""
    assert colliding(COMMANDS) == []


def test_runs_of_one_folder_with_other_settings_are_found():
    one = "dpicl-rag evaluate synthetic --task trec --method adaptive --epsilon 4"
    assert colliding([one, f"{one} --seeds 3", f"{one} --epsilon 2"]) == []
    assert colliding([one, f"{one} --max-tokens 9"]) == ["trec"]
    assert colliding([one, f"{one} --max-tokens 9 --out runs/nine"]) == []


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
