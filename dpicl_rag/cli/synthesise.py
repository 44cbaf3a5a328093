"""``synthesise``: a synthetic corpus, or labelled texts for prompts, written once, read freely."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dpicl_rag.cli import asking, console, data_folder, file_budgets, option_groups, options
from dpicl_rag.errors import ConfigurationError

if TYPE_CHECKING:
    from dpicl_rag.accounting import Adjacency
    from dpicl_rag.synthesis.corpus_plan import CorpusPlan
    from dpicl_rag.synthesis.examples_plan import ExamplesPlan
    from dpicl_rag.synthesis.noisy_sums import AdaptiveConstants
    from dpicl_rag.synthesis.pools import LabelledDocument
    from dpicl_rag.synthesis.released_records import Synthesis

app = typer.Typer(
    help="Write a synthetic corpus once; every later question to it is free.",
    no_args_is_help=True,
)

_KEPT = "interrupted; what was drawn is kept, and the same command goes on with it"


@dataclass(frozen=True)
class ExampleWriting:
    """The price of the texts, and the way they are drawn."""

    labels: Annotated[
        str,
        typer.Option(metavar="A,B,...", help="The public list of labels; others are left out."),
    ]
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Of all texts together; less is more private. It may be left out where all noise "
            "of the adaptive method is given."
        ),
    ] = None
    delta: options.Delta = options.DELTA
    shots: Annotated[int, typer.Option(min=1, help="Texts of each label.")] = 1
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="exponential, few-shot, few-shot-permute-and-flip, adaptive or difference.",
        ),
    ] = "exponential"
    max_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of a text.")] = 40
    experts: Annotated[int, typer.Option(min=1, help="Experts expected at a token.")] = 20
    per_expert: Annotated[int, typer.Option(min=1, help="Examples that an expert reads.")] = 1
    rate: Annotated[
        float | None,
        typer.Option(
            help="Public rate of samples, fixed beforehand; all examples are read where there is "
            "none."
        ),
    ] = None
    candidates: Annotated[int, typer.Option(min=1, help="Candidates of noisy sums.")] = 100
    labels_per_unit: Annotated[
        int, typer.Option(min=1, help="Labels of one unit; so many labels are charged to it.")
    ] = 1
    adjacency: Annotated[
        str, typer.Option(metavar="add_or_remove_one|replace_one", help="What neighbours are.")
    ] = "add_or_remove_one"

    def settings(self) -> dict[str, Any]:
        """Arguments of `synthesise_examples`.

        Raises:
            ConfigurationError: The adjacency is unknown.
        """
        given = dict(vars(self))
        return {
            "labels": [label.strip() for label in given.pop("labels").split(",")],
            "texts_per_label": given.pop("shots"),
            "adjacency": adjacency_of(given.pop("adjacency")),
            **given,
        }


def _of_adaptive(help: str, metavar: str = "NUMBER") -> Any:
    return typer.Option(metavar=metavar, help=f"Of adaptive: {help}")


@dataclass(frozen=True)
class Constants:
    """Constants of the adaptive method, which steer its radius and price a token."""

    radius_noise: Annotated[
        float | None,
        _of_adaptive(
            "noise of the radius search over its sensitivity (sigma 0). With all three given, the "
            "price follows from them."
        ),
    ] = None
    mean_noise: Annotated[float | None, _of_adaptive("noise of each mean (sigma 1).")] = None
    count_noise: Annotated[float | None, _of_adaptive("noise of each count (sigma 2).")] = None
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Of adaptive: most refined means; 1 by default.")
    ] = None
    precision: Annotated[
        float | None,
        _of_adaptive("the radius search ends at an interval as long; 0.1 by default."),
    ] = None
    slack: Annotated[
        float | None,
        _of_adaptive("lambda, how much of the noise is added to the radius; 0.25 by default."),
    ] = None
    captured: Annotated[
        float | None, _of_adaptive("experts that the radius is to hold; 0.8 by default.", "SHARE")
    ] = None
    enough: Annotated[
        float | None,
        _of_adaptive("experts that a smaller ball must hold; 0.55 by default.", "SHARE"),
    ] = None
    radius: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="A public radius: of adaptive in place of its search, of difference in place of "
            "0.5.",
        ),
    ] = None

    def adaptive(self) -> AdaptiveConstants | None:
        """The constants; None where none is given.

        Raises:
            ConfigurationError: One is outside its range.
        """
        from dpicl_rag.synthesis.noisy_sums import AdaptiveConstants

        given = {k: v for k, v in vars(self).items() if v is not None and k != "radius"}
        return AdaptiveConstants(**given) if given else None

    def settings(self) -> dict[str, Any]:
        """Arguments of `synthesise_examples`."""
        return {"adaptive": self.adaptive(), "radius": self.radius}


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


@dataclass(frozen=True)
class LabelledTable:
    """A private table of texts with labels."""

    source: Annotated[Path, typer.Argument(metavar="TABLE", help="CSV or JSON Lines.")]
    text_column: Annotated[str, typer.Option(help="Column with the text.")] = "text"
    label_column: Annotated[str, typer.Option(help="Column with the label.")] = "label"
    unit: Annotated[
        str, typer.Option(metavar="NAME", help="Column that is protected as a whole; or each row.")
    ] = "document"

    @property
    def columns(self) -> tuple[str, str]:
        """Those of texts and of labels."""
        return self.text_column, self.label_column

    def read(self, quiet: bool) -> list[LabelledDocument]:
        """Its rows. Private."""
        from dpicl_rag.loaders import load_private_table
        from dpicl_rag.synthesis.pools import LabelledDocument

        with console.status("Reading", quiet=quiet):
            documents = load_private_table(
                self.source, self.columns, unit=self.unit, text_field=self.text_column
            )
        return [
            LabelledDocument(one.text, one.metadata.get(self.label_column, ""), one.unit)
            for one in documents
        ]


@app.command("examples")
@console.reported(_KEPT)
@option_groups.expanded
def examples(
    writing: ExampleWriting,
    constants: Constants,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder of the run, so a kill loses nothing."),
    ] = None,
    *,
    table: LabelledTable,
    plan: options.CostPlan = False,
    corpus: options.ChargedOption = None,
    model: options.Model = None,
    ledger: options.LedgerPath = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Write examples from a private table. With --out, the same command goes on."""
    settings = {**writing.settings(), **constants.settings()}
    planned = _plan(settings, in_ledger=corpus is not None)
    if plan:
        asking.print_plan(planned, as_json=as_json)
        return
    if out is None:
        raise ConfigurationError("give the folder of the run with --out, so a kill loses nothing")
    private = table.read(quiet)
    from dpicl_rag.synthesis.examples import synthesise_examples
    from dpicl_rag.synthesis.released_records import RECORDS_FILE

    writing_texts = console.Bar("Writing texts", quiet=quiet, counts=True)
    with file_budgets.open_book(ledger, corpus) as book, writing_texts as bar:
        made = synthesise_examples(
            private,
            **settings,
            model=model,
            ledger=book,
            corpus=corpus or "default",
            folder=out,
            on_progress=bar.update,
        )
    made.write(out / RECORDS_FILE)
    _show(made, as_json, recorded=book is not None)


