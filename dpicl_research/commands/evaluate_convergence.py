"""``evaluate convergence``: a product of experts against one prompt, as examples are added."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpicl_rag._packaged import optional
from dpicl_rag.cli import console, options
from dpicl_research.commands.evaluate_parts import show


@console.reported()
def convergence(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="Folder of a run of --methods zero-shot,k-shot,soft with several --experts, such "
            "as 1,2,4,8,16.",
        ),
    ],
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a plot there, such as out.png.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Distance, interaction and margin by number of examples; the model is not asked again."""
    from dpicl_research.convergence import build_convergence_report
    from dpicl_research.scores_folder import load_run

    if plot is not None:
        optional("matplotlib", "dpicl-research")
    report = build_convergence_report(load_run(run))
    if plot is not None:
        from dpicl_research.plots import save_convergence

        save_convergence(report, plot)
    show([report], as_json)
