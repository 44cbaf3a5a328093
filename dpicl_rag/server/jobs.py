"""Jobs that owners start and watch: one at a time."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from dpicl_rag.answering.worker_threads import one_task
from dpicl_rag.errors import DPICLError
from dpicl_rag.server.api_keys import Caller
from dpicl_rag.server.child_command import PATIENCE_S
from dpicl_rag.server.failures import Refusal, refusal

JobKind = Literal["ingest", "audit", "publish"]
JobState = Literal["running", "done", "failed", "stopped"]
T = TypeVar("T")

_POLL = 0.2  # seconds
_PATIENCE_S = PATIENCE_S + 1.0  # for a job that was asked to end, by its command too
_SHOWN = (
    *("id", "kind", "corpus", "state", "stage"),
    *("done", "total", "seconds_left", "result", "error"),
)


class Stopped(Exception):
    """The owner, or the end of the server, has stopped a job."""


@dataclass(eq=False)
class Job:
    """One ingest, audit or publication. For its owner: how far it is follows from the documents.

    Attributes:
        kind: What is done.
        corpus: To which corpus.
        owner: The key that began it; None where no keys are in use.
        stage: What is done now, in words.
        done: How much of that is done.
        total: How much there is, where that is known.
        state: Whether it has ended, and how.
        result: What came of it.
        error: Why it failed, in one sentence.
        seconds_left: For what is done now, by its pace so far; None where that is not known.
    """

    kind: JobKind
    corpus: str
    owner: str | None
    stage: str = ""
    done: float = 0
    total: float | None = None
    state: JobState = "running"
    result: dict[str, Any] | None = None
    error: str | None = None
    id: str = field(default_factory=lambda: f"job-{secrets.token_hex(8)}")
    stopping: bool = False
    seconds_left: int | None = None
    _since: float = field(default_factory=time.monotonic)

    def at(self, stage: str, done: float = 0, total: float | None = None) -> None:
        """Note how far the job has come; may be called from any thread.

        Raises:
            Stopped: It shall not go on.
        """
        if self.stopping:
            raise Stopped
        now = time.monotonic()
        if stage != self.stage:
            self._since, self.seconds_left = now, None
        elif total is not None and 0 < done > self.done:
            self.seconds_left = math.ceil((now - self._since) / done * (total - done))
        self.stage, self.done, self.total = stage, done, total

    async def until_stopped(
        self, work: Awaitable[T], check: Callable[[], None] = lambda: None
    ) -> T:
        """The result of a part of the job.

        Args:
            work: The part.
            check: Called now and then; what it raises ends the part too.

        Raises:
            Stopped: The job shall not go on, and the part has ended.
        """
        async with one_task(work) as working:
            while not working.done():
                await asyncio.wait([working], timeout=_POLL)
                check()
                self.at(self.stage, self.done, self.total)
        return working.result()

    def view(self) -> dict[str, Any]:
        """As owners see it."""
        return {name: getattr(self, name) for name in _SHOWN}


Work = Callable[[Job], Awaitable[dict[str, Any]]]


class Jobs:
    """The job under way, or the last one."""

    def __init__(self) -> None:
        self.latest: Job | None = None
        self._task: asyncio.Task[None] | None = None

    def of(self, owner: Caller) -> Job | None:
        """The job under way, or the last one, if this owner's key began it."""
        mine = self.latest is not None and self.latest.owner == owner.id
        return self.latest if mine else None

    @contextmanager
    def begun(self, kind: JobKind, corpus: str, owner: Caller) -> Iterator[Job]:
        """Take the one place there is. ``run`` gives it back, or what the block raises.

        Raises:
            Refusal: Another job runs.
        """
        if self.latest is not None and self.latest.state == "running":
            raise Refusal(
                409,
                "another job is running; wait until it has ended, or stop it if it is yours",
                code="job_running",
            )
        job = self.latest = Job(kind, corpus, owner.id)
        try:
            yield job
        except BaseException as error:
            self._fail(job, error)
            raise

    def run(self, job: Job, work: Work) -> None:
        """Work on a job that has begun, beside the requests."""
        self._task = asyncio.create_task(self._run(job, work))

    def _fail(self, job: Job, error: BaseException) -> None:
        """End a job that could not go on.

        Owners see what the library says on purpose: of their own file, and they alone.
        """
        if job.stopping or isinstance(error, Stopped | asyncio.CancelledError):
            job.state, job.error = "stopped", None
        else:
            job.state = "failed"
            told = isinstance(error, DPICLError)
            job.error = str(error) if told else refusal(error).message

    async def _run(self, job: Job, work: Work) -> None:
        try:
            job.result = await work(job)
            job.state = "done"
        except BaseException as error:
            self._fail(job, error)
            if not isinstance(error, Exception):
                raise

    def stop(self) -> None:
        """Let the job end at its next step. What it has stored stays."""
        if self.latest is not None and self.latest.state == "running":
            self.latest.stopping = True

    async def close(self) -> None:
        """Stop the job and wait for its end, but not for ever."""
        self.stop()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_PATIENCE_S)
