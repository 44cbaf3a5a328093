"""``evaluate``: the published methods side by side on benchmark data.

Benchmark data is public; nothing here is the private path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dpicl_rag._packaged import optional
from dpicl_rag.cli import console, option_groups, options
from dpicl_rag.errors import ConfigurationError
from dpicl_research.commands import (
    evaluate_convergence,
    evaluate_images,
    evaluate_label_head,
    evaluate_picture_membership,
    evaluate_radius,
    evaluate_synthetic,
    evaluate_tabular,
)
from dpicl_research.commands.evaluate_parts import (
    GOES_ON,
    Out,
    Writing,
    language_model,
    names,
    numbers,
    show,
)

if TYPE_CHECKING:
    from dpicl_rag.language_models.base import LanguageModel
    from dpicl_research.comparison import Line
    from dpicl_research.membership import MembershipReport
    from dpicl_research.paper_protocol import Wanted
    from dpicl_research.run_tables import EvaluationReport
    from dpicl_research.scores_folder import Kind, Reporting
    from dpicl_research.tasks import Task

app = typer.Typer(
    help="Compare the published methods on benchmark data.",
    no_args_is_help=True,
    # No defaults of the settings file: figures follow from their own command line.
    context_settings={"default_map": {}},
)

Methods = Annotated[
    str, typer.Option(metavar="NAMES", help="Method names separated by commas, or all.")
]

Then = Callable[["LanguageModel", "Task", Path], None]
"""What else is asked of the model of a run, once all is scored."""


@dataclass(frozen=True)
class Scoring:
    """What is scored, at which budget, and where the scores are kept."""

    task: Annotated[
        str,
        typer.Option(
            metavar="TASK",
            help="agnews, trec, dbpedia, gsm8k, sst2, amazon, mitg or mitd; or a .csv or .jsonl "
            "file with a text and a label in every row.",
        ),
    ]
    epsilon: Annotated[float, typer.Option(help="Privacy of all answers together, above 0.")] = 4.0
    delta: options.Delta = options.DELTA
    text_tokens: Annotated[int, typer.Option(min=1, help="Texts are cut to this many tokens.")] = 64
    text_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Column of a task file with the text.", show_default="text"
        ),
    ] = None
    label_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Column of a task file with the label.", show_default="label"
        ),
    ] = None
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...", help="Labels of a task file; those that stand in it by default."
        ),
    ] = None
    test_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Queries for a task file; a fifth of its rows is held out by default.",
        ),
    ] = None
    model: options.Model = None
    workers: options.Workers = None
    out: Out = None


@dataclass(frozen=True)
class Experts:
    """What an expert reads, and how often it is asked."""

    answers: Annotated[int, typer.Option(min=1, help="How many answers share epsilon.")] = 1
    exemplars: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Examples that one expert reads, on average; each method's own by default.",
        ),
    ] = None
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBERS",
            help="Each example joins a query with this probability. The tables are about the "
            "largest; a report compares them.",
        ),
    ] = None
    subsets: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Prompts of a query in place of a rate: so many of --exemplars are sampled from "
            "--experts.",
        ),
    ] = None

    def __post_init__(self) -> None:
        options.at_most_one({"--rate": self.rate, "--subsets": self.subsets})
        if self.subsets is not None and self.exemplars is None:
            raise typer.BadParameter("give --exemplars too", param_hint="--subsets")

    def rates(self, experts: Sequence[int]) -> list[float]:
        """The sampling rates, ascending; none where methods keep their own."""
        from dpicl_research.expert_settings import rate_for

        if self.subsets is None or self.exemplars is None:
            return [] if self.rate is None else numbers(self.rate, "--rate", float)
        if len(experts) > 1:
            raise typer.BadParameter("give one number of --experts", param_hint="--subsets")
        return [rate_for(self.subsets, self.exemplars, experts[0])]


@app.command("run")
@console.reported(GOES_ON)
@option_groups.expanded
def run(
    scoring: Scoring,
    reading: Experts,
    writing: Writing,
    methods: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Method names separated by commas, or all; few-shot and others that write shots "
            "(see evaluate synthetic), and label-head, stand beside them where they are named.",
        ),
    ] = "all",
    experts: Annotated[
        str, typer.Option(metavar="N,...", help="Numbers of examples in the context.")
    ] = "4,8",
    seeds: Annotated[int, typer.Option(min=1, help="Contexts to draw at random.")] = 25,
    queries: Annotated[int, typer.Option(min=1, help="Queries to ask in each context.")] = 100,
    leave_one_out: Annotated[
        bool,
        typer.Option(
            "--leave-one-out",
            help="Also read the prompt without each of its examples, for the largest change of "
            "soft against hard.",
        ),
    ] = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Score seeds x queries, then compare the methods. Goes on where it was interrupted."""
    from dpicl_rag.accounting import Budget
    from dpicl_research import written_shots
    from dpicl_research.context_rows import LeaveOneOut
    from dpicl_research.expert_settings import methods_with, require_experts
    from dpicl_research.paper_protocol import wanted_layouts
    from dpicl_research.scores_folder import Reporting

    named, writers, heads = _split(_names(methods))
    if not named:
        raise ConfigurationError(
            "give a method that reads examples too, such as poe; `dpicl-rag evaluate synthetic` "
            "compares written shots alone"
        )
    sizes = numbers(experts, "--experts", int)
    rates = reading.rates(sizes)
    each: list[float | None] = [*rates] or [None]
    methods_at = [methods_with(named, exemplars=reading.exemplars, rate=rate) for rate in each]
    if rates or reading.exemplars is not None:
        require_experts(methods_at[0])
    wanted = list(wanted_layouts([one for at in methods_at for one in at], sizes))
    if leave_one_out:
        wanted.append((LeaveOneOut(), max(sizes)))
    reporting = Reporting(
        (*named, *writers, *heads),
        scoring.epsilon,
        scoring.delta,
        reading.answers,
        reading.exemplars,
        tuple(rates),
    )

    def write(model: LanguageModel, task: Task, folder: Path) -> None:
        budget = Budget(scoring.epsilon, scoring.delta)
        if heads:
            from dpicl_research import label_heads

            with console.Bar("Label heads", quiet=quiet, counts=True) as bar:
                label_heads.score(
                    task,
                    folder,
                    budget=budget,
                    seeds=seeds,
                    queries=queries,
                    on_progress=bar.update,
                )
        if not writers:
            return
        with console.Bar("Sets of shots", quiet=quiet, counts=True) as bar:
            written_shots.write(
                model,
                task,
                writers,
                written_shots.Shots(
                    writing.shots, writing.shot_tokens, writing.shot_experts, writing.shot_rate
                ),
                folder,
                budget=budget,
                seeds=seeds,
                queries=queries,
                text_tokens=scoring.text_tokens,
                on_progress=bar.update,
            )

    then = write if writers or heads else None
    folder = _score(scoring, reporting, wanted, "accuracy", seeds, queries, quiet, then)
    show([_reported(folder, sweeps=False)], as_json)
    if not as_json:
        console.note(f"sweeps and plots: dpicl-rag evaluate report {folder}")


