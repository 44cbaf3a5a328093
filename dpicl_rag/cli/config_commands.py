"""``config``: what options are when nobody writes them, and where that comes from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import typer

from dpicl_rag.cli import console, file_budgets, options, settings_file

app = typer.Typer(
    help="Show the settings that the settings file and the environment give to options.",
    no_args_is_help=True,
)


@app.command()
@console.reported()
def show(context: typer.Context, as_json: options.AsJson = False) -> None:
    """Show each setting, its value, and where that comes from.

    What is written on a command line comes before all of them.
    """
    found: settings_file.ChosenSettings = context.obj
    rows = [_row(found, name, variable) for name, variable in settings_file.variables().items()]
    served = sorted(found.settings.corpora)
    ledger = next(row["value"] for row in rows if row["name"] == "ledger")
    tables = found.budgets()
    said = file_budgets.standing(found, None if ledger is None else Path(ledger))
    budgets = [
        {"corpus": name, "budget": file_budgets.in_words(table), "standing": said[name]}
        for name, table in sorted(tables.items())
    ]
    if as_json:
        told = {"file": str(found.path), "settings": rows, "corpora": served, "budgets": budgets}
        console.write_json(told)
        return
    table = console.table("setting", "value", "from", box=None)
    for row in rows:
        value = "" if row["value"] is None else console.printable(str(row["value"]))
        table.add_row(row["name"], value, row["from"])
    console.stdout().print(table)
    if served:
        console.show(f"served: {', '.join(served)}", style="dim")
    for row in budgets:
        line = f"budget of {row['corpus']}: {row['budget']}, {row['standing']}"
        console.show(line)
    there = "" if found.path.exists() else " (not there)"
    console.show(f"settings file: {found.path}{there}", style="dim")


def _row(found: settings_file.ChosenSettings, name: str, variable: str) -> dict[str, Any]:
    told = getattr(found.settings, name)
    if os.environ.get(variable):
        return {"name": name, "value": os.environ[variable], "from": f"environment, {variable}"}
    if told is not None:
        return {"name": name, "value": told, "from": str(found.path)}
    return {"name": name, "value": None, "from": f"default ({variable})"}
