"""``corpora``: list and delete corpora, forget units and messages, see joins and scores."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpicl_rag.cli import console, data_folder, file_budgets, options
from dpicl_rag.cli import show_joins as joins_view
from dpicl_rag.configuration import UNITS
from dpicl_rag.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpicl_rag.retrieval import ScoreHistogram

_WIDTH = 40

app = typer.Typer(
    help="List and delete corpora, see joins, forget a unit or a message, choose a threshold.",
    no_args_is_help=True,
)


@app.command()
@console.reported("interrupted; nothing was shown")
def scores(
    name: options.CorpusArgument,
    question: Annotated[
        list[str],
        typer.Argument(metavar="QUESTION...", help="Questions as they will be asked. Public."),
    ],
    sigma: Annotated[
        float, typer.Option(help="Noise on each count, above 0; less noise costs more.")
    ] = 3.0,
    units: Annotated[
        int, typer.Option(min=1, help="Suggest the threshold that lets about this many units pass.")
    ] = UNITS,
    caller: options.CallerOption = None,
    path: options.StorePath = None,
    embedder: options.Embedding = None,
    ledger: options.LedgerPath = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Count the units between thresholds, with noise, to choose a threshold for `ask`.

    Each question costs every unit of the corpus 1 / (2 sigma^2) of rho, which the ledger pays
    before anything is shown.
    """
    from dpicl_rag.retrieval import score_histograms, suggest_threshold
    from dpicl_rag.retrieval.score_histogram import histograms_rho

    rho = histograms_rho(sigma, len(question))
    with (
        data_folder.open_corpus(name, path, embedder) as corpus,
        file_budgets.open_book(ledger, corpus.name) as book,
        console.status("Counting", quiet=quiet),
    ):
        assert book is not None  # of a corpus that is named
        found = score_histograms(
            corpus, question, ledger=book, corpus=corpus.name, caller=caller, sigma=sigma
        )
    suggested = suggest_threshold(found, units)
    if as_json:
        console.write_json(_public(found, suggested, units, rho))
        return
    for histogram in found:
        _plot(histogram)
    console.show(f"about {units} units: --threshold {suggested:g}")
    spent = f"epsilon {options.epsilon_of(rho):.3g}, delta {options.DELTA:g}, rho {rho:.4g}"
    console.show(f"spent: {spent}", style="dim")


@app.command("list")
@console.reported()
def list_corpora(path: options.StorePath = None, as_json: options.AsJson = False) -> None:
    """Name the corpora of a store."""
    from dpicl_rag.corpora import Corpus

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
    from dpicl_rag.corpora import Corpus

    if name not in Corpus.names(path):
        raise CorpusError(f"no corpus named {name!r}; `dpicl-rag corpora list` names them")
    if not yes:
        typer.confirm(f"Delete the corpus {name} and all its texts?", abort=True)
    data_folder.forget_reading(name, path)
    Corpus.delete(name, path)
    typer.echo(
        f"deleted corpus {name}; its budget and what was spent stay in the ledger, and its "
        f"released answers in the memory (`dpicl-rag memory clear --corpus {name}`)"
    )


AddressArgument = Annotated[
    str, typer.Argument(metavar="ADDRESS", help="chroma:FOLDER-OR-URL#COLLECTION")
]


@app.command()
@console.reported()
def check(address: AddressArgument, as_json: options.AsJson = False) -> None:
    """Show what is in a Chroma collection: records, fields, vectors, and what is missing.

    For the owner: it is private, and costs nothing.
    """
    from dpicl_rag.stores.adoption import account_of

    found = account_of(address)
    if as_json:
        console.write_json({**asdict(found), "missing": list(found.missing)})
        return
    fields = ", ".join(f"{name} ({count:,})" for name, count in found.fields.items())
    lines = {
        "records": f"{found.records:,}",
        "fields": fields or "none",
        "dimension": "none" if found.dimension is None else str(found.dimension),
        "distance": found.distance,
        "unit": found.unit or "not on record",
        **({"asked for": found.asked} if found.asked else {}),
        "could be the unit": ", ".join(found.candidates) or "none that several records share",
    }
    for label, value in lines.items():
        console.show(f"{label}: {value}")
    for line in found.missing:
        console.show(f"missing: {line}")


@app.command()
@console.reported()
def adopt(
    address: AddressArgument,
    unit: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD",
            help="Metadata field that holds the privacy unit; document: each record is one.",
        ),
    ] = None,
    ledger: options.LedgerPath = None,
) -> None:
    """Put on record what a privacy unit of a Chroma collection is. It keeps it."""
    from dpicl_rag.stores.adoption import adopt as put_on_record

    with data_folder.find_ledger(ledger) as book:
        field = put_on_record(address, unit, book)
    typer.echo(f"a unit of {address} is: {'one record' if field == 'document' else field}")


@app.command()
@console.reported()
def release(address: AddressArgument, ledger: options.LedgerPath = None) -> None:
    """Take the unit of a Chroma collection back, while nothing was spent under it."""
    from dpicl_rag.stores.adoption import release as take_back

    with data_folder.find_ledger(ledger) as book:
        former = take_back(address, book)
    typer.echo(f"{address} has no unit on record" + (f"; it was {former}" if former else ""))


