"""``models``: what a language model is fit for."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from dpicl_rag.cli import console, options

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
    with console.Bar("Rehearsing", quiet=quiet, counts=True, logged=True) as bar:
        found = rehearsal_of(model, on_progress=bar.update)
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
