"""Parts of every evaluation: names and numbers, a language model, reports on the screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from dpicl_rag.cli import console, data_folder
from dpicl_rag.mechanisms.randomness import NotPrivateWarning

if TYPE_CHECKING:
    from dpicl_rag.language_models.base import LanguageModel
    from dpicl_research.report import Report

N = TypeVar("N", int, float)

GOES_ON = "interrupted; the same command goes on where it stopped"

Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder of the run; one that was interrupted goes on. Below runs/ by default.",
    ),
]


@dataclass(frozen=True)
class Writing:
    """How shots are written where methods that write some stand beside others."""

    shots: Annotated[
        int, typer.Option(min=1, help="Labels that few-shot and its like write a text for.")
    ] = 4
    shot_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of such a text.")] = 40
    shot_experts: Annotated[
        int, typer.Option(min=1, help="Experts expected at a token of such a text.")
    ] = 20
    shot_rate: Annotated[
        float | None,
        typer.Option(
            help="Public rate of their samples, fixed beforehand; a task file needs it for them."
        ),
    ] = None


def names(text: str) -> list[str]:
    """Names separated by commas, each once."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def numbers(text: str, option: str, kind: type[N]) -> list[N]:
    """The numbers of an option such as ``4,8``: all above 0, each once, the smallest first.

    Args:
        text: Given on the command line.
        option: Its name.
        kind: ``int`` or ``float``.

    Raises:
        BadParameter: Something in it is no such number.
    """
    try:
        found = sorted({kind(part) for part in text.split(",")})
    except ValueError:
        found = []
    if not found or not all(0 < number < float("inf") for number in found):
        what = "whole numbers" if kind is int else "numbers"
        raise typer.BadParameter(f"give {what} above 0, such as 4,8", param_hint=option)
    return found


@contextmanager
def language_model(
    name: str | None, gigabytes: int, *, quiet: bool, workers: int | None = None
) -> Iterator[LanguageModel]:
    """A language model that keeps gigabytes of what it read: examples are read once."""
    from dpicl_rag.language_models.load_language_model import load_language_model
    from dpicl_rag.language_models.prefix_cache import PrefixCache

    with ExitStack() as stack:
        loading = console.status("Loading the language model", quiet=quiet)
        with console.told(NotPrivateWarning), loading:
            spread = stack.enter_context(data_folder.spread_model(name, workers))
            model = load_language_model(spread, PrefixCache(gigabytes << 30))
        yield model


def show(reports: Sequence[Report], as_json: bool) -> None:
    """Print reports as results: tables, or one JSON object."""
    from rich.table import Table

    if as_json:
        found = [report.summary() for report in reports]
        console.write_json(found[0] if len(found) == 1 else {"reports": found})
        return
    for report in reports:
        if heading := report.heading():
            console.stdout().print(f"\n{heading}", style="bold")
        for words in report.tables():
            shown = Table(title=words.title, title_justify="left")
            for number, column in enumerate(words.columns):
                shown.add_column(column, overflow="fold", no_wrap=number == 0)
            for row in words.rows:
                shown.add_row(*row)
            console.stdout().print(shown)