@app.command("membership")
@console.reported(GOES_ON)
@option_groups.expanded
def membership(
    scoring: Scoring,
    methods: Methods = "zero-shot,k-shot,soft,hard,poe,votes,votes-gaussian,permute-and-flip",
    seeds: Annotated[int, typer.Option(min=2, help="Contexts to draw at random.")] = 50,
    examples: Annotated[
        int, typer.Option(min=2, help="Examples to attack for each context; half are in it.")
    ] = 20,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Attack private and plain paths: is an example in the context? Goes on like ``run``."""
    from dpicl_research.expert_settings import methods_with
    from dpicl_research.paper_protocol import wanted_layouts
    from dpicl_research.scores_folder import Reporting

    if examples % 2:
        raise typer.BadParameter("give an even number", param_hint="--examples")
    named = _names(methods)
    # The bare model is what likelihoods are compared with.
    wanted = wanted_layouts(methods_with([*named, "zero-shot"]), [examples // 2])
    reporting = Reporting(tuple(named), scoring.epsilon, scoring.delta)
    folder = _score(scoring, reporting, wanted, "membership", seeds, examples, quiet)
    show([_reported(folder, sweeps=False)], as_json)


@app.command("report")
@console.reported()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of runs.")],
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Method names separated by commas, or all; those of the run by default.",
        ),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Epsilon of all --answers together; the run's by default.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Delta of that epsilon; the run's by default.")
    ] = None,
    answers: Annotated[
        int | None,
        typer.Option(min=1, help="How many answers share epsilon; the run's by default."),
    ] = None,
    adjacency: Annotated[
        Literal["add_or_remove_one", "replace_one"],
        typer.Option(help="What makes two contexts neighbours."),
    ] = "add_or_remove_one",
    sweeps: Annotated[
        bool,
        typer.Option(
            help="Show other epsilons and clip bounds too; for many answers what fewer of them "
            "need and cost, and for several rates each of them."
        ),
    ] = True,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write tables (Markdown) and plots there.")
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Tables and plots from the scores of runs; the model is not asked again."""
    if out is not None:
        optional("matplotlib", "dpicl-research")
    reports = []
    with console.Bar("Methods", quiet=quiet, counts=True) as bar:
        for done, folder in enumerate(runs):
            bar.update(done, len(runs))
            reports.append(
                _reported(folder, methods, epsilon, delta, answers, adjacency, sweeps=sweeps)
            )
    show(reports, as_json)
    if out is not None:
        from dpicl_research.plots import save

        for found in reports:
            for file in save(found, out):
                if not as_json:
                    console.note(f"written: {file}")


def _score(
    scoring: Scoring,
    reporting: Reporting,
    wanted: Wanted,
    kind: Kind,
    seeds: int,
    queries: int,
    quiet: bool,
    then: Then | None = None,
) -> Path:
    """Score what is missing; returns the folder of the run."""
    from dpicl_rag.accounting import Budget
    from dpicl_research import paper_protocol
    from dpicl_research.tasks import load_task

    Budget(scoring.epsilon, scoring.delta)  # checks them
    name = Path(scoring.task).name.split(".")[0] + ("-membership" if kind == "membership" else "")
    folder = scoring.out or Path("runs") / name
    labels = scoring.labels
    with console.status("Reading the task", quiet=quiet):
        task = load_task(
            scoring.task,
            text_column=scoring.text_column,
            label_column=scoring.label_column,
            labels=None if labels is None else [label.strip() for label in labels.split(",")],
            test_file=scoring.test_file,
        )
    with language_model(scoring.model, 4, quiet=quiet, workers=scoring.workers) as model:
        with console.Bar("Queries", quiet=quiet, counts=True) as bar:
            paper_protocol.run(
                model,
                task,
                wanted,
                folder,
                reporting,
                seeds=seeds,
                queries=queries,
                text_tokens=scoring.text_tokens,
                kind=kind,
                on_progress=bar.update,
            )
        if then is not None:
            then(model, task, folder)
    return folder


def _reported(
    folder: Path,
    methods: str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    answers: int | None = None,
    adjacency: str = "add_or_remove_one",
    *,
    sweeps: bool,
) -> EvaluationReport | MembershipReport:
    """The report of a run; what is None is as the run has it."""
    from dpicl_rag.accounting import Adjacency, Budget
    from dpicl_research.expert_settings import methods_with
    from dpicl_research.label_heads import head_lines
    from dpicl_research.membership import build_membership_report
    from dpicl_research.run_tables import CLIPS, EPSILONS, build_report, fewer_answers
    from dpicl_research.scores_folder import load_run
    from dpicl_research.written_shots import written_lines

    run = load_run(folder)
    if run.settings.kind == "images":
        raise ConfigurationError(
            f"{folder}: a run of `dpicl-rag evaluate images`, which shows its own tables; give it "
            "the same settings and --out again"
        )
    kept = run.reporting
    budget = Budget(
        kept.epsilon if epsilon is None else epsilon,
        kept.delta if delta is None else delta,
        Adjacency(adjacency),
        queries=kept.answers if answers is None else answers,
    )
    named, writers, heads = _split(kept.methods if methods is None else _names(methods))
    chosen = methods_with(named, exemplars=kept.exemplars, rate=max(kept.rates, default=None))
    if run.settings.kind == "membership":
        return build_membership_report(run, chosen, budget)

    def others(at: Budget) -> Sequence[Line]:
        written = written_lines(folder, run, writers, at) if writers else []
        return [*written, *(head_lines(folder, run, at) if heads else ())]

    if not sweeps:
        return build_report(run, chosen, budget, epsilons=(), clips=(), others=others)
    return build_report(
        run,
        chosen,
        budget,
        epsilons=EPSILONS,
        clips=CLIPS,
        answers=fewer_answers(budget.queries),
        rates=kept.rates if len(kept.rates) > 1 else (),
        others=others,
    )


def _names(text: str) -> list[str]:
    from dpicl_rag.methods import METHODS

    return list(METHODS) if text.strip() == "all" else names(text)


def _split(found: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Names of methods that label, of those that write shots, and of the label head."""
    from dpicl_research.label_heads import NAME
    from dpicl_research.written_shots import is_writer

    writers, heads = [name for name in found if is_writer(name)], [n for n in found if n == NAME]
    return [name for name in found if name not in (*writers, *heads)], writers, heads


app.command("convergence")(evaluate_convergence.convergence)
app.command("synthetic")(evaluate_synthetic.synthetic)
app.command("synthetic-membership")(evaluate_synthetic.synthetic_membership)
app.command("label-head")(evaluate_label_head.label_head)
app.command("radius")(evaluate_radius.radius)
app.command("images")(evaluate_images.images)
app.command("membership-images")(evaluate_picture_membership.membership_images)
app.command("tabular")(evaluate_tabular.tabular)
