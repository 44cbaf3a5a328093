"""The workers of one model: their start, their commands, their replacement."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from dpicl_rag._packaged import optional
from dpicl_rag.errors import ConfigurationError, EngineUnavailableError, ModelError
from dpicl_rag.language_models.out_of_memory import NotEnoughMemoryError
from dpicl_rag.language_models.ray.commands import Answer, Commands, End, Reply
from dpicl_rag.language_models.ray.worker import PART, Actor, ModelSource, parts_of, read_part

Write = Callable[[int, bool], Commands]
"""Commands for a worker; all from the beginning for one that knows nothing."""

_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # seconds between attempts


def connect(address: str | None, cpus: int) -> None:
    """Connect to a Ray cluster with a token, or start one in this machine.

    Args:
        address: Of a cluster that runs, as Ray takes it. None takes the connection that is there,
            that of the environment variable ``RAY_ADDRESS``, or a new cluster.
        cpus: How many a new cluster counts at least.

    Raises:
        ConfigurationError: The cluster cannot be reached, or has no token.
        MissingDependencyError: Ray is not installed.
    """
    ray = _ray()
    if not ray.is_initialized():
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_worker_niceness", "0")  # 15 else: behind all other processes
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        address = address or os.environ.get("RAY_ADDRESS") or "local"
        if address == "local":
            # None of this travels to a cluster that runs already.
            quiet |= {"include_dashboard": False, "num_cpus": max(cpus, os.cpu_count() or 1)}
        try:
            ray.init(address, **quiet)
        except Exception as error:
            raise ConfigurationError(
                f"the Ray cluster {address!r} cannot be reached or started "
                f"({type(error).__name__}); see `ray status`, and that RAY_AUTH_MODE and the token "
                "are the same on all nodes"
            ) from None
    if os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
        raise ConfigurationError(
            "without a token, whoever reaches the Ray cluster reads the documents; set "
            "RAY_AUTH_MODE=token on all nodes and in this process, before Ray starts"
        )


class WorkerPool:
    """Workers that each hold a copy of one model.

    All of them take part in everything, or nothing is done: an expert that is left out because its
    worker is gone would tell how experts were shared out. One that dies is replaced.

    Args:
        source: Where each worker's model comes from.
        size: How many workers.
        threads: Of torch, for each; as many CPUs are asked of Ray.
        gpus: GPUs of each, as Ray counts them.
        patience: Seconds that one call may take, with all its repeats. Public.
    """

    def __init__(
        self, source: ModelSource, size: int, *, threads: int, gpus: float, patience: float
    ) -> None:
        ray = _ray()
        packed = ray.cloudpickle.dumps(source)
        if len(packed) > PART:
            raise ConfigurationError(
                "the function that loads the model carries too much; let it load from a folder"
            )
        known = ray.cluster_resources()
        if known.get("CPU", 0) < size * threads or known.get("GPU", 0) < size * gpus:
            raise ConfigurationError(
                f"the Ray cluster has fewer CPUs or GPUs than {size} workers with {threads} "
                "threads need; ask for fewer workers or threads, or add nodes"
            )
        self._hire: Callable[[], Any] = lambda: (
            ray.remote(Actor)
            .options(
                num_cpus=threads,
                num_gpus=gpus,
                max_restarts=0,  # replaced here, where what they knew is known
                max_task_retries=0,
                scheduling_strategy="SPREAD",
                enable_task_events=False,
            )
            .remote(packed, threads)
        )
        self._patience = patience
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._actors = [self._hire() for _ in range(size)]
        self._hellos = [actor.hello.remote() for actor in self._actors]
        self._ended: list[deque[int]] = [deque() for _ in range(size)]
        self._bits: str | None = None

    def __repr__(self) -> str:
        return "WorkerPool()"

    @property
    def size(self) -> int:
        """Number of workers."""
        return len(self._actors)

    def meet(self, bits: str) -> None:
        """Wait until all have loaded the model.

        Args:
            bits: The digest of this process's own rows, which theirs must equal.

        Raises:
            EngineUnavailableError: They did not, in time.
            ModelError: A worker cannot load it, or computes other bits.
        """
        self._bits = bits
        until = time.monotonic() + self._patience
        for worker in range(self.size):
            try:
                self.check(worker, max(0.0, until - time.monotonic()))
                continue
            except _ray().exceptions.GetTimeoutError:
                error: ModelError = EngineUnavailableError()
            except _ray().exceptions.RayError:
                error = ModelError(
                    "a worker cannot start; see that all nodes of the Ray cluster have this "
                    "package and enough memory for the model"
                )
            raise error

    def send(self, write: Write) -> Sent:
        """Send commands to all workers; returns at once."""
        return Sent(self, write, self._patience)

    def dismiss(self) -> None:
        """End all workers."""
        for actor in self._actors:
            with contextlib.suppress(Exception):
                _ray().kill(actor)

    def tell(self, worker: int, commands: Commands) -> Call:
        """Send commands to one worker."""
        ends = []
        with contextlib.suppress(IndexError):  # other threads may take from it too
            while True:
                ends.append(End(self._ended[worker].popleft()))
        return Call(self._actors[worker], next(self._numbers), (*ends, *commands))

    def forget(self, rows: int) -> None:
        """Have workers forget rows with the next commands. Safe wherever an object may end."""
        for gone in self._ended:
            gone.append(rows)

    def check(self, worker: int, left: float) -> None:
        """See that a worker has loaded the model, and computes as this process does.

        Raises:
            GetTimeoutError: Ray's; it did not in time.
            ModelError: It does not.
            RayError: Ray's; it is gone.
        """
        hello = self._hellos[worker]
        if hello is None:
            return
        try:
            bits = _ray().get(hello, timeout=left)
        except _ray().exceptions.ActorUnavailableError:
            self._hellos[worker] = self._actors[worker].hello.remote()
            raise
        if not bits:
            raise ModelError(
                "a worker cannot load the model; its id, folder or function must work on every "
                "node of the Ray cluster"
            )
        if bits != self._bits:
            raise ModelError(
                "a worker computes other bits than this process, so that an answer would hang on "
                "where an expert is read; use machines of one kind, with the same versions"
            )
        self._hellos[worker] = None

    def replace(self, worker: int, gone: Any) -> None:
        """Put another actor in the place of one that is gone, unless somebody did."""
        with self._lock:
            if self._actors[worker] is gone:
                with contextlib.suppress(Exception):
                    _ray().kill(gone)
                self._actors[worker] = self._hire()
                self._hellos[worker] = self._actors[worker].hello.remote()


class Call:
    """Commands on their way to one actor, and the reply.

    Args:
        actor: Ray's handle.
        number: Of the message.
        commands: What is to be done.
    """

    def __init__(self, actor: Any, number: int, commands: Commands) -> None:
        self.actor = actor
        self._number = number
        self._parts = parts_of(number, pickle.dumps(commands))
        self.repeat()

    def repeat(self) -> None:
        """Send the same again: it is done once."""
        *parts, last = self._parts
        for at, part in enumerate(parts):
            self.actor.part.remote(at, part)
        self.reply = self.actor.run.remote(last)

    def rest(self, part: bytes, left: float) -> Reply:
        """Fetch what else belongs to a reply.

        Args:
            part: The first part.
            left: Seconds for it.
        """
        _, parts, first = read_part(part)
        more = [self.actor.more.remote(self._number, at) for at in range(1, parts)]
        found = _ray().get(more, timeout=left) if more else []
        if not all(found):
            return Reply("torn")
        whole = b"".join([first, *(read_part(part)[2] for part in found)])
        reply = pickle.loads(whole)  # noqa: S301 - from our own workers
        assert isinstance(reply, Reply)
        return reply


class Sent:
    """Commands on their way to all workers, and the replies.

    Args:
        pool: The workers.
        write: Their commands.
        patience: Seconds for all of it, from now on.
    """

    def __init__(self, pool: WorkerPool, write: Write, patience: float) -> None:
        self._pool = pool
        self._write = write
        self._until = time.monotonic() + patience
        self._calls = [pool.tell(worker, write(worker, False)) for worker in range(pool.size)]

    def each(self) -> Iterator[tuple[Answer, ...]]:
        """Answers of one worker after the other.

        Raises:
            EngineUnavailableError: One of them did not, in time.
            ModelError: One of them cannot.
            NotEnoughMemoryError: One of them has too little memory.
        """
        for worker in range(len(self._calls)):
            yield self._reply(worker).answers

    def _reply(self, worker: int) -> Reply:
        errors = _ray().exceptions
        pause = _PAUSE
        while True:
            call = self._calls[worker]
            try:
                self._pool.check(worker, self._left())
                part = _ray().get(call.reply, timeout=self._left())
                reply = call.rest(part, self._left())
            except errors.GetTimeoutError:
                reply = Reply("late")
            except errors.ActorUnavailableError:
                reply = Reply("unsure")
            except errors.RayError:
                reply = Reply("gone")
            match reply.code:
                case "done":
                    return reply
                case "memory":
                    raise NotEnoughMemoryError
                case "failed":
                    raise ModelError(
                        "a worker cannot compute what was asked; see that all nodes of the Ray "
                        "cluster have the same version of this package and of the model"
                    )
            if reply.code == "late":
                # It stands still, or would have: the next answer meets another.
                self._pool.replace(worker, call.actor)
            if reply.code == "late" or self._left() <= pause:
                raise EngineUnavailableError
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            if reply.code == "unsure":
                call.repeat()
                continue
            if reply.code == "gone":
                self._pool.replace(worker, call.actor)
            whole = reply.code != "torn"
            self._calls[worker] = self._pool.tell(worker, self._write(worker, whole))

    def _left(self) -> float:
        return max(0.0, self._until - time.monotonic())


def _ray() -> Any:
    return optional("ray", "ray", "Ray")
