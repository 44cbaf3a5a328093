"""The command line inside this process, for tests whose subject is no process."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import typer
from click import Command
from click.testing import CliRunner, Result

from dpicl_rag.cli import app


@cache
def program() -> Command:
    """All commands, read once: each time takes longer than most commands do."""
    return typer.main.get_command(app)


def run_command(
    *words: str, input: str | None = None, env: Mapping[str, str] | None = None
) -> Result:
    """Run ``dpicl-rag`` to its end; ``.output`` is stdout and stderr together.

    Args:
        *words: What stands behind its name.
        input: Its standard input.
        env: Variables beside those of this process.
    """
    return CliRunner().invoke(program(), words, input=input, env=env, prog_name="dpicl-rag")


def unwrapped(shown: str) -> str:
    """What was printed as one line, however wide the terminal is, and without a box's sides."""
    return " ".join(shown.replace("│", " ").split())
