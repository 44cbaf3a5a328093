"""``evaluate label-head``: heads that are released once, against a private logistic regression."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpicl_rag.cli import console, options
from dpicl_research.commands.evaluate_parts import names, numbers, show


@console.reported()
def label_head(
    task: Annotated[
        str,
        typer.Option(
            metavar="TASK,...", help="Tasks by name, or a .csv or .jsonl file of texts and labels."
        ),
    ] = "agnews,trec,dbpedia",
    epsilon: Annotated[
        str, typer.Option(metavar="NUMBERS", help="Each of all answers together.")
    ] = "1,4,8",
    delta: options.Delta = options.DELTA,
    noises: Annotated[int, typer.Option(min=1, help="Releases at each epsilon.")] = 20,
    examples: Annotated[int, typer.Option(min=1, help="Most private examples.")] = 3000,
    queries: Annotated[int, typer.Option(min=1, help="Most queries.")] = 500,
    test_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Queries for a task file.")
    ] = None,
    embedder: options.Embedding = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Accuracy of released label heads, and of a logistic regression by noisy gradients."""
    from dpicl_rag.cli.data_folder import load_embedder
    from dpicl_research.label_heads import compare_heads
    from dpicl_research.tasks import load_task

    given = numbers(epsilon, "--epsilon", float)
    loaded = [load_task(name, test_file=test_file) for name in names(task)]
    reports = []
    for one in loaded:
        with console.Bar(f"Heads of {one.name}", quiet=quiet, counts=True) as bar:
            found = compare_heads(
                one,
                given,
                noises=noises,
                examples=examples,
                queries=queries,
                delta=delta,
                embedder=load_embedder(embedder),
                on_progress=bar.update,
            )
        reports.append(found)
    show(reports, as_json)
