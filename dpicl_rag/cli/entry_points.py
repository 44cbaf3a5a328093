"""Commands of other packages, found by their entry points.

A package adds a group of commands, a Typer app, under a name of its own::

    [project.entry-points."dpicl_rag.commands"]
    evaluate = "dpicl_research.commands.evaluate:app"
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

import typer

from dpicl_rag.cli import console
from dpicl_rag.errors import MissingDependencyError

GROUP = "dpicl_rag.commands"


def add_commands(app: typer.Typer) -> None:
    """Add what is installed; a command that cannot be loaded says so when it is called."""
    for entry in entry_points(group=GROUP):
        try:
            found = entry.load()
            if not isinstance(found, typer.Typer):
                raise TypeError(f"{entry.value} is no Typer app")
        except Exception as error:
            _add_refusal(app, entry, error)
        else:
            app.add_typer(found, name=entry.name)


def _add_refusal(app: typer.Typer, entry: EntryPoint, error: Exception) -> None:
    """Keep the other commands, and have this one name the remedy."""
    package = entry.dist.name if entry.dist else entry.module
    refused = MissingDependencyError(
        f"the command {entry.name} cannot be loaded ({type(error).__name__}: {error}); "
        f"run `pip install --force-reinstall {package}`"
    )

    @app.command(
        entry.name,
        help="Cannot be loaded.",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )
    @console.reported()
    def refuse() -> None:
        raise refused from error