@app.command("corpus")
@console.reported(_KEPT)
@option_groups.expanded
def corpus(
    source: Annotated[str, typer.Argument(metavar="CORPUS", help="The private corpus.")],
    into: Annotated[
        str,
        typer.Option(
            "--into",
            metavar="NAME",
            help="Name of the synthetic corpus, or chroma:FOLDER-OR-URL#COLLECTION.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="DIR", help="Folder of the run, so that a kill loses nothing."
        ),
    ],
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
            booked = None if no_ledger else private.name
            book = stack.enter_context(file_budgets.open_book(ledger, booked))
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
    number = len(made.records)
    if as_json:
        counted = {"records": number, "tokens": sum(r.tokens for r in made.records)}
        console.write_json({"corpus": into, **counted, **_cost(made)})
        return
    told = f"{number} {'record' if number == 1 else 'records'} in corpus {into}"
    typer.echo(f"{told}; ask it as often as you like")
    line = f"spent: epsilon {made.epsilon:g}, delta {made.delta:g}, rho {made.rho:.4g}"
    console.show(line + (" (not recorded)" if no_ledger else ""), style="dim")


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
    from dpicl_rag.synthesis.synthesis_run import read_run

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
        console.show(f"{about}: {record.text}")


def _plan(settings: dict[str, Any], *, in_ledger: bool) -> ExamplesPlan:
    from dpicl_rag.synthesis.examples_plan import examples_plan
    from dpicl_rag.synthesis.pools import public_labels, public_rate

    numbers = {name: value for name, value in settings.items() if name not in ("labels", "method")}
    labels = len(public_labels(settings["labels"]))
    public_rate(settings["rate"])
    return examples_plan(settings["method"], labels, in_rho=in_ledger, **numbers)


def _cost(made: Synthesis) -> dict[str, float | None]:
    return {"epsilon": made.epsilon, "delta": made.delta, "rho": made.rho}


def _show(made: Synthesis, as_json: bool, *, recorded: bool) -> None:
    if as_json:
        texts = [{"label": r.label, "text": r.text, "tokens": r.tokens} for r in made.records]
        console.write_json({"texts": texts, **_cost(made)})
        return
    for record in made.records:
        console.show(f"{record.label}: {record.text}")
    line = f"spent: epsilon {made.epsilon:g}, delta {made.delta:g}"
    console.show(line + ("" if recorded else " (not recorded)"), style="dim")


def adjacency_of(name: str) -> Adjacency:
    """The change between neighbours, by its name."""
    from dpicl_rag.accounting import Adjacency

    try:
        return Adjacency(name)
    except ValueError:
        raise ConfigurationError("adjacency is add_or_remove_one or replace_one") from None
