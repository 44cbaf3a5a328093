"""``evaluate``: the published methods side by side on benchmark data.

Benchmark data is public; nothing here is the private path.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dpicl_rag.cli import ask, console, options

if TYPE_CHECKING:
    from dpicl_rag.evaluation.membership import MembershipReport
    from dpicl_rag.evaluation.protocol import Wanted
    from dpicl_rag.evaluation.report import EvaluationReport
    from dpicl_rag.evaluation.run_folder import Kind, Reporting
    from dpicl_rag.language_models.base import LanguageModel
    from dpicl_rag.methods import Method

app = typer.Typer(
    help="Compare the published methods on benchmark data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
)

_GOES_ON = "interrupted; the same command goes on where it stopped"

TaskName = Annotated[
    str,
    typer.Option(
        "--task",
        metavar="TASK",
        help="agnews, trec, dbpedia, gsm8k, mitg or mitd; or a .csv or .jsonl file with a text "
        "and a label in every row.",
        show_default=False,
    ),
]
Methods = Annotated[
    str, typer.Option(metavar="NAMES", help="Method names separated by commas, or all.")
]
Epsilon = Annotated[float, typer.Option(help="Privacy of all --answers together. Above 0.")]
Delta = Annotated[float, typer.Option(help="Strictly between 0 and 1.")]
Answers = Annotated[int, typer.Option(min=1, help="How many answers share epsilon.")]
AdjacencyName = Annotated[
    Literal["add_or_remove_one", "replace_one"],
    typer.Option("--adjacency", help="What makes two contexts neighbours."),
]
TextTokens = Annotated[int, typer.Option(min=1, help="Texts are cut to this many tokens.")]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder of the run; one that was interrupted goes on. runs/TASK by default.",
        show_default=False,
    ),
]
TextColumn = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Of a task file; text by default.", show_default=False),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Of a task file; label by default.", show_default=False),
]
Labels = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,...",
        help="Of a task file: its labels; those that it has by default.",
        show_default=False,
    ),
]
TestFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Of a task file: the queries; a fifth of the rows is held out by default.",
        show_default=False,
    ),
]


@app.command("run")
@console.reported(_GOES_ON)
def run(
    task: TaskName,
    methods: Methods = "all",
    experts: Annotated[
        str, typer.Option(metavar="N,...", help="Numbers of examples in the context.")
    ] = "4,8",
    epsilon: Epsilon = 4.0,
    delta: Delta = 1e-5,
    seeds: Annotated[int, typer.Option(min=1, help="Contexts, drawn at random.")] = 25,
    queries: Annotated[int, typer.Option(min=1, help="Queries for each context.")] = 100,
    text_tokens: TextTokens = 64,
    leave_one_out: Annotated[
        bool,
        typer.Option(
            "--leave-one-out",
            help="Also read the prompt without each of its examples, for the largest change of "
            "soft against hard.",
        ),
    ] = False,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    labels: Labels = None,
    test_file: TestFile = None,
    model: ask.Model = None,
    out: Out = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Score seeds x queries, then compare the methods. Goes on where it was interrupted."""
    from dpicl_rag.evaluation.layouts import LeaveOneOut
    from dpicl_rag.evaluation.protocol import wanted_layouts

    chosen = _methods(methods)
    numbers = _numbers(experts)
    wanted = list(wanted_layouts(chosen, numbers))
    if leave_one_out:
        wanted.append((LeaveOneOut(), max(numbers)))
    folder = out or Path("runs") / _stem(task)
    columns = _columns(text_column, label_column, labels, test_file)
    _score(
        *(task, columns, model, wanted, folder, _reporting(chosen, epsilon, delta)),
        *(seeds, queries, text_tokens, "accuracy", quiet),
    )
    _show([_reported(folder, chosen, epsilon, delta, sweeps=False)], as_json)
    if not as_json:
        console.note(f"sweeps and plots: dpicl-rag evaluate report {folder}")


