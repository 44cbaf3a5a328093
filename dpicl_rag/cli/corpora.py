"""``corpora``: list and delete corpora, forget a unit of one, and see how scores are spread."""

from __future__ import annotations

from typing import Annotated

import typer

from dpicl_rag.cli import console, options, scores, stores
from dpicl_rag.errors import CorpusError

app = typer.Typer(
    help="List and delete corpora, forget a unit, choose a threshold.", no_args_is_help=True
)
app.command("scores")(scores.scores)


@app.command("list")
@console.reported()
def list_corpora(path: options.StorePath = None, as_json: options.AsJson = False) -> None:
    """Name the corpora of a store."""
    from dpicl_rag.retrieval import Corpus

    names = Corpus.names(path)
    if as_json:
        console.write_json({"corpora": names})
        return
    for name in names:
        typer.echo(name)
    if not names:
        console.note("There is no corpus yet; make one with `dpicl-rag ingest PATH --corpus NAME`.")


@app.command()
@console.reported()
def delete(
    name: options.CorpusArgument,
    path: options.StorePath = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a corpus. What its answers have spent stays in the ledger, and so do the answers."""
    from dpicl_rag.retrieval import Corpus

    if name not in Corpus.names(path):
        raise CorpusError(f"no corpus named {name!r}; `dpicl-rag corpora list` names them")
    if not yes:
        typer.confirm(f"Delete the corpus {name} and all its texts?", abort=True)
    stores.forget_prefixes(name, path)
    Corpus.delete(name, path)
    typer.echo(
        f"deleted corpus {name}; its budget and what was spent stay in the ledger, and its "
        f"released answers in the memory (`dpicl-rag memory clear --corpus {name}`)"
    )


@app.command()
@console.reported()
def forget(
    name: options.CorpusArgument,
    unit: Annotated[
        str, typer.Option(help="The privacy unit, for example a thread or an address.")
    ],
    path: options.StorePath = None,
    embedder: options.Embedding = None,
    ledger: options.LedgerPath = None,
) -> None:
    """Delete the texts of a privacy unit. What it has spent stays, should it come back."""
    with stores.open_corpus(name, path, embedder) as corpus:
        # All that was read of the corpus: which part is the unit's, no name tells.
        stores.forget_prefixes(name, path)
        corpus.delete_unit(unit)
    with stores.open_ledger(ledger) as book:
        book.forget_units(name, [unit])
    typer.echo(f"nothing of that unit is in corpus {name}")
