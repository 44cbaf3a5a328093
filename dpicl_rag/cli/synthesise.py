"""``synthesise``: write a synthetic corpus once, under one budget, for any program to read."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dpicl_rag.cli import (
    asking,
    console,
    data_folder,
    file_budgets,
    option_groups,
    options,
    synthesise_examples,
)

if TYPE_CHECKING:
    from dpicl_rag.synthesis.corpus_plan import CorpusPlan

app = typer.Typer(
    help="Write a synthetic corpus once; every later question to it is free.",
    no_args_is_help=True,
)

app.command("examples")(synthesise_examples.examples)

_KEPT = "interrupted; what was drawn is kept, and the same command goes on with it"

SourceName = Annotated[str, typer.Argument(metavar="CORPUS", help="The private corpus.")]
RunFolder = Annotated[
    Path,
    typer.Option("--out", metavar="DIR", help="Folder of the run, so that a kill loses nothing."),
]


@dataclass(frozen=True)
class Writing:
    """The price of a synthetic corpus, and the way it is drawn."""

    epsilon: Annotated[
        float, typer.Option(help="Privacy of all records together; less is more private.")
    ]
    delta: options.Delta = options.DELTA
    topics: Annotated[
        int, typer.Option(min=1, help="Most key words that records are written about.")
    ] = 100
    topics_per_unit: Annotated[
        int, typer.Option(min=1, help="Most records that one unit is in; each gets as much less.")
    ] = 3
    words_per_unit: Annotated[
        int, typer.Option(min=1, help="Most words of a unit that are counted.")
    ] = 3
    batch: Annotated[int, typer.Option(min=1, help="Units that a record aims to read.")] = 32
    records_per_topic: Annotated[int, typer.Option(min=1, help="Most records of one key word.")] = 3
    keys: Annotated[
        Literal["both", "list", "trie"],
        typer.Option(help="Key words from a public list, spelled out by letters, or both."),
    ] = "both"
    template: Annotated[
        Path | None,
        typer.Option(metavar="TOML", help="Fields of a record, and the public words around them."),
    ] = None
    unit_tokens: Annotated[int, typer.Option(help="Most tokens read of each unit.")] = 256

    def plan(self) -> CorpusPlan:
        """The plan, checked.

        Raises:
            ConfigurationError: A setting is outside its range, or the template is none.
        """
        from dpicl_rag.synthesis.corpus_plan import CorpusPlan

        return CorpusPlan.create(**self.settings())

    def settings(self) -> dict[str, Any]:
        """Fields of a plan, the template read."""
        from dpicl_rag.synthesis.template import RecordTemplate

        given = self.template
        shape = RecordTemplate() if given is None else RecordTemplate.read(given)
        return {**vars(self), "template": shape}


@app.command("corpus")
@console.reported(_KEPT)
@option_groups.expanded
def corpus(
    source: SourceName,
    into: Annotated[
        str,
        typer.Option(
            "--into",
            metavar="NAME",
            help="Name of the synthetic corpus, or chroma:FOLDER-OR-URL#COLLECTION.",
        ),
    ],
    out: RunFolder,
    writing: Writing,
    keep: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="Keep records in which this is found."),
    ] = None,
    into_path: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Another folder for the synthetic corpus than --path."),
    ] = None,
    model: options.Model = None,
    path: options.StorePath = None,
    embedder: options.Embedding = None,
    ledger: options.LedgerPath = None,
    no_ledger: options.NoLedger = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Write records from a private corpus. Started again, it goes on where it stopped."""
    settings = writing.settings()
    writing.plan()  # for its checks, before anything slow
    with ExitStack() as stack:
        with console.status("Opening the corpus", quiet=quiet):
            private = stack.enter_context(data_folder.open_corpus(source, path, embedder))
            book = (
                None
                if no_ledger
                else stack.enter_context(file_budgets.open_book(ledger, private.name))
            )
        from dpicl_rag.ledger import NoBudgetWarning
        from dpicl_rag.synthesis.public_records import matching
        from dpicl_rag.synthesis.synthetic_corpus import synthesise_corpus

        wanted = None if keep is None else matching(keep)
        bar = stack.enter_context(console.Bar("Writing records", quiet=quiet, counts=True))
        with console.told(NoBudgetWarning):
            made = synthesise_corpus(
                private,
                into,
                **settings,
                keep=wanted,
                model=model,
                ledger=book,
                path=into_path or path,
                folder=out,
                on_progress=bar.update,
            )
    spent = {"epsilon": made.epsilon, "delta": made.delta, "rho": made.rho}
    counted = {"records": len(made.records), "tokens": sum(r.tokens for r in made.records)}
    if as_json:
        console.write_json({"corpus": into, **counted, **spent})
        return
    number = len(made.records)
    told = f"{number} {'record' if number == 1 else 'records'} in corpus {into}"
    typer.echo(f"{told}; ask it as often as you like")
    line = f"spent: epsilon {made.epsilon:g}, delta {made.delta:g}, rho {made.rho:.4g}"
    console.stdout().print(line + (" (not recorded)" if no_ledger else ""), style="dim")


@app.command("plan")
@console.reported()
@option_groups.expanded
def plan(writing: Writing, as_json: options.AsJson = False) -> None:
    """Say what a synthetic corpus would cost and how long it takes. No data are touched."""
    asking.print_plan(writing.plan(), as_json=as_json)


@app.command("show")
@console.reported()
def show(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run.")],
    as_json: options.AsJson = False,
) -> None:
    """Show what a run has released: its keys, and its records once it is done."""
    from dpicl_rag.synthesis.released_records import RECORDS_FILE, Synthesis
    from dpicl_rag.synthesis.synthesis_folder import read_run

    run = read_run(folder)
    ended = [drawn for drawn in run.records.values() if drawn.stopped_by is not None]
    found = {
        "records_begun": len(run.records),
        "records_ended": len(ended),
        "tokens": sum(len(drawn.tokens) for drawn in run.records.values()),
        "charges": dict(run.charges),
    }
    file = folder / RECORDS_FILE
    records = Synthesis.read(file).records if file.exists() else ()
    if as_json:
        texts = [{"key": r.key, "label": r.label, "text": r.text} for r in records]
        console.write_json({**found, "finished": file.exists(), "records": texts})
        return
    state = "finished" if file.exists() else "under way, or stopped: the same command goes on"
    typer.echo(
        f"{state}; {len(ended)} of {len(run.records)} records begun have ended, "
        f"{found['tokens']} tokens drawn"
    )
    for record in records:
        about = record.key or record.label or ""
        console.stdout().print(console.printable(f"{about}: {record.text}"), soft_wrap=True)
