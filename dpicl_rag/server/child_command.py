"""Our own commands as child processes: followed, bounded in time and output, ended in order.

A command tells how far it is, and why it failed, in lines on its standard error. All of them may
follow from documents: they are for the owner, or for whoever runs the server.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

PATIENCE_S = 2.0
"""Seconds for a command that was asked to end."""

_RUN = "from dpicl_rag.cli import console, main; console.tell_progress(); main()"
_OWN = ("error: ", "internal error (")  # lines that a command says on purpose
_MOST_LINES = 1000
_MOST_BYTES = 2**14  # of a line
_NICE = 10


@dataclass(frozen=True, slots=True)
class EndedCommand:
    """The end of a command.

    Attributes:
        status: Its exit status; None where it took too long, and was ended.
        lines: The last lines that it said, but for progress. As private as the documents.
    """

    status: int | None
    lines: tuple[str, ...] = field(repr=False)

    @property
    def errors(self) -> list[str]:
        """The lines that it said on purpose; any other may quote a text."""
        return [line for line in self.lines if line.startswith(_OWN)]


def own_command(*words: str) -> list[str]:
    """The command line of ``dpicl-rag`` with some words, telling its progress."""
    return [sys.executable, "-c", _RUN, *words]


async def run_command(
    command: Sequence[str],
    *,
    most_seconds: float | None = None,
    on_progress: Callable[[str, int], None] = lambda stage, percent: None,
) -> EndedCommand:
    """Run a command to its end; it has ended in any case, also where the caller is cancelled.

    Others go before it: answers come first.

    Args:
        command: Its words.
        most_seconds: That it may take; None for any number.
        on_progress: Called with what it does now, and how much of that is done, of a hundred; what
            it raises ends the command.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,  # nobody answers what it may ask
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    if sys.platform != "win32":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
    assert process.stderr is not None
    said: deque[str] = deque(maxlen=_MOST_LINES)
    status = None
    try:
        async with asyncio.timeout(most_seconds):
            async for line in _lines(process.stderr):
                progress = _progress(line)
                if progress is not None:
                    on_progress(*progress)
                elif line:
                    said.append(line)
            status = await process.wait()
    except TimeoutError:
        pass
    finally:
        await _end(process)
    return EndedCommand(status, tuple(said))


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    """Each line, without blanks around it, and no more of it than its first bytes."""
    begun = b""
    while part := await stream.read(_MOST_BYTES):
        *whole, begun = (begun + part).split(b"\n")
        begun = begun[:_MOST_BYTES]
        for line in whole:
            yield line[:_MOST_BYTES].decode("utf-8", "replace").strip()
    yield begun.decode("utf-8", "replace").strip()


def _progress(line: str) -> tuple[str, int] | None:
    """Progress as `console.tell_progress` has it; None for any other line."""
    try:
        part = json.loads(line)
        return str(part["progress"]), int(part["percent"])
    except (ValueError, TypeError, KeyError):
        return None


async def _end(process: asyncio.subprocess.Process) -> None:
    """Let a process stop in order, or else kill it; it is gone however often we are cancelled."""
    with suppress(ProcessLookupError):  # our commands end in order when they are interrupted
        process.send_signal(signal.SIGINT if sys.platform != "win32" else signal.SIGTERM)
    until: float | None = asyncio.get_running_loop().time() + PATIENCE_S
    cancelled: asyncio.CancelledError | None = None
    while process.returncode is None:
        try:
            async with asyncio.timeout_at(until):
                await process.wait()
        except TimeoutError:
            until = None
            with suppress(ProcessLookupError):
                process.kill()
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
