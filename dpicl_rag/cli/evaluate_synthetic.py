"""``evaluate synthetic``: few-shot accuracy from examples that were written privately."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpicl_rag._packaged import optional
from dpicl_rag.cli import console, options
from dpicl_rag.cli.evaluate_tables import show_tables
from dpicl_rag.mechanisms.randomness import NotPrivateWarning


@console.reported("interrupted; the same command goes on where it stopped")
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
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of the run; one that was interrupted goes on. runs/TASK-synthetic by "
            "default.",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a plot there, such as out.png.")
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Write shots privately, then label with them; beside no, real and data-free shots."""
    from dpicl_rag.language_models.load_language_model import load_language_model
    from dpicl_rag.language_models.prefix_cache import PrefixCache
    from dpicl_rag.research import synthetic_examples as evaluation
    from dpicl_rag.research.tasks import load_task

    if plot is not None:
        optional("matplotlib", "eval")
    names = list(dict.fromkeys(name.strip() for name in method.split(",") if name.strip()))
    rows = evaluation.arms(names, options.numbers(epsilon, "--epsilon", float))
    loaded_task = load_task(task)
    folder = out or Path("runs") / f"{Path(task).name.split('.')[0]}-synthetic"
    with (
        console.told(NotPrivateWarning),
        console.status("Loading the language model", quiet=quiet),
    ):
        loaded = load_language_model(model, PrefixCache(3 << 30))
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
    found, lines = evaluation.read_results(folder)
    if plot is not None:
        from dpicl_rag.research.plots import save_synthetic

        save_synthetic(found, lines, plot)
    if as_json:
        console.write_json(evaluation.summary(found, lines))
        return
    show_tables([evaluation.table(found, lines)])
