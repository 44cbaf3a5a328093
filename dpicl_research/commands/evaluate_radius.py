"""``evaluate radius``: what the radius search of the adaptive method finds."""

from __future__ import annotations

from typing import Annotated

import typer

from dpicl_rag.cli import console, option_groups, options
from dpicl_rag.cli.synthesise import Constants
from dpicl_research.commands.evaluate_parts import language_model, show
from dpicl_research.commands.evaluate_synthetic import Writing


@console.reported()
@option_groups.expanded
def radius(
    writing: Writing,
    constants: Constants,
    method: Annotated[
        str, typer.Option(metavar="NAMES", help="adaptive, adaptive:published, or both.")
    ] = "adaptive",
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """The radius of AdaDPSyn: exactly, where experts agree and where not; and token by token."""
    from dpicl_research.radius_search import measure
    from dpicl_research.tasks import load_task

    rows = [arm for arm in writing.rows(method) if arm.epsilon is not None]
    task = load_task(writing.task)
    with (
        language_model(writing.model, 3, quiet=quiet) as loaded,
        console.Bar("Texts", quiet=quiet, counts=True) as bar,
    ):
        report = measure(loaded, task, writing.settings(task, loaded, constants), rows, bar.update)
    show([report], as_json)
