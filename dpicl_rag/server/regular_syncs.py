"""Regular syncs: corpora that are served are brought up to date with their sources.

Each is the command ``dpicl-rag sync`` in a process of its own, so reading and embedding hold up no
answer, and one that is ended at any instant loses nothing. Whether it went through, and how long it
took, follows from documents: that is said to whoever runs the server, and to no caller.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from dpicl_rag.answering.answers import in_thread
from dpicl_rag.corpora import Corpus
from dpicl_rag.errors import DPICLError
from dpicl_rag.server.catalogue import Catalogue

Command = Callable[[str], Sequence[str]]
"""A command line, from the name of a corpus."""

_OWN = ("error: ", "internal error (")  # lines that a command says on purpose
_NICE = 10  # answers come first
_PATIENCE_S = 2.0  # for a sync that was asked to end

MOST_SECONDS = 6 * 3600.0
"""A sync that takes longer is ended, and goes on in the next round."""
LEADS_BY = 60.0
"""Seconds that a sync has to itself; the next corpus's begins then, whether it has ended or not."""


@dataclass(frozen=True)
class RegularSyncs:
    """Syncs one corpus after the other, then waits. One that hangs holds up no other.

    Attributes:
        every: Seconds between the end of a round and the next.
        command: What is run.
        tell: Takes a line for whoever runs the server.
        most_seconds: That a sync may take.
        leads_by: Seconds after which the next begins beside it.
    """

    every: float
    command: Command
    tell: Callable[[str], None]
    most_seconds: float = MOST_SECONDS
    leads_by: float = LEADS_BY
    _failing: set[str] = field(default_factory=set)

    async def run(self, catalogue: Catalogue) -> None:
        """Go on until cancelled; what is under way then is interrupted, and goes on next time.

        Args:
            catalogue: What is served, also what is offered later.
        """
        under_way: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                for name in list(catalogue.corpora):
                    if name not in under_way or under_way[name].done():
                        under_way[name] = asyncio.create_task(self._sync(name, catalogue))
                        await asyncio.wait([under_way[name]], timeout=self.leads_by)
                await asyncio.sleep(self.every)
        finally:
            for task in under_way.values():
                task.cancel()
            if under_way:
                await asyncio.wait(under_way.values())

    async def _sync(self, name: str, catalogue: Catalogue) -> None:
        self._note(name, await self._failures(name, catalogue))

    async def _failures(self, name: str, catalogue: Catalogue) -> list[str]:
        """What a sync has failed by, a line for each source. It raises nothing."""
        try:
            if not await in_thread(_is_following, catalogue.corpora[name].counted):
                return []
            return await _failures_of(self.command(name), self.most_seconds)
        except DPICLError as error:
            return [f"error: {error}"]
        except Exception as error:  # its message may quote a text
            return [f"internal error ({type(error).__name__})"]

    def _note(self, name: str, failures: Sequence[str]) -> None:
        for line in failures:
            self.tell(f"sync of {name}: {line}")
        if failures:
            self._failing.add(name)
        elif name in self._failing:
            self._failing.discard(name)
            self.tell(f"sync of {name}: it goes through again")


def sync_command(*options: str, config: str | None = None) -> Command:
    """A command line of ``dpicl-rag sync``.

    Args:
        options: Given in any case: store, ledger, embedder.
        config: The settings file.
    """
    start = [sys.executable, "-m", "dpicl_rag", *(["--config", config] if config else [])]
    return lambda corpus: [*start, "sync", corpus, "--quiet", *options]


def _is_following(source: object) -> bool:
    """Whether it is a corpus of ours that knows where its documents are."""
    return isinstance(source, Corpus) and bool(source.followed.sources())


async def _failures_of(command: Sequence[str], most_seconds: float) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,  # nobody answers what it may ask
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    if sys.platform != "win32":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
    try:
        _, said = await asyncio.wait_for(process.communicate(), most_seconds)
    except TimeoutError:
        return [f"it took more than {most_seconds:,.0f} seconds, and goes on next time"]
    finally:
        await _ended(process)
    if process.returncode == 0:
        return []
    lines = said.decode("utf-8", "replace").splitlines()
    # Whatever else stands there is no line of ours, and may quote a text.
    own = [line for line in lines if line.startswith(_OWN)]
    return own or [f"it ended with status {process.returncode}"]


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Let a process stop in order, or else at once."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT if sys.platform != "win32" else signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), _PATIENCE_S)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
