"""``tabular``: demonstrations for prompts from private tables, and reports of single rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dpicl_rag.cli import asking, console, file_budgets, option_groups, options
from dpicl_rag.errors import ConfigurationError

if TYPE_CHECKING:
    from dpicl_rag.accounting import Adjacency
    from dpicl_rag.tabular.aggregates import Aggregates
    from dpicl_rag.tabular.noisy_tables import NoisyTables
    from dpicl_rag.tabular.schema import Schema

    Release = NoisyTables | Aggregates

app = typer.Typer(
    help="Demonstrations for prompts from private tables; what is released is paid once.",
    no_args_is_help=True,
)

SchemaName = Annotated[
    str,
    typer.Option(
        "--schema",
        metavar="TOML",
        help="Public columns, bounds, cut points and labels: a file, or a packaged schema by name.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="Folder of the release; read again, it costs no more."
    ),
]


@dataclass(frozen=True)
class Releasing:
    """Whose table it is, and who pays."""

    schema: SchemaName
    epsilon: Annotated[float, typer.Option(help="Of the whole release; less is more private.")]
    unit: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Column that is protected as a whole, of which one row counts; or each row.",
        ),
    ] = "document"
    adjacency: Annotated[
        Literal["add_or_remove_one", "replace_one"], typer.Option(help="What neighbours are.")
    ] = "add_or_remove_one"
    corpus: options.ChargedOption = None
    ledger: options.LedgerPath = None
    out: Out = None
    plan: options.CostPlan = False
    as_json: options.AsJson = False
    quiet: options.Quiet = False

    def __post_init__(self) -> None:
        if not self.unit.strip():
            raise ConfigurationError("--unit names a column; leave it out to protect each row")

    @property
    def neighbours(self) -> Adjacency:
        """The change between two tables that are neighbours."""
        from dpicl_rag.accounting import Adjacency

        return Adjacency(self.adjacency)

    @property
    def folder(self) -> Path:
        """The folder of the release."""
        if self.out is None:
            raise ConfigurationError(
                "give the folder of the release with --out, so it is paid once"
            )
        return self.out

    def kept(
        self, source: Path, schema: Schema, release: Callable[..., Release], **given: Any
    ) -> dict[str, Any]:
        """The release of the folder, as JSON has it; drawn and charged now if there is none.

        Args:
            source: The private table; one that cannot be read is refused before a folder is made.
            schema: Of its rows.
            release: Draws it.
            **given: Settings that the release depends on beside those here, as JSON has them.
        """
        from dpicl_rag.ledger import NoBudgetWarning
        from dpicl_rag.loaders.loader import check_private_table
        from dpicl_rag.tabular.charge import kept_release

        def draw() -> dict[str, Any]:
            with file_budgets.open_book(self.ledger, self.corpus) as book:
                rows, units = _read(source, schema, self.unit, self.quiet)
                return release(
                    rows,
                    schema,
                    self.epsilon,
                    adjacency=self.neighbours,
                    units=units,
                    ledger=book,
                    corpus=self.corpus or "default",
                ).to_json()

        settings = {
            **{"epsilon": self.epsilon, "unit": self.unit, "adjacency": self.adjacency},
            **{"corpus": self.corpus, "schema": schema.digest, "table": str(source.resolve())},
            **given,
        }
        check = partial(check_private_table, source, _columns(schema), unit=self.unit)
        with console.told(NoBudgetWarning):
            return kept_release(self.folder, settings, draw, check)

    def show(
        self, rows: Sequence[Mapping[str, Any]], schema: Schema, cost: Mapping[str, Any]
    ) -> None:
        """Demonstrations, and what they cost."""
        _show(rows, schema, cost, self.as_json, recorded=self.corpus is not None)


@app.command("tables")
@console.reported("interrupted; what was released is kept, and the same command shows it")
@option_groups.expanded
def tables(
    source: Annotated[Path, typer.Argument(metavar="TABLE", help="Private CSV or JSON Lines.")],
    releasing: Releasing,
    delta: Annotated[
        float, typer.Option(help="0 for Laplace noise; above 0 Gaussian, for many columns.")
    ] = 0.0,
    demonstrations: Annotated[int, typer.Option(min=0, help="Rows to draw and show.")] = 4,
    rows: Annotated[int, typer.Option(min=0, help="Rows to draw into rows.jsonl.")] = 0,
) -> None:
    """Release noisy tables of labels by values, and draw rows from them."""
    from dpicl_rag.files.run_files import write_whole
    from dpicl_rag.tabular.noisy_tables import read_tables, release_tables, tables_charge

    schema = _schema(releasing.schema)
    charge = tables_charge(schema, releasing.epsilon, delta, releasing.neighbours)
    if releasing.plan:
        asking.print_plan(charge, as_json=releasing.as_json)
        return
    release = partial(release_tables, delta=delta)
    found = read_tables(releasing.kept(source, schema, release, kind="tables", delta=delta), schema)
    if rows:
        lines = "".join(json.dumps(row) + "\n" for row in found.rows(rows))
        write_whole(releasing.folder / "rows.jsonl", lines.encode())
    releasing.show(found.rows(demonstrations), schema, charge.cost)


@app.command("aggregates")
@console.reported("interrupted; what was released is kept, and the same command shows it")
@option_groups.expanded
def aggregates(
    source: Annotated[Path, typer.Argument(metavar="TABLE", help="Private CSV or JSON Lines.")],
    releasing: Releasing,
    group_by: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Each name doubles the groups, by a public cut; the label by default, '' for one "
            "row.",
        ),
    ] = None,
    rate: Annotated[
        float, typer.Option(help="Public rate of a secret sample, fixed beforehand.")
    ] = 1.0,
) -> None:
    """Release one noisy average row for each public group."""
    from dpicl_rag.tabular.aggregates import AggregatesPlan, read_aggregates, release_aggregates

    schema = _schema(releasing.schema)
    names: tuple[str, ...] = (schema.label.name,)
    if group_by is not None:
        names = tuple(name.strip() for name in group_by.split(",") if name.strip())
    made = AggregatesPlan(schema, names, releasing.epsilon, rate, releasing.neighbours)
    if releasing.plan:
        asking.print_plan(made, as_json=releasing.as_json)
        return
    release = partial(release_aggregates, group_by=names, rate=rate)
    settings = {"kind": "aggregates", "group_by": list(names), "rate": rate}
    found = read_aggregates(releasing.kept(source, schema, release, **settings), schema)
    releasing.show(found.rows, schema, {**made.cost, **made.sampled})


@app.command("local")
@console.reported()
def local(
    schema: SchemaName,
    epsilon: Annotated[float, typer.Option(help="Of this report; another one costs it again.")],
    row: Annotated[
        str,
        typer.Option(
            "--row",
            metavar="JSON",
            help="The own row, values by column: JSON, a .json file, or - for stdin, which no "
            "history keeps.",
        ),
    ],
    method: Annotated[
        Literal["one-attribute", "bits", "one-hot"],
        typer.Option(
            help="One column with the whole epsilon; a bit of every column; or a bit of every "
            "value of a category, as LDP-TabICL counts them."
        ),
    ] = "one-attribute",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Keep the report: the same command prints it again, and costs no more.",
        ),
    ] = None,
) -> None:
    """Print what may leave this machine: one row, changed by chance. Nothing else may."""
    from dpicl_rag.tabular.charge import kept_release
    from dpicl_rag.tabular.local_privacy import local_report

    public = _schema(schema)

    own = cache(partial(_row, row))

    def draw() -> dict[str, Any]:
        return local_report(own(), public, epsilon, method=method).to_json()

    settings = {"kind": "local", "schema": public.digest, "epsilon": epsilon, "method": method}
    # A report that nobody sees costs nothing, so one is drawn as the check.
    console.write_json(draw() if out is None else kept_release(out, settings, draw, check=draw))


@app.command("collect")
@console.reported()
def collect(
    reports: Annotated[Path, typer.Argument(metavar="REPORTS", help="One report a line.")],
    schema: SchemaName,
    epsilon: Annotated[float, typer.Option(help="Of every report.")],
    method: Annotated[
        Literal["one-attribute", "bits", "one-hot"], typer.Option(help="Of the reports.")
    ] = "one-attribute",
    demonstrations: Annotated[int, typer.Option(min=0, help="Rows to draw and show.")] = 4,
    as_json: options.AsJson = False,
) -> None:
    """Draw demonstrations from the reports of many people. It never sees a row."""
    from dpicl_rag.tabular.local_privacy import Report, bits_from_reports, tables_from_reports

    public = _schema(schema)
    sent = map(Report.read, _lines(reports, "file of reports"))
    if method == "one-attribute":
        made = tables_from_reports(sent, public, epsilon).rows(demonstrations)
    else:
        made = bits_from_reports(sent, public, epsilon, method).rows(demonstrations)
    _show(made, public, {"epsilon": epsilon}, as_json, recorded=None)


@app.command("serialise")
@console.reported()
def serialise(
    schema: SchemaName,
    rows: Annotated[
        Path | None, typer.Argument(metavar="ROWS", help="Rows with labels as JSON Lines.")
    ] = None,
    row: Annotated[
        str | None,
        typer.Option(
            "--row", metavar="JSON", help="A row to ask about: JSON, a .json file, or - for stdin."
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Print rows in words, as a prompt. Words of a private row are private."""
    from dpicl_rag.tabular.schema import answer, asked

    public = _schema(schema)
    if rows is None and row is None:
        raise ConfigurationError("give rows with labels, a --row to ask about, or both")
    shown = [] if rows is None else _lines(rows, "file of rows")
    lines = [f"{asked(one, public)} Answer: {answer(one, public)}" for one in shown]
    if row is not None:
        lines.append(f"{asked(_row(row), public)} Answer:")
    if as_json:
        console.write_json({"prompt": "\n".join(lines)})
        return
    for line in lines:
        typer.echo(console.printable(line))


