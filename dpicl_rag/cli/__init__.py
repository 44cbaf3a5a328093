"""The command line ``dpicl-rag``.

One file per group of commands; this one only lists them, beside those of other packages
(``entry_points.py``). Commands import what they need when they run, so ``--help`` loads no torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpicl_rag import __version__
from dpicl_rag.cli import (
    ask,
    audit,
    budget_commands,
    classify_commands,
    config_commands,
    console,
    corpora_commands,
    demo,
    doctor,
    entry_points,
    ingest,
    key_commands,
    memory_commands,
    model_commands,
    publish,
    serve,
    settings_file,
    sync,
    synthesise,
    tabular_commands,
    tally,
)

app = typer.Typer(
    name="dpicl-rag",
    help="Answers from private documents with a differential privacy guarantee.",
    no_args_is_help=True,
    # Typer's own tracebacks print local variables, which hold private texts.
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dpicl-rag {__version__}")
        raise typer.Exit


@app.callback()
@console.reported()
def _settings(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar=settings_file.ENVIRONMENT,
            help="The settings file, in place of dpicl-rag.toml in your configuration folder; see "
            "`dpicl-rag config show`.",
        ),
    ] = None,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", help="Show where an error came from. Messages and values are left out."
        ),
    ] = False,
    _: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    console.show_tracebacks(debug)
    context.obj = settings_file.choose(config)
    context.default_map = settings_file.defaults_of(context.obj.settings, context.command)


# A new command is one more line here. `console.reported` on it keeps its errors to one line.
app.command("ingest")(ingest.ingest)
app.command("sync")(sync.sync)
app.command("ask")(ask.ask)
app.command("classify")(classify_commands.classify)
app.command("count")(tally.count)
app.command("tally")(tally.tally)
app.command("survey")(tally.survey)
app.command("classify-image")(classify_commands.classify_image)
app.command("publish")(publish.publish)
app.command("serve")(serve.serve)
app.command("mcp")(serve.mcp)
app.command("audit")(audit.audit)
app.command("probe-reader")(audit.probe_reader)
app.command("doctor")(doctor.doctor)
app.command("demo")(demo.demo)
app.add_typer(config_commands.app, name="config")
app.add_typer(budget_commands.app, name="budget")
app.add_typer(corpora_commands.app, name="corpora")
app.add_typer(memory_commands.app, name="memory")
app.add_typer(key_commands.app, name="keys")
app.add_typer(model_commands.app, name="models")
app.add_typer(synthesise.app, name="synthesise")
app.add_typer(tabular_commands.app, name="tabular")
entry_points.add_commands(app)


def main() -> None:
    """Run the command line."""
    console.quiet_libraries()
    console.share_processors()
    app(prog_name="dpicl-rag")
