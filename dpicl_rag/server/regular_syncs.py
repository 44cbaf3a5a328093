"""Regular syncs: corpora that are served are brought up to date with their sources.

Each is the command ``dpicl-rag sync`` in a process of its own, so reading and embedding hold up no
answer, and one that is ended at any instant loses nothing. Whether it went through, and how long it
took, follows from documents: that is said to whoever runs the server, and to no caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dpicl_rag.answering.worker_threads import in_thread
from dpicl_rag.corpora import Corpus
from dpicl_rag.errors import DPICLError
from dpicl_rag.server.child_command import own_command, run_command
from dpicl_rag.server.service import Service

SyncCommand = Callable[[str], Sequence[str]]
"""A command line, from the name of a corpus."""

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
    command: SyncCommand
    tell: Callable[[str], None]
    most_seconds: float = MOST_SECONDS
    leads_by: float = LEADS_BY
    _failing: set[str] = field(default_factory=set)

    async def run(self, service: Service) -> None:
        """Go on until cancelled; what is under way then is interrupted, and goes on next time."""
        under_way: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                for name in list(service.corpora):
                    if name not in under_way or under_way[name].done():
                        under_way[name] = asyncio.create_task(self._sync(name, service))
                        await asyncio.wait([under_way[name]], timeout=self.leads_by)
                await asyncio.sleep(self.every)
        finally:
            for task in under_way.values():
                task.cancel()
            if under_way:
                await asyncio.wait(under_way.values())

    async def _sync(self, name: str, service: Service) -> None:
        failures = await self._failures(name, service)
        for line in failures:
            self.tell(f"sync of {name}: {line}")
        if failures:
            self._failing.add(name)
        elif name in self._failing:
            self._failing.discard(name)
            self.tell(f"sync of {name}: it goes through again")

    async def _failures(self, name: str, service: Service) -> list[str]:
        """Failures of a sync, a line for each source. It raises nothing."""
        try:
            if not await in_thread(_is_following, service.corpora[name].counted):
                return []
            ended = await run_command(self.command(name), most_seconds=self.most_seconds)
        except DPICLError as error:
            return [f"error: {error}"]
        except Exception as error:  # its message may quote a text
            return [f"internal error ({type(error).__name__})"]
        if ended.status is None:
            return [f"it took more than {self.most_seconds:,.0f} seconds, and goes on next time"]
        if ended.status == 0:
            return []
        return ended.errors or [f"it ended with status {ended.status}"]


def sync_command(*options: str, config: str | None = None) -> SyncCommand:
    """A command line of ``dpicl-rag sync``."""
    file = ("--config", config) if config else ()
    return lambda corpus: own_command(*file, "sync", corpus, "--quiet", *options)


def _is_following(source: object) -> bool:
    """True for a corpus of ours that knows where its documents are."""
    return isinstance(source, Corpus) and bool(source.followed.sources())
