"""The workers of one model: their start, and requests to them.

Ray starts a worker again that died, and repeats what it was asked; see `worker_messages`.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import pickle
import time
from collections.abc import Callable, Iterator
from typing import Any

from dpicl_rag._packaged import optional
from dpicl_rag.errors import ConfigurationError, EngineUnavailableError, ModelError
from dpicl_rag.language_models.hardware import NotEnoughMemoryError
from dpicl_rag.language_models.ray.worker import Actor, ModelSource
from dpicl_rag.language_models.ray.worker_messages import (
    PART,
    Answer,
    Reply,
    WorkerRequest,
    message_of,
    number_of_parts,
    parts_of,
)

RequestFor = Callable[[int, bool], WorkerRequest]
"""The request to a worker; with what rows begin with, for one that does not know."""


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
    worker is gone would tell how experts were shared out.

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
        actor = ray.remote(Actor).options(
            num_cpus=threads,
            num_gpus=gpus,
            max_restarts=-1,
            max_task_retries=-1,
            scheduling_strategy="SPREAD",
            enable_task_events=False,
        )
        self.actors = [actor.remote(packed, threads) for _ in range(size)]
        # A worker that dies while it loads the model would do so again.
        self._hellos = [actor.hello.options(max_task_retries=0).remote() for actor in self.actors]
        self.patience = patience
        self._bits = ""
        self._numbers = itertools.count()
        self._rows: set[int] = set()

    def __repr__(self) -> str:
        return "WorkerPool()"

    @property
    def size(self) -> int:
        """Number of workers."""
        return len(self.actors)

    @property
    def rows(self) -> frozenset[int]:
        """Numbers of all rows that somebody has."""
        return frozenset(self._rows)

    def new_rows(self) -> int:
        """A number for new rows."""
        number = next(self._numbers)
        self._rows.add(number)
        return number

    def forget(self, rows: int) -> None:
        """Have workers forget rows with the next requests. Safe wherever an object may end."""
        self._rows.discard(rows)

    def meet(self, bits: str) -> None:
        """Wait until all have loaded the model.

        Args:
            bits: The digest of this process's own rows, which theirs must equal.

        Raises:
            EngineUnavailableError: They did not, in time.
            ModelError: A worker cannot load it, or computes other bits.
        """
        self._bits = bits
        until = time.monotonic() + self.patience
        for hello in self._hellos:
            try:
                self.check(_ray().get(hello, timeout=max(0.0, until - time.monotonic())))
                continue
            except _ray().exceptions.GetTimeoutError:
                error: ModelError = EngineUnavailableError()
            except _ray().exceptions.RayError:
                error = ModelError(
                    "a worker cannot start; see that all nodes of the Ray cluster have this "
                    "package and enough memory for the model"
                )
            raise error

    def check(self, bits: str) -> None:
        """Check that a worker has loaded the model, and computes as this process does.

        Raises:
            ModelError: It does not.
        """
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

    @contextlib.contextmanager
    def send(self, rows: int, request: RequestFor, *, whole: bool) -> Iterator[list[Call]]:
        """Requests on their way to all workers. Where the block fails, they are given up.

        Args:
            rows: Which rows it is about. They send the next one when this one is answered.
            request: That of a worker.
            whole: Whether no worker knows what the rows begin with.
        """
        calls = [Call(self, worker, rows, request, whole) for worker in range(self.size)]
        try:
            yield calls
        except BaseException:
            for call in calls:
                call.give_up()
            raise

    def dismiss(self) -> None:
        """End all workers."""
        for actor in self.actors:
            with contextlib.suppress(Exception):
                _ray().kill(actor)


class Call:
    """A request on its way to one worker, and the reply."""

    def __init__(
        self, pool: WorkerPool, worker: int, rows: int, request: RequestFor, whole: bool
    ) -> None:
        self._pool = pool
        self._worker = worker
        self._actor = pool.actors[worker]
        self._rows = rows
        self._request = request
        self._until = time.monotonic() + pool.patience
        self._send(whole)

    def answers(self) -> tuple[Answer, ...]:
        """The worker's answers.

        Raises:
            EngineUnavailableError: They did not come in time.
            ModelError: It cannot give them.
            NotEnoughMemoryError: It has too little memory.
        """
        while (reply := self._reply()) is not None:
            match reply.code:
                case "done":
                    return reply.answers
                case "lacks":
                    self._send(whole=True)
                case "memory":
                    raise NotEnoughMemoryError
                case "failed":
                    raise ModelError(
                        "a worker cannot compute what was asked; see that all nodes of the Ray "
                        "cluster have the same version of this package and of the model"
                    )
        self.give_up()
        # It stands still, or would have: the next answer meets another.
        with contextlib.suppress(Exception):
            _ray().kill(self._actor, no_restart=False)
        raise EngineUnavailableError

    def give_up(self) -> None:
        """Have Ray not repeat it. It may be what ends the worker: nobody would get an answer."""
        with contextlib.suppress(Exception):
            _ray().cancel(self._replied)

    def _send(self, whole: bool) -> None:
        first, *later = parts_of(pickle.dumps(self._request(self._worker, whole)))
        for at, part in enumerate(later, start=1):
            self._actor.hold.remote(self._rows, at, part)
        self._replied = self._actor.run.remote(self._rows, first)

    def _reply(self) -> Reply | None:
        """The reply; None where it does not come."""
        try:
            first = self._get(self._replied)
            more = range(1, number_of_parts(first))
            later = self._get([self._actor.more.remote(self._rows, at) for at in more])
        except _ray().exceptions.RayError:
            return None
        message = message_of([first, *later])
        if message is None:
            return Reply("lacks", "")  # the worker was started again before it told the rest
        reply = pickle.loads(message)  # noqa: S301 - from our own workers
        assert isinstance(reply, Reply)
        self._pool.check(reply.bits)
        return reply

    def _get(self, result: Any) -> Any:
        return _ray().get(result, timeout=max(0.0, self._until - time.monotonic()))


def _ray() -> Any:
    return optional("ray", "dpicl-rag[ray]", "Ray")
