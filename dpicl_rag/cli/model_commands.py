"""``models``: what a language model is fit for; and a newcomer's first one, offered once."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from platformdirs import user_cache_path

from dpicl_rag.cli import console, options, settings_file

if TYPE_CHECKING:
    from rich.table import Table

    from dpicl_rag.rehearsal import Rehearsal

app = typer.Typer(help="Find out what a language model is fit for.", no_args_is_help=True)


@app.command()
@console.reported()
def show(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="As --model has it: small, an id, a ./FOLDER, an address. The default by default.",
        ),
    ] = None,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Show how well a model answers from documents, and says nothing where they do not tell.

    The first time it is asked about public documents, which takes minutes. No private one is read.
    """
    from dpicl_rag.language_models.load_language_model import load_language_model
    from dpicl_rag.rehearsal import labelling_of, rehearsal_of

    with console.status("Loading the language model", quiet=quiet):
        model = load_language_model(name)
    with console.Bar("Rehearsing answers", quiet=quiet, counts=True, logged=True) as bar:
        found = rehearsal_of(model, on_progress=bar.update)
    with console.Bar("Rehearsing labels", quiet=quiet, counts=True, logged=True) as bar:
        labels = labelling_of(model, on_progress=bar.update)
    can = "may tally" if labels.countable else "tallies of labels are refused"
    if as_json:
        told = {"model": name, "verdict": found.verdict, "knows_silence": found.knows_silence}
        console.write_json(told | {"labels": asdict(labels)} | asdict(found))
        return
    console.show(found.verdict)
    console.show(f"{labels.verdict}: {can}")
    if found.by_language:
        console.stdout().print(_table(found))


def _table(found: Rehearsal) -> Table:
    table = console.table("language", "right", "silent", "silent, asked near")
    for name, one in (*found.by_language.items(), ("all", found)):
        silent = (one.silent, one.far), (one.silent_near, one.near)
        cells = [f"{done} of {asked}" if asked else "not asked" for done, asked in silent]
        table.add_row(name, f"{one.answered} of {one.told}", *cells)
    return table


_TOY = (
    "The language model that comes with dpicl-rag is a toy: asked for times, amounts and names "
    "documents are read by sentences without it, and few of its other answers are right."
)
_FETCHED = "1.1 GB from the Hugging Face hub and about 4 minutes once, 3 GB in {folder}"
_ASKED = "answers from 64 documents take 30 to 60 seconds on two processors"


def chosen_model(named: str | None, *, asks: bool) -> str | None:
    """The model that was named; else ``small``, where a newcomer at a terminal wants it.

    They are asked once. A yes is kept in the settings file, where it can be changed, and a no in
    the user's cache folder.
    """
    there = asks and sys.stdin.isatty() and sys.stderr.isatty()
    if named is not None or not there or _declined().exists():
        return named
    from dpicl_rag.errors import ModelError
    from dpicl_rag.language_models.converted_models import SMALL

    console.note(_TOY)
    fetched = "is here" if SMALL.is_here else f"is fetched: {_FETCHED.format(folder=SMALL.place)}"
    console.note(f"A model of 1.5 billion parameters, small, {fetched}; {_ASKED}.")
    if not typer.confirm("Take small from now on?", err=True):
        with contextlib.suppress(OSError):
            _declined().parent.mkdir(parents=True, exist_ok=True)
            _declined().touch()
        return None
    try:
        with console.status("Fetching small, which takes minutes", quiet=False):
            SMALL.folder()
    except ModelError as error:
        console.note(f"{error}. The toy goes on.")
        return None
    _keep()
    return "small"


def _declined() -> Path:
    return user_cache_path("dpicl-rag") / "small-declined"


def _keep() -> None:
    """Name ``small`` in the settings file, before all that stands there."""
    from dpicl_rag.files.run_files import write_whole

    path = settings_file.current().path.resolve()
    try:
        before = path.read_bytes() if path.exists() else b""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, b'model = "small"\n' + before)
    except OSError:
        console.note(f"{path} cannot be written: give --model small each time")
        return
    console.note(f'model = "small" is in {path} now')
