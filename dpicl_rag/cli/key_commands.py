"""``keys``: who may ask the server, and what of."""

from __future__ import annotations

from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dpicl_rag.cli import console, data_folder, options

if TYPE_CHECKING:
    from dpicl_rag.server.api_keys import KeyFile

app = typer.Typer(
    help="Make, list and take back keys of the server, and say what they may ask.",
    no_args_is_help=True,
)

KeyCorpus = Annotated[str, typer.Argument(metavar="CORPUS", help="Its name.")]
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
    keys: options.KeysPath = None,
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
                with data_folder.open_ledger(ledger) as book:
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
def list_keys(keys: options.KeysPath = None, as_json: options.AsJson = False) -> None:
    """Say who has a key."""
    with open_keys(keys) as file:
        found, closed = file.callers(), file.closed()
    if as_json:
        names = ("name", "role", "corpora", "each", "a_minute")
        rows = [
            {name: getattr(one, name) for name in names}
            | {"made": None if one.made is None else one.made.isoformat()}
            for one in found
        ]
        console.write_json({"keys": rows, "closed": closed})
        return
    table = console.table("Name", "Role", "Corpora", "Each", "A minute", "Made (UTC)")
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
    for corpus, name in closed.items():
        whose = f"all keys but {name}'s" if name else f"all keys; {_give(corpus)}"
        console.show(f"{corpus} is closed to {whose}")


@app.command()
@console.reported()
def remove(name: Name, keys: options.KeysPath = None, as_json: options.AsJson = False) -> None:
    """Take a key back; it is refused from now on. What was spent stays in the ledger.

    A key that is made again under the name goes on with its budget. It reads nothing of what was
    answered to the old one, and what that uploaded stays closed to it.
    """
    with open_keys(keys) as file:
        alone = [corpus for corpus, whose in file.closed().items() if whose == name]
        file.remove(name)
    if as_json:
        console.write_json({"removed": name})
        return
    typer.echo(f"the key of {name} is taken back")
    for corpus in alone:
        console.note(f"{corpus} is closed to all keys now; {_give(corpus)}")


@app.command("open")
@console.reported()
def open_corpus(
    corpus: KeyCorpus, keys: options.KeysPath = None, as_json: options.AsJson = False
) -> None:
    """Open a corpus that an owner uploaded to the keys that name it, and those that name none."""
    with open_keys(keys) as file:
        file.open_corpus(corpus)
    if as_json:
        console.write_json({"corpus": corpus, "closed": None})
        return
    typer.echo(f"{corpus} is open")


@app.command()
@console.reported()
def give(
    corpus: KeyCorpus, name: Name, keys: options.KeysPath = None, as_json: options.AsJson = False
) -> None:
    """Close a corpus to all keys but one: for an owner whose key was made again."""
    with open_keys(keys) as file:
        file.give_corpus(corpus, name)
    if as_json:
        console.write_json({"corpus": corpus, "closed": name})
        return
    typer.echo(f"{corpus} is closed to all keys but that of {name}")


def _give(corpus: str) -> str:
    return f"`dpicl-rag keys give {corpus} NAME` or `keys open {corpus}` says who may ask it"


def open_keys(path: Path | None) -> AbstractContextManager[KeyFile]:
    """Open the file of keys."""
    from dpicl_rag.server.api_keys import KeyFile

    return closing(KeyFile(path or data_folder.default_keys()))