@app.command("schema")
@console.reported()
def schema(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="adult, bank, blood, calhousing, ...")
    ],
) -> None:
    """Print a packaged schema as TOML: a pattern for your own."""
    from dpicl_rag.tabular.schema import PACKAGED

    if name not in PACKAGED:
        raise ConfigurationError(f"packaged schemas are {', '.join(PACKAGED)}")
    text = (files("dpicl_rag.tabular") / "schemas" / f"{name}.toml").read_text("utf-8")
    typer.echo(text, nl=False)


def _schema(source: str) -> Schema:
    from dpicl_rag.tabular.schema import Schema

    return Schema.read(source)


def _columns(schema: Schema) -> list[str]:
    """Public names of the columns that a table must have."""
    return [*(column.name for column in schema.columns), schema.label.name]


def _read(
    source: Path, schema: Schema, unit: str, quiet: bool
) -> tuple[list[Mapping[str, str]], list[str]]:
    """Private rows, and whose each is."""
    from dpicl_rag.loaders import load_private_table

    with console.status("Reading", quiet=quiet):
        documents = load_private_table(source, _columns(schema), unit=unit)
    return [document.metadata for document in documents], [document.unit for document in documents]


def _row(given: str) -> Mapping[str, object]:
    """The row of an option; what it holds is never repeated."""
    try:
        if given == "-":
            text = sys.stdin.read()
        else:
            is_file = given.endswith(".json")
            text = Path(given).read_text(encoding="utf-8") if is_file else given
        found = json.loads(text)
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ConfigurationError("--row is a JSON object, values by column; a file ends in .json")
    return found


def _lines(path: Path, what: str) -> list[dict[str, Any]]:
    from dpicl_rag.files.public_rows import read_rows

    return [dict(row) for row in read_rows(path, what)]


def _show(
    rows: Sequence[Mapping[str, Any]],
    schema: Schema,
    cost: Mapping[str, Any],
    as_json: bool,
    *,
    recorded: bool | None,
) -> None:
    """Demonstrations and their cost, and a note where no ledger has it but one could."""
    from dpicl_rag.tabular.schema import answer, asked

    if as_json:
        texts = [{"text": asked(row, schema), "answer": answer(row, schema)} for row in rows]
        console.write_json({"demonstrations": texts, "rows": list(rows), **cost})
        return
    for row in rows:
        words = f"{asked(row, schema)} Answer: {answer(row, schema)}"
        console.show(words)
    spent = ", ".join(f"{name.replace('_', ' ')} {number:.4g}" for name, number in cost.items())
    note = " (not recorded)" if recorded is False else ""
    console.stdout().print(f"spent: {spent}{note}", style="dim")
