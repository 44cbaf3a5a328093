"""``evaluate synthetic``: what examples are worth that were written privately."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dpicl_rag._packaged import optional
from dpicl_rag.cli import console, option_groups, options
from dpicl_rag.cli.synthesise import Constants
from dpicl_research.commands.evaluate_parts import (
    GOES_ON,
    Out,
    language_model,
    names,
    numbers,
    show,
)

if TYPE_CHECKING:
    from dpicl_rag.language_models.base import LanguageModel
    from dpicl_research.synthetic_shots import Arm, Settings
    from dpicl_research.tasks import Task


Methods = Annotated[
    str,
    typer.Option(
        "--method",
        metavar="NAMES",
        help="few-shot, few-shot-permute-and-flip, adaptive, difference, exponential, "
        "separated by commas; NAME:all reads all examples and takes no samples; "
        "adaptive:published has the paper's constants for an epsilon of 1, 2, 4 or 8.",
    ),
]
METHODS = "few-shot,adaptive,difference,exponential"


@dataclass(frozen=True)
class Writing:
    """The shots: what they are written from, how, and where they are kept."""

    task: Annotated[
        str,
        typer.Option(
            metavar="TASK",
            help="agnews, trec or dbpedia; mitg or mitd, where the answer is written out and "
            "compared letter by letter; or a .csv or .jsonl file.",
        ),
    ]
    epsilon: Annotated[
        str, typer.Option(metavar="NUMBERS", help="Of all texts of a method together.")
    ] = "1,2,4,8"
    delta: options.Delta = options.DELTA
    seeds: Annotated[int, typer.Option(min=1, help="Sets of shots and queries.")] = 5
    shots: Annotated[int, typer.Option(min=1, help="Labels that get a text.")] = 4
    max_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of a text.")] = 40
    experts: Annotated[int, typer.Option(min=1, help="Experts expected at a token.")] = 20
    per_expert: Annotated[
        int, typer.Option(min=1, help="Examples that an expert reads; 1 for exponential.")
    ] = 1
    rate: Annotated[
        float | None,
        typer.Option(
            help="Public rate of samples, fixed beforehand; examples of a token over a fixed size "
            "for a known task."
        ),
    ] = None
    candidates: Annotated[int, typer.Option(min=1, help="Candidates of noisy sums.")] = 100
    text_tokens: Annotated[int, typer.Option(min=1, help="Texts are cut to this many.")] = 64
    prompts: Annotated[
        Literal["ours", "published"],
        typer.Option(help="Instructions: ours, or of AdaDPSyn's Tables 25 and 26."),
    ] = "ours"
    model: options.Model = None

    def rows(self, methods: str) -> list[Arm]:
        """What is compared.

        Args:
            methods: Names, separated by commas.

        Raises:
            ConfigurationError: A method is unknown.
        """
        from dpicl_research.synthetic_shots import arms

        return arms(names(methods), numbers(self.epsilon, "--epsilon", float))

    def settings(
        self, task: Task, model: LanguageModel, constants: Constants, queries: int = 0
    ) -> Settings:
        """Settings of a run.

        Raises:
            ConfigurationError: They do not fit each other.
        """
        from dpicl_research.synthetic_examples import settings_for

        adaptive = constants.adaptive()
        return settings_for(
            task,
            model,
            self.rate,
            seeds=self.seeds,
            shots=self.shots,
            queries=queries,
            delta=self.delta,
            max_tokens=self.max_tokens,
            experts=self.experts,
            per_expert=self.per_expert,
            candidates=self.candidates,
            text_tokens=self.text_tokens,
            adaptive=None if adaptive is None else asdict(adaptive),
            radius=constants.radius,
            prompts=self.prompts,
        )

    def folder(self, out: Path | None, kind: str) -> Path:
        """Where the run is kept."""
        return out or Path("runs") / f"{Path(self.task).name.split('.')[0]}-{kind}"


@console.reported(GOES_ON)
@option_groups.expanded
def synthetic(
    writing: Writing,
    constants: Constants,
    method: Methods = METHODS,
    queries: Annotated[int, typer.Option(min=1, help="Queries of a seed.")] = 100,
    out: Out = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a plot there, such as out.png.")
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Write shots privately, then label with them; beside no, real, noiseless, data-free shots."""
    from dpicl_research import synthetic_examples as evaluation
    from dpicl_research.synthetic_report import read_report
    from dpicl_research.tasks import load_task

    if plot is not None:
        optional("matplotlib", "dpicl-research")
    rows, task = writing.rows(method), load_task(writing.task)
    folder = writing.folder(out, "synthetic")
    with language_model(writing.model, 3, quiet=quiet) as loaded:
        settings = writing.settings(task, loaded, constants, queries)
        with console.Bar("Sets of shots", quiet=quiet, counts=True) as bar:
            evaluation.run(loaded, task, settings, rows, folder, bar.update)
    report = read_report(folder)
    if plot is not None:
        from dpicl_research.plots import save_synthetic

        save_synthetic(report, plot)
    show([report], as_json)


@console.reported(GOES_ON)
@option_groups.expanded
def synthetic_membership(
    writing: Writing,
    constants: Constants,
    method: Methods = METHODS,
    attacked: Annotated[
        int, typer.Option(min=1, help="Records to attack of each half, for every seed.")
    ] = 20,
    out: Out = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Attack shots that were written privately: is a record among those they were written from?"""
    from dpicl_research import synthetic_membership as membership
    from dpicl_research.tasks import load_task

    rows, task = writing.rows(method), load_task(writing.task)
    folder = writing.folder(out, "synthetic-membership")
    with language_model(writing.model, 3, quiet=quiet) as loaded:
        settings = writing.settings(task, loaded, constants)
        with console.Bar("Sets of shots", quiet=quiet, counts=True) as bar:
            membership.run(
                loaded, task, settings, rows, folder, attacked=attacked, on_progress=bar.update
            )
    show([membership.read_attacks(folder)], as_json)
