"""``keys``: who may ask the server, and what of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dpicl_rag.cli import console, options, stores

if TYPE_CHECKING:
    from dpicl_rag.server.keys import KeyFile

app = typer.Typer(help="Make, list and take back keys of the server.", no_args_is_help=True)

KeysPath = Annotated[
    Path | None,
    typer.Option(
        "--keys",
        metavar="FILE",
        envvar="DPICL_RAG_KEYS",
        help="File of the keys' hashes; keys.sqlite in your data folder by default.",
    ),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Who it is for: the ledger's caller.")]


@app.command()
@console.reported()
def add(
    name: Name,
    corpus: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A corpus that may be asked; all by default."),
    ] = None,
    owner: Annotated[
        bool, typer.Option("--owner", help="May also fill corpora and set budgets.")
    ] = False,
    epsilon: Annotated[
        float | None,
        typer.Option(help="What all answers of a period to this caller may reveal together."),
    ] = None,
    delta: options.Delta = options.DELTA,
    period: Annotated[
        Literal["lifetime", "day", "month", "year"],
        typer.Option(help="How often that budget renews (UTC)."),
    ] = "lifetime",
    each: Annotated[
        int | None,
        typer.Option(min=1, help="Questions at a time; the server's --each by default."),
    ] = None,
    a_minute: Annotated[
        int | None,
        typer.Option(min=1, help="Questions a minute; the server's --a-minute by default."),
    ] = None,
    keys: KeysPath = None,
    ledger: options.LedgerPath = None,
    as_json: options.AsJson = False,
) -> None:
    """Make a key and show it, this once. Only its hash is kept."""
    with open_keys(keys) as file:
        key = file.add(
            name,
            role="owner" if owner else "caller",
            corpora=corpus,
            each=each,
            a_minute=a_minute,
        )
        try:
            if epsilon is not None:
                with stores.open_ledger(ledger) as book:
                    book.set_budget(caller=name, epsilon=epsilon, delta=delta, period=period)
        except BaseException:
            file.remove(name)  # no key goes without the budget that it was to have
            raise
    if as_json:
        console.write_json({"name": name, "key": key})
        return
    typer.echo(key)
    console.note("It is not shown again. Clients send it as their API key.")


@app.command("list")
@console.reported()
def list_keys(keys: KeysPath = None, as_json: options.AsJson = False) -> None:
    """Say who has a key."""
    from rich import box
    from rich.table import Table

    with open_keys(keys) as file:
        found = file.callers()
    rows = [
        {
            "name": one.name,
            "role": one.role,
            "corpora": one.corpora,
            "each": one.each,
            "a_minute": one.a_minute,
            "made": None if one.made is None else one.made.isoformat(),
        }
        for one in found
    ]
    if as_json:
        console.write_json({"keys": rows})
        return
    table = Table("Name", "Role", "Corpora", "Each", "A minute", "Made (UTC)", box=box.SIMPLE)
    for one in found:
        made = "" if one.made is None else one.made.strftime("%Y-%m-%d %H:%M")
        corpora = "all" if one.corpora is None else ", ".join(one.corpora)
        limits = [str(limit or "") for limit in (one.each, one.a_minute)]
        row = (one.name or "", one.role, corpora, *limits, made)
        table.add_row(*map(console.printable, row))
    if found:
        console.stdout().print(table)
    else:
        console.stdout().print("Nobody has a key yet.")


@app.command()
@console.reported()
def remove(name: Name, keys: KeysPath = None, as_json: options.AsJson = False) -> None:
    """Take a key back; it is refused from now on. What was spent stays in the ledger."""
    with open_keys(keys) as file:
        file.remove(name)
    if as_json:
        console.write_json({"removed": name})
        return
    typer.echo(f"the key of {name} is taken back")


@contextmanager
def open_keys(path: Path | None) -> Iterator[KeyFile]:
    """Open the file of keys."""
    from dpicl_rag.server.keys import KeyFile

    file = KeyFile(path or stores.default_keys())
    try:
        yield file
    finally:
        file.close()
