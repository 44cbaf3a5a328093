"""The terminal: progress, results, one line per error, and no private text."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import math
import os
import sys
import time
import traceback
import unicodedata
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TextIO, TypeVar

import typer

from dpicl_rag.errors import DPICLError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

P = ParamSpec("P")
T = TypeVar("T")

_INTERRUPTED = 130  # 128 + SIGINT, as shells have it
_EVERY_S = 30.0
_tracebacks = False
_progress_lines = False


def show_tracebacks(wanted: bool) -> None:
    """Show or hide the places in the code that an error came through."""
    global _tracebacks
    _tracebacks = wanted


def tell_progress() -> None:
    """Write progress as JSON lines to stderr, for a program that started this one."""
    global _progress_lines
    _progress_lines = True


def quiet_libraries() -> None:
    """Silence warnings and logs of libraries: they may quote or count what they are given."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A paid token that the terminal's encoding lacks is shown as a question mark.
            stream.reconfigure(errors="replace")


def share_processors() -> None:
    """Let threads sleep while they wait for each other. Call it before torch is loaded.

    OpenMP lets them spin. Where another process needs a processor too, each of them then waits
    for one that does not run, and takes the time of those that could.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def reported(interrupted: str = "interrupted") -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Turn the exceptions of a command into one line on stderr and an exit status.

    Errors of this library end with status 1, an interrupt with 130. Of any other exception only
    the type is named: its message may quote a private text.
    """

    def wrap(command: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(command)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return command(*args, **kwargs)
            except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
                raise  # Typer knows what to do
            except KeyboardInterrupt:
                complain(interrupted)
                raise typer.Exit(_INTERRUPTED) from None
            except DPICLError as error:
                complain(f"error: {error}", error)
                raise typer.Exit(1) from None
            except Exception as error:
                complain(
                    f"internal error ({type(error).__name__}); run with --debug for a traceback "
                    "(dpicl-rag --debug COMMAND)",
                    error,
                )
                raise typer.Exit(1) from None

        return run

    return wrap


def complain(message: str, error: BaseException | None = None) -> None:
    """Print one line to stderr, after the way an error took if tracebacks are wanted."""
    if _tracebacks and error is not None:
        typer.echo(_way(error), err=True, nl=False)
    typer.echo(printable(" ".join(message.split())), err=True)


def note(message: str) -> None:
    """Print one line to stderr that is no error."""
    typer.echo(printable(message), err=True)


def printable(text: str) -> str:
    """The text without control characters, which could steer a terminal."""
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) != "Cc")


def write_piece(text: str) -> None:
    """Print a piece of an answer at once."""
    typer.echo(printable(text), nl=False)


def write_json(result: Mapping[str, Any]) -> None:
    """Print one JSON object to stdout."""
    typer.echo(json.dumps(result, allow_nan=False))


def stdout() -> Console:
    """The stream of results; made anew, since tests replace it."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False, emoji=False, markup=False)


def show(text: str, *, style: str | None = None) -> None:
    """Print text to stdout, each line of it as long as it is."""
    stdout().print(printable(text), style=style, soft_wrap=True)


def table(*titles: str, right: Collection[str] = (), **options: Any) -> Table:
    """A table without lines between its rows. Where it is narrow, words are broken, never cut.

    Args:
        titles: Of its columns.
        right: Those of columns whose cells stand at the right.
        **options: Of rich's ``Table``.
    """
    from rich import box
    from rich.table import Column, Table

    columns = (
        Column(one, justify="right" if one in right else "left", overflow="fold") for one in titles
    )
    return Table(*columns, **{"box": box.SIMPLE, **options})


def show_counts(counts: Mapping[str, int], title: str | None = None) -> None:
    """Print numbers by what they count."""
    found = table("what", "count", right=["count"], title=title, show_header=False)
    for label, count in counts.items():
        found.add_row(label, f"{count:,}")
    stdout().print(found)


@contextlib.contextmanager
def status(message: str, *, quiet: bool) -> Iterator[None]:
    """Show that something slow is going on, if somebody watches."""
    if not _watched(sys.stderr, quiet):
        yield
        return
    with _stderr().status(message):
        yield


@contextlib.contextmanager
def told(*kinds: type[Warning]) -> Iterator[None]:
    """Say warnings of some kinds on stderr, when the block is done; others stay quiet."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        for kind in kinds:
            warnings.simplefilter("always", kind)
        yield
    for warning in caught:
        note(f"warning: {warning.message}")