@app.command()
@console.reported()
def joins(
    name: options.CorpusArgument,
    path: options.StorePath = None,
    embedder: options.Embedding = None,
    as_json: options.AsJson = False,
) -> None:
    """Show which units became one, the latest first, and by which messages. For the owner.

    `corpora forget NAME --message ID` undoes one.
    """
    with data_folder.open_own_corpus(name, path, embedder) as corpus:
        found = corpus.joins()
    if as_json:
        console.write_json({"corpus": name, "joins": [joins_view.view(join) for join in found]})
        return
    joins_view.show(found)
    if not found:
        console.note(f"No units of corpus {name} became one.")


@app.command()
@console.reported()
def forget(
    name: options.CorpusArgument,
    unit: Annotated[
        str | None, typer.Option(help="The privacy unit, for example a thread or an address.")
    ] = None,
    message: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="One message of a unit: its Message-ID, or its name among the joins. What it "
            "alone held together is separate again, and it stays out of the corpus.",
        ),
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="List the units that have a person in a field, by an address or a name, and "
            "delete nothing: the owner chooses with --unit.",
        ),
    ] = None,
    path: options.StorePath = None,
    embedder: options.Embedding = None,
    ledger: options.LedgerPath = None,
    no_ledger: options.NoLedger = False,
    as_json: options.AsJson = False,
) -> None:
    """Delete the texts of a privacy unit, or a message. What was spent stays spent."""
    from dpicl_rag.corpora import Corpus

    options.at_most_one({"--unit": unit, "--message": message, "--person": person})
    if person is not None:
        _show_units_of(person, name, path, embedder, as_json=as_json)
        return
    if as_json:
        raise typer.BadParameter("is for --person", param_hint="--json")
    if unit is None and message is None:
        raise typer.BadParameter("say what to forget", param_hint="--unit, --message or --person")
    with nullcontext() if no_ledger else data_folder.open_ledger(ledger) as book:
        if message is not None:
            with data_folder.open_own_corpus(name, path, embedder) as own:
                data_folder.forget_units_read(own, path, own.units_of_message(message))
                own.forget_message(message, ledger=book, no_ledger=no_ledger)
        elif unit is not None:
            with data_folder.open_corpus(name, path, embedder) as corpus:
                if isinstance(corpus, Corpus):
                    data_folder.forget_units_read(corpus, path, {corpus.name_of_unit(unit)})
                else:  # of one that is kept elsewhere no reply is kept here
                    data_folder.forget_reading(corpus.name, path)
                corpus.delete_unit(unit)
                if book is not None:
                    book.forget_units(corpus.name, [unit])
    typer.echo(f"nothing of that {'unit' if message is None else 'message'} is in corpus {name}")


def _show_units_of(
    person: str, name: str, path: str | None, embedder: str | None, *, as_json: bool
) -> None:
    from dpicl_rag.corpora.units_of_person import units_of_person

    with data_folder.open_corpus(name, path, embedder) as corpus:
        found = units_of_person(corpus.records(), person)
    if not found:
        raise CorpusError(
            f"no record of corpus {name} has that person in a field; nothing was deleted. Texts "
            "are not looked at"
        )
    if as_json:
        units = [{"unit": unit, "records": records} for unit, records in sorted(found.items())]
        console.write_json({"corpus": name, "units": units})
        return
    for unit, records in sorted(found.items()):
        typer.echo(f"{unit}  ({records} record{'s' * (records > 1)})")
    console.note(f"Nothing was deleted: `dpicl-rag corpora forget {name} --unit UNIT` deletes one.")


def _public(
    found: Sequence[ScoreHistogram], suggested: float, units: int, rho: float
) -> dict[str, Any]:
    return {
        "histograms": [
            {one: getattr(each, one) for one in ("question", "thresholds", "counts", "passing")}
            for each in found
        ],
        "sigma": found[0].sigma,
        "units": units,
        "suggested_threshold": suggested,
        "epsilon": options.epsilon_of(rho),
        "delta": options.DELTA,
        "rho": rho,
    }


def _plot(histogram: ScoreHistogram) -> None:
    """A bar for each noisy count."""
    from rich import box
    from rich.bar import Bar
    from rich.table import Table

    title = f"{console.printable(histogram.question)}\n(noise of {histogram.sigma:g} on each count)"
    table = Table(box=box.SIMPLE, title=title, title_justify="left", title_style="")
    table.add_column("Cosine from", justify="right")
    table.add_column("Units", justify="right")
    table.add_column("", width=_WIDTH)
    table.add_column("All above", justify="right")
    tallest = max(1, *histogram.counts)
    rows = zip(histogram.thresholds, histogram.counts, histogram.passing, strict=True)
    for threshold, count, passing in rows:
        bar = Bar(tallest, 0, max(0, count), width=_WIDTH)
        table.add_row(f"{threshold:.2f}", str(count), bar, str(passing))
    console.stdout().print(table)
