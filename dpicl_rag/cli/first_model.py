"""The first model of a newcomer: a toy comes with the package, a better one is offered once."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import typer
from platformdirs import user_cache_path

from dpicl_rag.cli import console, settings_file

_TOY = (
    "The language model that comes with dpicl-rag is a toy, for trying commands: few of its "
    "answers are right."
)
_FETCHED = "1.1 GB from the Hugging Face hub and about 4 minutes once, 3 GB in {folder}"
_ASKED = "answers from 64 documents take 30 to 60 seconds on two processors"


def chosen_model(named: str | None, *, asks: bool) -> str | None:
    """The model that was named; else ``small``, where a newcomer at a terminal wants it.

    They are asked once. A yes is kept in the settings file, where it can be changed, and a no in
    the user's cache folder.
    """
    there = asks and sys.stdin.isatty() and sys.stderr.isatty()
    if named is not None or not there or _declined().exists():
        return named
    from dpicl_rag.errors import ModelError
    from dpicl_rag.language_models.converted_models import SMALL

    console.note(_TOY)
    fetched = "is here" if SMALL.is_here else f"is fetched: {_FETCHED.format(folder=SMALL.place)}"
    console.note(f"A model of 1.5 billion parameters, small, {fetched}; {_ASKED}.")
    if not typer.confirm("Take small from now on?", err=True):
        with contextlib.suppress(OSError):
            _declined().parent.mkdir(parents=True, exist_ok=True)
            _declined().touch()
        return None
    try:
        with console.status("Fetching small, which takes minutes", quiet=False):
            SMALL.folder()
    except ModelError as error:
        console.note(f"{error}. The toy goes on.")
        return None
    _keep()
    return "small"


def _declined() -> Path:
    return user_cache_path("dpicl-rag") / "small-declined"


def _keep() -> None:
    """Name ``small`` in the settings file, before all that stands there."""
    from dpicl_rag.files.run_files import write_whole

    path = settings_file.current().path.resolve()
    try:
        before = path.read_bytes() if path.exists() else b""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, b'model = "small"\n' + before)
    except OSError:
        console.note(f"{path} cannot be written: give --model small each time")
        return
    console.note(f'model = "small" is in {path} now')