class ProgressLog:
    """Progress as lines of a log: one for each tenth, and where none came for 30 seconds.

    For the owner of what is counted, where nobody watches.

    Args:
        label: What is going on.
        counts: Say how many are done; else only which part.
        write: Takes a line.
        clock: Seconds; for tests.
    """

    def __init__(
        self,
        label: str,
        write: Callable[[str], None],
        *,
        counts: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._label = label
        self._write = write
        self._counts = counts
        self._clock = clock
        self._tenth = 0
        self._told = clock()

    def update(self, done: float, total: float | None) -> None:
        """Note how far it has come; ``total`` is None where it is not known."""
        tenth = math.floor(10 * done / total) if total else 0
        now = self._clock()
        if tenth > self._tenth or now - self._told >= _EVERY_S:
            self._tenth = max(tenth, self._tenth)
            self._told = now
            self._write(f"{self._label}: {self._far(done, total)}")

    def _far(self, done: float, total: float | None) -> str:
        if self._counts:
            return f"{done:,.0f}" + (f" of {total:,.0f}" if total else "")
        return f"{math.floor(100 * done / total)} %" if total else "begun"


class Bar:
    """A progress bar on stderr, there from the first update on and gone at the end.

    Args:
        label: What is going on.
        quiet: Never show it.
        counts: Show how many are done beside the bar. Only for the owner of what is counted:
            where others ask, a bar shows a part and nothing else.
        logged: Write lines now and then where stderr is no terminal. For the owner's work alone.
    """

    def __init__(
        self, label: str, *, quiet: bool, counts: bool = False, logged: bool = False
    ) -> None:
        self._label = label
        self._counts = counts
        self._shown = _watched(sys.stderr, quiet)
        self._log = None
        if logged and not (quiet or self._shown or _progress_lines):
            self._log = ProgressLog(label, note, counts=counts)
        self._progress: Progress | None = None
        self._percent = -1

    def update(self, done: float, total: float | None = 1.0) -> None:
        """Move the bar; ``total`` is None where it is not known."""
        if _progress_lines and total:
            self._tell(math.floor(100 * done / total))
        if self._log is not None:
            self._log.update(done, total)
        if not self._shown:
            return
        if self._progress is None:
            self._progress = self._made()
            self._progress.start()
            self._progress.add_task(self._label, total=total)
        self._progress.update(self._progress.task_ids[0], completed=done, total=total)

    def stop(self) -> None:
        """Take the bar away; a later update does not bring it back."""
        self._shown = False
        self._log = None
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _tell(self, percent: int) -> None:
        if percent != self._percent:
            self._percent = percent
            typer.echo(json.dumps({"progress": self._label, "percent": percent}), err=True)

    def _made(self) -> Progress:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
        )

        amount = MofNCompleteColumn() if self._counts else TaskProgressColumn()
        return Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            amount,
            console=_stderr(),
            transient=True,
        )


def _stderr() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def _watched(stream: TextIO, quiet: bool) -> bool:
    return not quiet and stream.isatty()


def _way(error: BaseException) -> str:
    """Files and lines, and the types of the errors. Neither messages nor values."""
    lines = [*traceback.format_tb(error.__traceback__), f"{type(error).__name__}\n"]
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is None:
        return "".join(lines)
    return _way(before) + "which led to\n" + "".join(lines)