@app.command("membership")
@console.reported(_GOES_ON)
def membership(
    task: TaskName,
    methods: Methods = "zero-shot,k-shot,soft,hard,poe,votes,votes-gaussian,permute-and-flip",
    epsilon: Epsilon = 4.0,
    delta: Delta = 1e-5,
    seeds: Annotated[int, typer.Option(min=2, help="Contexts, drawn at random.")] = 50,
    examples: Annotated[
        int, typer.Option(min=2, help="Attacked for each context; half of them are in it.")
    ] = 20,
    text_tokens: TextTokens = 64,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    labels: Labels = None,
    test_file: TestFile = None,
    model: ask.Model = None,
    out: Out = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Attack private and plain paths: is an example in the context? Goes on like ``run``."""
    from dpicl_rag.evaluation.protocol import wanted_layouts
    from dpicl_rag.methods import make

    if examples % 2:
        raise typer.BadParameter("give an even number", param_hint="--examples")
    chosen = _methods(methods)
    # The bare model is what likelihoods are compared with.
    wanted = wanted_layouts([*chosen, make("zero-shot")], [examples // 2])
    folder = out or Path("runs") / f"{_stem(task)}-membership"
    columns = _columns(text_column, label_column, labels, test_file)
    _score(
        *(task, columns, model, wanted, folder, _reporting(chosen, epsilon, delta)),
        *(seeds, examples, text_tokens, "membership", quiet),
    )
    _show([_reported(folder, chosen, epsilon, delta, sweeps=False)], as_json)


@app.command("report")
@console.reported()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.")],
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Method names separated by commas, or all; those of the run by default.",
            show_default=False,
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Of all --answers; that of the run by default.", show_default=False),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="That of the run by default.", show_default=False)
    ] = None,
    answers: Answers = 1,
    adjacency: AdjacencyName = "add_or_remove_one",
    sweeps: Annotated[bool, typer.Option(help="Also other epsilons and other clip bounds.")] = True,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write tables (Markdown) and plots there.", show_default=False
        ),
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Tables and plots from the scores of runs; the model is not asked again."""
    if out is not None:
        from dpicl_rag.evaluation.plots import require_plots

        require_plots()
    reports = []
    with console.Bar("Methods", quiet=quiet, counts=True) as bar:
        for done, folder in enumerate(runs):
            bar.update(done, len(runs))
            chosen = None if methods is None else _methods(methods)
            reports.append(
                _reported(folder, chosen, epsilon, delta, answers, adjacency, sweeps=sweeps)
            )
    _show(reports, as_json)
    if out is not None:
        from dpicl_rag.evaluation.plots import save

        for found in reports:
            for file in save(found, out):
                if not as_json:
                    console.note(f"written: {file}")


def _score(
    task: str,
    columns: dict[str, Any],
    model: str | None,
    wanted: Wanted,
    folder: Path,
    reporting: Reporting,
    seeds: int,
    queries: int,
    text_tokens: int,
    kind: Kind,
    quiet: bool,
) -> None:
    from dpicl_rag.evaluation import protocol
    from dpicl_rag.evaluation.tasks import load_task

    with console.status("Reading the task", quiet=quiet):
        loaded = load_task(task, **columns)
    with console.status("Loading the language model", quiet=quiet):
        language_model = _with_cache(ask.load_model(model))
    with console.Bar("Queries", quiet=quiet, counts=True) as bar:
        protocol.run(
            language_model,
            loaded,
            wanted,
            folder,
            reporting,
            seeds=seeds,
            queries=queries,
            text_tokens=text_tokens,
            kind=kind,
            on_progress=bar.update,
        )


def _reported(
    folder: Path,
    methods: Sequence[Method] | None,
    epsilon: float | None,
    delta: float | None,
    answers: int = 1,
    adjacency: str = "add_or_remove_one",
    *,
    sweeps: bool,
) -> EvaluationReport | MembershipReport:
    """The report of a run; what is None is as the run has it."""
    from dpicl_rag.accounting.stability import Adjacency
    from dpicl_rag.evaluation.comparison import Budget
    from dpicl_rag.evaluation.membership import build_membership_report
    from dpicl_rag.evaluation.report import CLIPS, EPSILONS, build_report
    from dpicl_rag.evaluation.run_folder import load_run

    run = load_run(folder)
    budget = Budget(
        run.reporting.epsilon if epsilon is None else epsilon,
        run.reporting.delta if delta is None else delta,
        Adjacency(adjacency),
        answers,
    )
    chosen = _methods(",".join(run.reporting.methods)) if methods is None else methods
    if run.settings.kind == "membership":
        return build_membership_report(run, chosen, budget)
    return build_report(
        run, chosen, budget, epsilons=EPSILONS if sweeps else (), clips=CLIPS if sweeps else ()
    )


def _reporting(methods: Sequence[Method], epsilon: float, delta: float) -> Reporting:
    from dpicl_rag.evaluation.comparison import Budget
    from dpicl_rag.evaluation.run_folder import Reporting

    Budget(epsilon, delta).check()
    return Reporting(tuple(method.name for method in methods), epsilon, delta)


def _columns(
    text_column: str | None, label_column: str | None, labels: str | None, test_file: Path | None
) -> dict[str, Any]:
    return {
        "text_column": text_column,
        "label_column": label_column,
        "labels": None if labels is None else [name.strip() for name in labels.split(",")],
        "test_file": test_file,
    }


def _stem(task: str) -> str:
    return Path(task).name.split(".")[0]


def _with_cache(model: LanguageModel) -> LanguageModel:
    """The model beside a cache in memory, so that a set of examples is read once per seed."""
    from dpicl_rag.language_models.prefix_cache import PrefixCache
    from dpicl_rag.language_models.transformers import TransformersModel

    return model.with_cache(PrefixCache(4 << 30)) if isinstance(model, TransformersModel) else model


def _methods(names: str) -> list[Method]:
    from dpicl_rag.methods import METHODS, make

    if names.strip() == "all":
        return [make(name) for name in METHODS]
    return [make(name) for name in dict.fromkeys(n.strip() for n in names.split(",") if n.strip())]


def _numbers(text: str) -> list[int]:
    try:
        numbers = sorted({int(part) for part in text.split(",")})
    except ValueError:
        numbers = [0]
    if numbers[0] < 1:
        raise typer.BadParameter("give whole numbers above 0, such as 4,8", param_hint="--experts")
    return numbers


def _show(reports: Sequence[EvaluationReport | MembershipReport], as_json: bool) -> None:
    if as_json:
        for report in reports:
            console.write_json(report.summary())
        return
    from rich.table import Table

    screen = console.stdout()
    for report in reports:
        screen.print(f"\n{report.heading()}", style="bold")
        for words in report.tables():
            table = Table(title=words.title, title_justify="left")
            for number, column in enumerate(words.columns):
                table.add_column(column, overflow="fold", no_wrap=number == 0)
            for row in words.rows:
                table.add_row(*row)
            screen.print(table)
