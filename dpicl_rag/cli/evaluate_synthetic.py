"""``evaluate synthetic``: few-shot accuracy from examples that were written privately."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpicl_rag._packaged import optional
from dpicl_rag.cli import console, options
from dpicl_rag.cli.evaluate_parts import GOES_ON, Out, language_model, names, show


@console.reported(GOES_ON)
def synthetic(
    task: Annotated[
        str,
        typer.Option(metavar="TASK", help="agnews, trec or dbpedia; or a .csv or .jsonl file."),
    ],
    method: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="few-shot, few-shot-permute-and-flip, adaptive, difference, exponential, "
            "separated by commas; NAME:all reads all examples and takes no samples.",
        ),
    ] = "few-shot,adaptive,difference,exponential",
    epsilon: Annotated[
        str, typer.Option(metavar="NUMBERS", help="Of all texts of a method together.")
    ] = "1,2,4,8",
    delta: options.Delta = options.DELTA,
    seeds: Annotated[int, typer.Option(min=1, help="Sets of shots and queries.")] = 5,
    shots: Annotated[int, typer.Option(min=1, help="Labels that get a text.")] = 4,
    queries: Annotated[int, typer.Option(min=1, help="Queries of a seed.")] = 100,
    max_tokens: Annotated[int, typer.Option(min=1, help="Most tokens of a text.")] = 40,
    experts: Annotated[int, typer.Option(min=1, help="Experts expected at a token.")] = 20,
    rate: Annotated[
        float | None,
        typer.Option(
            help="Public rate of samples, fixed beforehand; --experts over a fixed size for a "
            "known task."
        ),
    ] = None,
    candidates: Annotated[int, typer.Option(min=1, help="Candidates of noisy sums.")] = 100,
    text_tokens: Annotated[int, typer.Option(min=1, help="Texts are cut to this many.")] = 64,
    model: options.Model = None,
    out: Out = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a plot there, such as out.png.")
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Write shots privately, then label with them; beside no, real and data-free shots."""
    from dpicl_rag.research import synthetic_examples as evaluation
    from dpicl_rag.research.tasks import load_task

    if plot is not None:
        optional("matplotlib", "eval")
    rows = evaluation.arms(names(method), options.numbers(epsilon, "--epsilon", float))
    loaded_task = load_task(task)
    folder = out or Path("runs") / f"{Path(task).name.split('.')[0]}-synthetic"
    with language_model(model, 3, quiet=quiet) as loaded:
        settings = evaluation.settings_for(
            loaded_task,
            loaded,
            rate,
            seeds=seeds,
            shots=shots,
            queries=queries,
            delta=delta,
            max_tokens=max_tokens,
            experts=experts,
            candidates=candidates,
            text_tokens=text_tokens,
        )
        with console.Bar("Sets of shots", quiet=quiet, counts=True) as bar:
            evaluation.run(loaded, loaded_task, settings, rows, folder, bar.update)
    report = evaluation.read_report(folder)
    if plot is not None:
        from dpicl_rag.research.plots import save_synthetic

        save_synthetic(report, plot)
    show([report], as_json)
